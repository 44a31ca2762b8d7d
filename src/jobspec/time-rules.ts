/** Owns the times of a group as a whole: `shutdown_delay` and `max_run_duration`, and the rules for them. */
import type { Found } from './blocks.js';
import type { Session } from './session.js';
import type { JobType, TaskGroup } from './types.js';

export interface TimeSources {
  readonly type: JobType;
  readonly shutdownDelay: Found<number> | undefined;
  /** Of the group, else of the job. */
  readonly maxRun: Found<number> | undefined;
}

/** What is not set, or set to nothing, is not there. */
export function resolveTimes(
  { type, shutdownDelay, maxRun }: TimeSources,
  session: Session,
): Pick<TaskGroup, 'shutdownDelayMs' | 'maxRunMs'> {
  const shutdownDelayMs = shutdownDelay?.value ?? 0;
  const maxRunMs = maxRun?.value ?? 0;
  if (maxRun !== undefined && maxRunMs > 0 && type !== 'batch' && type !== 'sysbatch') {
    const message = `a \`${type}\` job has no \`max_run_duration\`: it runs until it is stopped`;
    const isTold = session.faults.some((fault) => fault.path === maxRun.spot.path);
    if (!isTold) session.fault(maxRun.spot, message);
  }
  return {
    ...(shutdownDelayMs === 0 ? {} : { shutdownDelayMs }),
    ...(maxRunMs === 0 ? {} : { maxRunMs }),
  };
}
