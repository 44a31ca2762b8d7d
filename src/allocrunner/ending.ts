/**
 * Owns when the tasks of an alloc have to end together, and in which order. Pure, and a function of the stored records
 * alone: an agent that comes back goes on with an ending where it was.
 */
import { isSidecar, roleOf } from '../jobspec/lifecycle.js';
import type { TaskEvent } from '../events/task-event.js';
import type { AllocRecord } from '../state/store.js';
import type { GatedTask } from './lifecycle-gate.js';

/** Why the tasks shall end, for people, and what is told to each of them first. */
export interface Ending {
  readonly reason: string;
  readonly because: TaskEvent | undefined;
}

/** First match wins. A poststop task ends nothing and is ended by nothing: it is what runs at the end. */
export function decideEnding(
  alloc: Pick<AllocRecord, 'desiredStatus' | 'desiredDescription'>,
  tasks: readonly GatedTask[],
): Ending | undefined {
  if (alloc.desiredStatus === 'stop') return { reason: alloc.desiredDescription, because: undefined };
  const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
  const failed = others.find(({ record }) => record.state === 'dead' && record.failed);
  if (failed !== undefined) {
    return {
      reason: `task ${JSON.stringify(failed.task.name)} of the group failed`,
      because: { type: 'Sibling Task Failed', sibling: failed.task.name },
    };
  }
  const leader = others.find(({ task, record }) => task.leader && record.state === 'dead');
  if (leader !== undefined) {
    return {
      reason: `leader task ${JSON.stringify(leader.task.name)} is dead`,
      because: { type: 'Leader Task Dead', leader: leader.task.name },
    };
  }
  const live = others.filter(({ record }) => record.state !== 'dead');
  if (live.length > 0 && live.every(({ task }) => isSidecar(roleOf(task)))) {
    return { reason: 'main tasks are dead', because: { type: 'Main Tasks Dead' } };
  }
  return undefined;
}

/**
 * Who is to be killed now: the leader alone, then all others but sidecars, then the sidecars. A later wave waits until
 * the one before is dead.
 */
export function nextToEnd(tasks: readonly GatedTask[]): readonly GatedTask[] {
  const waves = [
    tasks.filter(({ task }) => task.leader),
    tasks.filter(({ task }) => !task.leader && !isSidecar(roleOf(task))),
    tasks.filter(({ task }) => !task.leader && isSidecar(roleOf(task))),
  ];
  for (const wave of waves) {
    const live = wave.filter(({ task, record }) => roleOf(task) !== 'poststop' && record.state !== 'dead');
    if (live.length > 0) return live;
  }
  return [];
}
