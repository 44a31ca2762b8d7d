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

/** The roles whose gate is open. A gate that closes stops nothing that runs. */
export function openRoles(tasks: readonly GatedTask[]): ReadonlySet<TaskRole> {
  const open = new Set<TaskRole>();
  const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
  if (others.length > 0 && others.every(({ record }) => record.state === 'dead')) {
    return open.add('poststop');
  }
  open.add('prestart').add('prestart_sidecar');
  if (!mainMayStart(tasks)) return open;
  open.add('main');
  if (!mainsHaveStarted(tasks)) return open;
  return open.add('poststart').add('poststart_sidecar');
}

/** A sidecar that is being restarted does not hold back mains that had started before. */
function mainMayStart(tasks: readonly GatedTask[]): boolean {
  const begun = tasks.some(({ task, record }) => roleOf(task) === 'main' && record.attempts > 0);
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
