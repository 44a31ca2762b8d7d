/**
 * Owns what registering a job would do, place by place. Pure. What it says is what `nextJob` and `place` say, which the
 * scheduler acts by; here they are only put into words for somebody who has not decided yet.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Job, Task } from '../jobspec/types.js';
import type { AllocRecord, Indexed, JobRecord } from '../state/store.js';
import { rolling } from './deployment.js';
import { nextLaunchMs } from './launch.js';
import { place, wantedGroups, type Placement, type PlaceInput } from './place.js';

/** What becomes of a place or a task. `replace`: stopped, and started anew when it is over. */
export type PlannedAction = 'none' | 'update_in_place' | 'replace' | 'create' | 'stop';

/** One place, or one alloc that is to leave its place. */
export interface PlannedPlace {
  readonly group: string;
  readonly index: number;
  readonly action: PlannedAction;
  /** The alloc that is there; undefined = none. */
  readonly allocId: string | undefined;
  readonly why: string;
  /** What becomes of each task, by name. */
  readonly tasks: Readonly<Record<string, PlannedAction>>;
}

export interface JobPlan {
  /** The job as it is stored; undefined = there is none. */
  readonly before: Indexed<JobRecord> | undefined;
  /** The job as registering would store it; `before.record` itself when that changes nothing. */
  readonly after: JobRecord;
  /** In the order of the groups; places that are to be left come last. */
  readonly places: readonly PlannedPlace[];
  /** What goes step by step, and how; empty = there will be no deployment. */
  readonly deployment: readonly PlannedDeployment[];
  /** When the job would be launched next; undefined = not by the clock. */
  readonly nextLaunchMs: number | undefined;
}

/** How the places of one group would be replaced. */
export interface PlannedDeployment {
  readonly group: string;
  /** At most so many are between two versions at a time. */
  readonly maxParallel: number;
  readonly minHealthyMs: number;
  readonly autoRevert: boolean;
}

/** The record that registering `spec` stores: a new version, or `before` itself when the job is exactly so. */
export function nextJob(before: JobRecord | undefined, spec: Job, nowMs: number): JobRecord {
  if (before !== undefined && !before.stopped && isDeepStrictEqual(before.spec, spec)) return before;
  const version = before === undefined ? 0 : before.version + 1;
  // A launch that is registered again stays one.
  const { parentId, dispatched, payload, idempotencyToken } = before ?? {};
  return {
    id: spec.id,
    version,
    spec,
    stopped: false,
    submittedAtMs: nowMs,
    ...(parentId === undefined ? {} : { parentId }),
    ...(dispatched === undefined ? {} : { dispatched }),
    ...(payload === undefined ? {} : { payload }),
    ...(idempotencyToken === undefined ? {} : { idempotencyToken }),
  };
}

/** Says what registering `spec` would do. */
export function planJob(
  before: Indexed<JobRecord> | undefined,
  spec: Job,
  now: Pick<PlaceInput, 'allocs' | 'isLive' | 'specOf'> & { readonly nowMs: number },
): JobPlan {
  const after = nextJob(before?.record, spec, now.nowMs);
  // Without the deployment, which would hide all places but those that come first.
  const placements = place({ ...now, job: after, retryFailed: true });
  const wanted = wantedGroups(after).flatMap((group) =>
    Array.from({ length: group.count }, (_, index) => ({ group, index })),
  );
  const isWanted = (alloc: AllocRecord): boolean =>
    wanted.some(({ group, index }) => group.name === alloc.group && index === alloc.index);
  const tasksOf = (alloc: AllocRecord): readonly Task[] =>
    now.specOf(alloc.jobVersion)?.groups.find(({ name }) => name === alloc.group)?.tasks ?? [];

  const kept = wanted.map(({ group, index }): PlannedPlace => {
    const here = now.allocs
      .filter((alloc) => alloc.group === group.name && alloc.index === index)
      .sort((a, b) => a.createdAtMs - b.createdAtMs);
    const found = placements.find((placement) => isAt(placement, group.name, index));
    const alloc = found?.kind === 'create' ? undefined : (found?.alloc ?? here.at(-1));
    const { action, why } = describePlacement(found, here.at(-1), now.isLive);
    const before = action === 'create' || alloc === undefined ? [] : tasksOf(alloc);
    const tasks = planTasks(action, before, group.tasks);
    return { group: group.name, index, action, allocId: alloc?.id, why, tasks };
  });
  const left = placements
    .filter((placement) => placement.kind === 'stop')
    .filter(({ alloc }) => !isWanted(alloc))
    .map(({ alloc, why }): PlannedPlace => ({
      group: alloc.group,
      index: alloc.index,
      action: 'stop',
      allocId: alloc.id,
      why,
      tasks: planTasks('stop', tasksOf(alloc), []),
    }));
  return {
    before,
    after,
    places: [...kept, ...left],
    deployment: after === before?.record ? [] : planDeployment(after),
    nextLaunchMs: nextLaunchMs(spec, undefined, now.nowMs),
  };
}

function planDeployment(job: JobRecord): readonly PlannedDeployment[] {
  return job.spec.groups.flatMap((group) => {
    const strategy = rolling(job.spec, group);
    if (strategy === undefined || group.count === 0) return [];
    const { maxParallel, minHealthyMs, autoRevert } = strategy;
    return [{ group: group.name, maxParallel, minHealthyMs, autoRevert }];
  });
}

function isAt(placement: Placement, group: string, index: number): boolean {
  return placement.kind === 'create'
    ? placement.group.name === group && placement.index === index
    : placement.alloc.group === group && placement.alloc.index === index;
}

function describePlacement(
  placement: Placement | undefined,
  last: AllocRecord | undefined,
  isLive: (allocId: string) => boolean,
): { readonly action: PlannedAction; readonly why: string } {
  switch (placement?.kind) {
    case 'update_in_place':
      return { action: 'update_in_place', why: 'only settings that need no new run have changed' };
    case 'stop':
      return { action: 'replace', why: placement.why };
    case 'create':
      return {
        action: 'create',
        why: last === undefined ? 'the place is empty' : `the last alloc here is over (${last.clientStatus})`,
      };
    case 'consider_reschedule':
    case undefined:
      // The scheduler waits for it too, and fills the place then.
      if (last !== undefined && isLive(last.id) && last.desiredStatus === 'stop')
        return { action: 'create', why: 'the alloc here is stopping; a new one follows when it is over' };
      return {
        action: 'none',
        why: last === undefined ? '' : `it is ${last.clientStatus} and as it shall be`,
      };
  }
}

/** A replaced alloc takes all its tasks with it; in place, only the tasks whose settings differ are touched. */
function planTasks(
  action: PlannedAction,
  before: readonly Task[],
  after: readonly Task[],
): Readonly<Record<string, PlannedAction>> {
  const planned: Record<string, PlannedAction> = {};
  for (const task of after) {
    const old = before.find(({ name }) => name === task.name);
    if (action === 'replace') planned[task.name] = old === undefined ? 'create' : 'replace';
    else if (action === 'update_in_place')
      planned[task.name] = isDeepStrictEqual(old, task) ? 'none' : 'update_in_place';
    else planned[task.name] = action;
  }
  for (const { name } of before) {
    if (action === 'replace' || action === 'stop') planned[name] ??= 'stop';
  }
  return planned;
}
