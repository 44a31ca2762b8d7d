/** Owns the reason of a task's last trouble: how its last run ended, or why there was none. Pure. */
import type { TaskState } from '../api/wire.js';

/**
 * What happened last, in a few words; '' when nothing has. A run may have ended and the next one not even started: then
 * what kept it from starting is the news, not the old exit.
 */
export function lastTrouble(state: TaskState): string {
  const { KillReason, LastExit, PhaseDetail } = state.Holdfast;
  // A task that was ended as failed ended as it was told to: why it was told is the news.
  if (state.Failed && KillReason !== null) return KillReason;
  const last = state.Events.findLast(
    ({ Type, DriverError, SetupError, DownloadError }) =>
      Type === 'Terminated' || DriverError !== '' || SetupError !== '' || DownloadError !== '',
  );
  if (last !== undefined && last.Type !== 'Terminated') return last.DisplayMessage;
  if (LastExit !== null) return LastExit.Text;
  return state.Events.findLast(({ FailsTask }) => FailsTask)?.DisplayMessage ?? PhaseDetail;
}
