/** Owns the reason of a task's last trouble: how its last run ended, or why there was none. Pure. */
import type { TaskEvent, TaskState } from '../api/wire.js';

/** After each of these it is known whether the task is on its way to a start; only `Restarting` says that it is. */
const TURNS: ReadonlySet<string> = new Set(['Started', 'Terminated', 'Restarting', 'Not Restarting']);

/**
 * What happened last, in a few words; '' when nothing has. A run may have ended and the next one not even started: then
 * what kept it from starting is the news, not the old exit.
 */
export function lastTrouble(state: TaskState): string {
  const { KillReason, LastExit, PhaseDetail } = state.Holdfast;
  // A task that was ended as failed ended as it was told to: why it was told is the news.
  if (state.Failed && KillReason !== null) return KillReason;
  const last = state.Events.findLast(
    (event, index) => event.Type === 'Terminated' || isFailedStart(event, state.Events.slice(0, index)),
  );
  if (last !== undefined && last.Type !== 'Terminated') return last.DisplayMessage;
  if (LastExit !== null) return LastExit.Text;
  return state.Events.findLast(({ FailsTask }) => FailsTask)?.DisplayMessage ?? PhaseDetail;
}

/** A hook may fail at any time; a start it can keep from happening only before there is one. */
function isFailedStart(event: TaskEvent, before: readonly TaskEvent[]): boolean {
  const { Type, DriverError, SetupError, DownloadError, ValidationError } = event;
  if ([DriverError, SetupError, DownloadError, ValidationError].some((error) => error !== '')) return true;
  if (Type !== 'Task hook failed') return false;
  const turn = before.findLast((earlier) => TURNS.has(earlier.Type));
  return turn === undefined || turn.Type === 'Restarting';
}
