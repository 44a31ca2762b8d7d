/** Owns the judgement whether a job that was just registered is well. Pure. */
import type { Deployment, FeedAllocation, JobJson } from '../api/wire.js';
import { lastTrouble } from './reason.js';

/** What of a job counts here. */
export interface RolloutSpec {
  readonly Type: string;
  readonly TaskGroups: readonly { readonly Name: string; readonly Count: number }[];
}

export type Rollout =
  | { readonly kind: 'waiting' }
  /** Everything runs. It is healthy if `runs` stays the same for a while. */
  | { readonly kind: 'running'; readonly runs: string }
  | { readonly kind: 'complete' }
  | {
      readonly kind: 'failed';
      readonly alloc: FeedAllocation;
      readonly task: string | undefined;
      readonly reason: string;
    };

/** How long all tasks of a service must run, without a restart, to count as healthy. */
export const STABLE_MS = 1000;

const ENDING_TYPES: ReadonlySet<string> = new Set<JobJson['Type']>(['batch', 'sysbatch']);

/** Judges a job by the allocs that shall run. */
export function judgeRollout(spec: RolloutSpec, allocs: readonly FeedAllocation[]): Rollout {
  const wanted = allocs.filter((alloc) => alloc.DesiredStatus === 'run' && !isReplaced(alloc, allocs));
  const failed = wanted.find(({ ClientStatus }) => ClientStatus === 'failed' || ClientStatus === 'lost');
  if (failed !== undefined) return explainFailure(failed);
  const all = (isSo: (alloc: FeedAllocation) => boolean): boolean =>
    spec.TaskGroups.every(
      ({ Name, Count }) => wanted.filter((alloc) => alloc.TaskGroup === Name && isSo(alloc)).length >= Count,
    );
  if (all(({ ClientStatus }) => ClientStatus === 'complete')) return { kind: 'complete' };
  if (ENDING_TYPES.has(spec.Type)) return { kind: 'waiting' };
  if (!all((alloc) => alloc.ClientStatus === 'running' && isUp(alloc))) return { kind: 'waiting' };
  const runs = wanted.flatMap(({ TaskStates }) =>
    Object.values(TaskStates).map((state) => state.Holdfast.RunID),
  );
  return { kind: 'running', runs: runs.join(' ') };
}

/** True when another alloc has taken its place: what failed the last time is no news of this time. */
function isReplaced(alloc: FeedAllocation, allocs: readonly FeedAllocation[]): boolean {
  return allocs.some(({ Name, CreateTime }) => Name === alloc.Name && CreateTime > alloc.CreateTime);
}

function isUp({ TaskStates }: FeedAllocation): boolean {
  const states = Object.values(TaskStates);
  return states.length > 0 && states.every(({ Holdfast }) => Holdfast.Phase === 'running');
}

/** Why an alloc has failed: the task that did it, and its last words. */
export function explainFailure(alloc: FeedAllocation): Extract<Rollout, { kind: 'failed' }> {
  const failed = Object.entries(alloc.TaskStates).find(([, state]) => state.Failed);
  const [task, state] = failed ?? [];
  const trouble = state === undefined ? '' : lastTrouble(state);
  const lastWords = state?.Events.findLast(({ FailsTask }) => FailsTask)?.DisplayMessage ?? '';
  const parts = [trouble, lastWords || alloc.ClientDescription].filter((part) => part !== '');
  const reason = [...new Set(parts)].join('; ');
  return { kind: 'failed', alloc, task, reason: reason === '' ? alloc.ClientStatus : reason };
}

/** `site 1 of 3 healthy, 1 unhealthy`. */
export function describeDeployment({ TaskGroups, Status }: Deployment): string {
  const groups = Object.entries(TaskGroups).map(([name, group]) => {
    const bad = group.UnhealthyAllocs === 0 ? '' : `, ${group.UnhealthyAllocs} unhealthy`;
    return `${name} ${group.HealthyAllocs} of ${group.DesiredTotal} healthy${bad}`;
  });
  return [Status, ...groups].join(', ');
}
