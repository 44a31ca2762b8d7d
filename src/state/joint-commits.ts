/**
 * Owns which commits of one transaction may be applied as if they were one: a task that ends and starts again hands in
 * three within a moment, and its alloc is to be described and told once, as it is after all of them. Pure.
 */
import type { Change } from './store.js';

/** What only tells more of an alloc. What is deleted, or is told for itself (a job, a deployment), is never joined. */
const JOINED: ReadonlySet<Change['kind']> = new Set([
  'put_alloc',
  'put_task',
  'put_run',
  'add_task_event',
  'put_hook',
]);

/** Groups neighbours that may be joined; the order stays. */
export function joinCommits(
  commits: readonly (readonly Change[])[],
): readonly (readonly (readonly Change[])[])[] {
  const groups: (readonly Change[])[][] = [];
  let wasJoined = false;
  for (const changes of commits) {
    const isJoined = changes.every(({ kind }) => JOINED.has(kind));
    const last = groups.at(-1);
    if (isJoined && wasJoined && last !== undefined) last.push(changes);
    else groups.push([changes]);
    wasJoined = isJoined;
  }
  return groups;
}

/** Leaves out what is overwritten by a later change of the same; the newest stands where the first stood. */
export function newestOf(changes: readonly Change[]): readonly Change[] {
  const newest = new Map<string | number, Change>();
  changes.forEach((change, place) => newest.set(keyOf(change) ?? place, change));
  return [...newest.values()];
}

/** What it overwrites; undefined = nothing, each stands for itself. */
function keyOf(change: Change): string | undefined {
  if (change.kind === 'put_alloc') return `alloc ${change.alloc.id}`;
  if (change.kind === 'put_task') return `task ${change.task.allocId} ${change.task.task}`;
  // With its owner: that a run never changes hands is a rule, which needs both to show.
  if (change.kind === 'put_run') return `run ${change.run.runId} ${change.run.allocId} ${change.run.task}`;
  return undefined;
}
