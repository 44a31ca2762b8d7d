/** Owns how the states of an alloc's tasks become the one status that people look at. Pure. */
import type { ClientStatus, TaskRecord } from '../state/store.js';

import { RUN_TIME_OVER } from './run-time.js';

export interface AllocStatus {
  readonly status: ClientStatus;
  readonly description: string;
}

/**
 * First match wins, as in Nomad: out of its run time and ended, failed, running, pending, complete.
 * @param isRunTimeOver its `max_run_duration` is why it ends
 */
export function reduceClientStatus(tasks: readonly TaskRecord[], isRunTimeOver = false): AllocStatus {
  const { status, description } = reduceStatus(tasks);
  if (!isRunTimeOver) return { status, description };
  return { status: allDead(tasks) ? 'complete' : status, description: RUN_TIME_OVER };
}

function reduceStatus(tasks: readonly TaskRecord[]): AllocStatus {
  if (tasks.some((task) => task.state === 'dead' && task.failed)) {
    return { status: 'failed', description: 'Failed tasks' };
  }
  if (tasks.some((task) => task.state === 'running')) {
    return { status: 'running', description: 'Tasks are running' };
  }
  if (tasks.some((task) => task.state === 'pending')) {
    return { status: 'pending', description: 'No tasks have started' };
  }
  return { status: 'complete', description: 'All tasks have completed' };
}

/** True when nothing of the alloc runs or will run by itself. */
export function allDead(tasks: readonly TaskRecord[]): boolean {
  return tasks.every((task) => task.state === 'dead');
}

/** True for a status that does not change any more. */
export function isTerminal(status: ClientStatus): boolean {
  return status === 'complete' || status === 'failed' || status === 'lost';
}
