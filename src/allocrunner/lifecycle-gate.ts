/**
 * Owns who of an alloc may start, by the lifecycle of its tasks. Pure, and a function of the stored records alone, so
 * that a restored alloc has the same gates as one that never lost its agent.
 *
 *   prestart one-shots run to their end, prestart sidecars run on → main → poststart → … all of them dead → poststop
 */
import { roleOf, type TaskRole } from '../jobspec/lifecycle.js';
import type { Task } from '../jobspec/types.js';
import type { TaskRecord } from '../state/store.js';

export interface GatedTask {
  readonly task: Task;
  readonly record: TaskRecord;
}

/**
 * The roles whose gate is open. A gate that closes stops nothing that runs.
 * @param generation of the alloc: until all of its tasks have got there, nothing starts
 */
export function openRoles(tasks: readonly GatedTask[], generation = 0): ReadonlySet<TaskRole> {
  const open = new Set<TaskRole>();
  const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
  if (staleTasks(others, generation).length > 0) return open;
  if (others.length > 0 && others.every(({ record }) => record.state === 'dead')) {
    return open.add('poststop');
  }
  open.add('prestart').add('prestart_sidecar');
  if (!mainMayStart(tasks)) return open;
  open.add('main');
  if (!mainsHaveStarted(tasks)) return open;
  return open.add('poststart').add('poststart_sidecar');
}

/** Why a task whose gate is closed has to wait, for people. */
export function whyClosed(
  { task: { lifecycle } }: GatedTask,
  tasks: readonly GatedTask[],
  generation = 0,
): string {
  if (staleTasks(tasks, generation).length > 0) return 'for all tasks of the alloc to be down';
  if (lifecycle?.hook === 'poststop') return 'for all other tasks to end';
  if (lifecycle?.hook === 'poststart') return 'for the main tasks to start';
  const first = tasks.find(({ task, record }) => {
    const role = roleOf(task);
    if (role === 'prestart') return record.state !== 'dead' || record.failed;
    return role === 'prestart_sidecar' && record.state !== 'running';
  });
  if (first === undefined) return '';
  const what = roleOf(first.task) === 'prestart' ? 'to end' : 'to run';
  return `for prestart task ${JSON.stringify(first.task.name)} ${what}`;
}

/** Tasks that have not got to the generation of their alloc. Poststop tasks run once, at the end of the last one. */
export function staleTasks(tasks: readonly GatedTask[], generation: number): readonly GatedTask[] {
  return tasks.filter(
    ({ task, record }) => roleOf(task) !== 'poststop' && (record.generation ?? 0) < generation,
  );
}

/**
 * The tasks that a restart of the whole alloc has still to take along. None, when one of them has been killed meanwhile:
 * that is final, so the restart has come too late.
 */
export function tasksToRenew(tasks: readonly GatedTask[], generation = 0): readonly GatedTask[] {
  const stale = staleTasks(tasks, generation);
  return stale.some(({ record }) => record.killReason !== undefined) ? [] : stale;
}

/** A sidecar that is being restarted does not hold back mains that had started before. */
function mainMayStart(tasks: readonly GatedTask[]): boolean {
  const begun = tasks.some(({ task, record }) => roleOf(task) === 'main' && hasBegun(record));
  return tasks.every(({ task, record }) => {
    const role = roleOf(task);
    if (role === 'prestart') return record.state === 'dead' && !record.failed;
    if (role === 'prestart_sidecar') return begun || record.state === 'running';
    return true;
  });
}

function mainsHaveStarted(tasks: readonly GatedTask[]): boolean {
  return tasks.every(
    ({ task, record }) =>
      roleOf(task) !== 'main' || record.startedAtMs !== undefined || record.state === 'dead',
  );
}

/** In this generation: a record that begins anew forgets when it had started. */
function hasBegun(record: TaskRecord): boolean {
  return (record.generation ?? 0) === 0 ? record.attempts > 0 : record.startedAtMs !== undefined;
}
