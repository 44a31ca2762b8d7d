/**
 * Owns when the tasks of an alloc have to end together, and in which order. Pure, and a function of the stored records
 * alone: an agent that comes back goes on with an ending where it was.
 */
import { isSidecar, roleOf } from '../jobspec/lifecycle.js';
import type { TaskEvent } from '../events/task-event.js';
import type { AllocRecord } from '../state/store.js';
import type { GatedTask } from './lifecycle-gate.js';
import { RUN_TIME_OVER } from './run-time.js';

/** Why the tasks shall end, for people, and what is told to each of them first. */
export interface Ending {
  readonly reason: string;
  readonly because: TaskEvent | undefined;
  /** There is no time for the poststop tasks either: they never run. */
  readonly alsoPoststop: boolean;
}

/** First match wins. A poststop task ends nothing and is ended by nothing but time: it is what runs at the end. */
export function decideEnding(
  alloc: Pick<AllocRecord, 'desiredStatus' | 'desiredDescription' | 'runTime'>,
  tasks: readonly GatedTask[],
): Ending | undefined {
  if (alloc.runTime?.isOver === true) {
    return { reason: RUN_TIME_OVER, because: undefined, alsoPoststop: true };
  }
  const ending = (reason: string, because?: TaskEvent): Ending => ({ reason, because, alsoPoststop: false });
  if (alloc.desiredStatus === 'stop') return ending(alloc.desiredDescription);
  const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
  const failed = others.find(({ record }) => record.state === 'dead' && record.failed);
  if (failed !== undefined) {
    return ending(`task ${JSON.stringify(failed.task.name)} of the group failed`, {
      type: 'Sibling Task Failed',
      sibling: failed.task.name,
    });
  }
  const leader = others.find(({ task, record }) => task.leader && record.state === 'dead');
  if (leader !== undefined) {
    return ending(`leader task ${JSON.stringify(leader.task.name)} is dead`, {
      type: 'Leader Task Dead',
      leader: leader.task.name,
    });
  }
  const live = others.filter(({ record }) => record.state !== 'dead');
  if (live.length > 0 && live.every(({ task }) => isSidecar(roleOf(task)))) {
    return ending('main tasks are dead', { type: 'Main Tasks Dead' });
  }
  return undefined;
}

/**
 * Who is to be killed now: the leader alone, then all others but sidecars, then the sidecars. A later wave waits until
 * the one before is dead. Poststop tasks that shall not run come first of all.
 */
export function nextToEnd(tasks: readonly GatedTask[], alsoPoststop = false): readonly GatedTask[] {
  const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
  const waves = [
    alsoPoststop ? tasks.filter(({ task }) => roleOf(task) === 'poststop') : [],
    others.filter(({ task }) => task.leader),
    others.filter(({ task }) => !task.leader && !isSidecar(roleOf(task))),
    others.filter(({ task }) => !task.leader && isSidecar(roleOf(task))),
  ];
  for (const wave of waves) {
    const live = wave.filter(({ record }) => record.state !== 'dead');
    if (live.length > 0) return live;
  }
  return [];
}
