/** The order table of docs/events.md as a checker: what may follow what in the history of one task. */
import type { StampedTaskEvent, TaskEventType } from '../../src/events/task-event.js';

/**
 * Where a task is, as far as its events tell: before the first one; without a workload; with one; after an attempt that
 * ended or failed, while it is decided what follows; ended for good.
 */
export type Place = 'unborn' | 'idle' | 'up' | 'ended' | 'over';

/** For each type, where it may be said, and where that leads. */
export const EVENT_ORDER: Readonly<Record<TaskEventType, Partial<Readonly<Record<Place, Place>>>>> = {
  Received: { unborn: 'idle' },
  'Task Setup': { idle: 'idle' },
  'Failed Validation': { idle: 'ended' },
  'Driver Failure': { idle: 'ended' },
  Driver: { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Task hook failed': { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Task hook message': { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Downloading Artifacts': { idle: 'idle' },
  'Failed Artifact Download': { idle: 'ended' },
  Template: { idle: 'idle', up: 'up', ended: 'ended' },
  Started: { idle: 'up' },
  // Only an end whose beginning nobody saw comes without Started.
  Terminated: { up: 'ended', idle: 'ended' },
  Restarting: { ended: 'idle', idle: 'idle' },
  'Not Restarting': { ended: 'over', idle: 'over' },
  'Restart Signaled': { up: 'up', idle: 'idle', ended: 'ended', over: 'ended' },
  Signaling: { up: 'up' },
  // The delay of the group is told to a task that may just be ending by itself.
  'Waiting for Shutdown Delay': { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Skipping Shutdown Delay': { up: 'up' },
  Killing: { up: 'up' },
  Killed: { idle: 'over', ended: 'over' },
  'Kill Failed': { up: 'up' },
  'Sibling Task Failed': { idle: 'idle', up: 'up', ended: 'ended' },
  'Leader Task Dead': { idle: 'idle', up: 'up', ended: 'ended' },
  'Main Tasks Dead': { idle: 'idle', up: 'up', ended: 'ended' },
  'Alloc Unhealthy': { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Check Failing': { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Check Passing': { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  Exec: { idle: 'idle', up: 'up', ended: 'ended', over: 'over' },
  'Supervision Lost': { idle: 'idle', up: 'up' },
  'Failed Restoring Task': { idle: 'idle', up: 'up' },
};

/** @returns what is wrong with the order or the numbers of a task's whole history; undefined when nothing is */
export function faultInHistory(history: readonly StampedTaskEvent[]): string | undefined {
  let place: Place = 'unborn';
  let hookFailed = false;
  for (const [position, { seq, event }] of history.entries()) {
    const soFar = history.slice(0, position + 1).map((earlier) => earlier.event.type);
    if (seq !== position + 1) return `event ${position + 1} has the number ${seq}: ${soFar.join(', ')}`;
    const next: Place | undefined = EVENT_ORDER[event.type][place];
    if (next === undefined) return `${event.type} while ${place}: ${soFar.join(', ')}`;
    const unseen = event.type === 'Terminated' && event.result.kind === 'unknown';
    if (event.type === 'Terminated' && place === 'idle' && !unseen)
      return `Terminated without Started: ${soFar.join(', ')}`;
    const decided = event.type === 'Restarting' || event.type === 'Not Restarting';
    if (decided && place === 'idle' && !hookFailed) return `${event.type} for no reason: ${soFar.join(', ')}`;
    hookFailed = place === 'idle' && event.type === 'Task hook failed';
    place = next;
  }
  return undefined;
}
