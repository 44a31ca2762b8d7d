/** Owns the two times that an alloc as a whole is given: `max_run_duration`, and the group's `shutdown_delay`. Pure. */
import type { TaskGroup } from '../jobspec/types.js';
import type { AllocRecord, Moment } from '../state/store.js';
import { elapsedMs } from '../taskrunner/restart-policy.js';

export interface RunTimeState {
  readonly runTime: AllocRecord['runTime'];
  /** When to look again if nothing happens; undefined = never. */
  readonly lookAgainInMs: number | undefined;
}

/**
 * Where the alloc stands with its `max_run_duration`. The time begins when the alloc is first seen, goes on while the
 * agent or the host is down, and is moved by nothing but another duration.
 */
export function decideRunTime(
  alloc: Pick<AllocRecord, 'runTime'>,
  group: Pick<TaskGroup, 'maxRunMs'>,
  now: Moment,
): RunTimeState {
  const known = alloc.runTime;
  if (known?.isOver === true || group.maxRunMs === undefined) {
    return { runTime: known, lookAgainInMs: undefined };
  }
  const runTime = known ?? { since: now, isOver: false };
  const leftMs = group.maxRunMs - elapsedMs(runTime.since, now);
  if (leftMs > 0) return { runTime, lookAgainInMs: leftMs };
  return { runTime: { ...runTime, isOver: true }, lookAgainInMs: undefined };
}

/** The alloc's description then, and the reason of its tasks' end. */
export const RUN_TIME_OVER = 'allocation exceeded max_run_duration';

/** What is left of the group's `shutdown_delay` of an alloc that is to end: 0 = its tasks may be ended. */
export function leftOfShutdownDelayMs(
  alloc: Pick<AllocRecord, 'endingSince' | 'noShutdownDelay'>,
  group: Pick<TaskGroup, 'shutdownDelayMs'>,
  now: Moment,
): number {
  const delayMs = group.shutdownDelayMs ?? 0;
  if (delayMs === 0 || alloc.noShutdownDelay) return 0;
  return alloc.endingSince === undefined ? delayMs : Math.max(0, delayMs - elapsedMs(alloc.endingSince, now));
}
