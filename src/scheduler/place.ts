/**
 * Owns what a job's newest version means for its allocs on this host. Pure. A place (group, index) never holds two
 * live allocs: the next one is created when the one before is over. While a deployment is under way, only so many
 * places of a group are between two versions as its `update` block allows.
 */
import { isDeepStrictEqual } from 'node:util';
import { isTerminal } from '../allocrunner/client-status.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { AllocRecord, DeploymentRecord, JobRecord } from '../state/store.js';
import { isActive, rolling } from './deployment.js';

export type Placement =
  /** `before`: the failed alloc whose place it takes, when the reschedule policy asked for it. */
  | {
      readonly kind: 'create';
      readonly group: TaskGroup;
      readonly index: number;
      readonly before?: AllocRecord;
      /** The version that it shall have; undefined = the newest. */
      readonly of?: JobRecord;
    }
  /** The newer version changes nothing that needs a new run. */
  | { readonly kind: 'update_in_place'; readonly alloc: AllocRecord; readonly group: TaskGroup }
  | { readonly kind: 'stop'; readonly alloc: AllocRecord; readonly why: string }
  /** It has failed, and nothing is decided about it yet. */
  | { readonly kind: 'consider_reschedule'; readonly alloc: AllocRecord; readonly group: TaskGroup };

export interface PlaceInput {
  readonly job: JobRecord;
  /** All allocs of the job that are remembered, in the order they were made: a clock that was set back tells another. */
  readonly allocs: readonly AllocRecord[];
  /** True while anything of that alloc runs or may run. */
  readonly isLive: (allocId: string) => boolean;
  /** The spec of an earlier version, if it is still known. */
  readonly specOf: (version: number) => Job | undefined;
  /** Somebody asked for the job again: places whose alloc failed are filled anew. */
  readonly retryFailed: boolean;
  /** The newest deployment of this version; undefined = all places at once. */
  readonly deployment?: DeploymentRecord | undefined;
  /** The newest version before this one whose deployment was successful. */
  readonly stable?: JobRecord | undefined;
  /** True when the time has come that the tracker of a failed alloc names. */
  readonly isDue?: (alloc: AllocRecord) => boolean;
}

/** True for a job that runs nothing itself: each launch of it is a job of its own. */
export function isPattern({ periodic, parameterized }: Job): boolean {
  return periodic !== undefined || parameterized !== undefined;
}

/** The groups of a job that shall have allocs. */
export function wantedGroups(job: JobRecord): readonly TaskGroup[] {
  return job.stopped || isPattern(job.spec) ? [] : job.spec.groups;
}

/** Decides what to create, change and stop so that the host holds what the job asks for. */
export function place(input: PlaceInput): readonly Placement[] {
  const { job, allocs, isLive } = input;
  const placements: Placement[] = [];
  const wanted = wantedGroups(job);
  for (const alloc of allocs) {
    if (!isLive(alloc.id) || alloc.desiredStatus === 'stop') continue;
    const group = wanted.find((candidate) => candidate.name === alloc.group);
    if (job.stopped) placements.push({ kind: 'stop', alloc, why: 'job was stopped' });
    else if (isPattern(job.spec))
      placements.push({ kind: 'stop', alloc, why: 'job runs only when it is launched now' });
    else if (group === undefined)
      placements.push({ kind: 'stop', alloc, why: 'group is not in the job any more' });
    else if (alloc.index >= group.count) placements.push({ kind: 'stop', alloc, why: 'count was lowered' });
  }
  for (const group of wanted) {
    const places = Array.from({ length: group.count }, (_, index) => fill(input, group, index));
    placements.push(...bounded(input, group, places));
  }
  return placements;
}

/** What is to be done in a place; `moving`: it is between two versions, or its alloc is not known to be healthy. */
interface Filled {
  readonly placement: Placement | undefined;
  readonly moving: boolean;
}

/** Of the places that need another run, as many as may be stopped now. */
function bounded(input: PlaceInput, group: TaskGroup, places: readonly Filled[]): readonly Placement[] {
  const { deployment, job } = input;
  const strategy = rolling(job.spec, group);
  let left = Infinity;
  if (strategy !== undefined && deployment !== undefined) {
    const moving = places.filter((one) => one.moving).length;
    if (deployment.status === 'running') left = strategy.maxParallel - moving;
    else if (deployment.status !== 'successful') left = 0;
  }
  return places.flatMap(({ placement }): Placement[] => {
    if (placement === undefined) return [];
    if (placement.kind !== 'stop') return [placement];
    left -= 1;
    return left >= 0 ? [placement] : [];
  });
}

function fill(input: PlaceInput, group: TaskGroup, index: number): Filled {
  const { job, isLive } = input;
  const here = input.allocs.filter((alloc) => alloc.group === group.name && alloc.index === index);
  const live = here.filter((alloc) => isLive(alloc.id));
  const running = live.find((alloc) => alloc.desiredStatus === 'run');
  if (running !== undefined) {
    const isHealthy = running.health?.healthy === true;
    if (running.jobVersion === job.version) return { placement: undefined, moving: !isHealthy };
    const before = input.specOf(running.jobVersion);
    if (before !== undefined && needsNoNewRun(before, job.spec, group.name)) {
      return { placement: { kind: 'update_in_place', alloc: running, group }, moving: !isHealthy };
    }
    const why = `job was updated to version ${job.version}`;
    return { placement: { kind: 'stop', alloc: running, why }, moving: false };
  }
  if (live.length > 0) return { placement: undefined, moving: true };
  return { placement: refill(input, group, index, here.at(-1)), moving: true };
}

/** What becomes of a place in which nothing lives. */
function refill(
  input: PlaceInput,
  group: TaskGroup,
  index: number,
  last: AllocRecord | undefined,
): Placement | undefined {
  const { job, deployment } = input;
  if (last === undefined) return { kind: 'create', group, index };
  // Not terminal and yet not live: its runner could not be made, and its workload may run. It stays for the operator.
  if (!isTerminal(last.clientStatus)) return undefined;
  if (last.jobVersion !== job.version && deployment?.status === 'failed') {
    const kept = refillWithStable(input, group.name, last);
    if (kept !== 'not stable') return kept;
  }
  const isOfVersion = last.desiredStatus === 'run' && last.jobVersion === job.version;
  if (!isOfVersion || last.clientStatus === 'lost') return { kind: 'create', group, index };
  if (last.clientStatus !== 'failed') return undefined;
  if (input.retryFailed) return { kind: 'create', group, index };
  // The deployment judges it first.
  if (deployment !== undefined && isActive(deployment) && last.deploymentId === deployment.id)
    return undefined;
  const { next, gaveUp } = last.reschedule ?? {};
  if (next === undefined && gaveUp === undefined) return { kind: 'consider_reschedule', alloc: last, group };
  return next !== undefined && input.isDue?.(last) === true
    ? { kind: 'create', group, index, before: last }
    : undefined;
}

/**
 * A place that a failed deployment did not reach goes on as if the stable version were the newest: what has failed
 * elsewhere shall not spread.
 */
function refillWithStable(
  input: PlaceInput,
  groupName: string,
  last: AllocRecord,
): Placement | 'not stable' | undefined {
  const { stable } = input;
  const group = stable?.spec.groups.find(({ name }) => name === groupName);
  if (stable === undefined || group === undefined || isPattern(stable.spec)) return 'not stable';
  const placement = refill({ ...input, job: stable, deployment: undefined }, group, last.index, last);
  return placement?.kind === 'create' ? { ...placement, of: stable } : placement;
}

/** True when the two differ, for that group, only in settings that are read when they are used. */
function needsNoNewRun(before: Job, after: Job, groupName: string): boolean {
  return isDeepStrictEqual(whatRuns(before, groupName), whatRuns(after, groupName));
}
/** Of the job all that its tasks can see in their environment, and the type, which decides about restarts. */
function whatRuns(job: Job, groupName: string): unknown {
  const group = job.groups.find((candidate) => candidate.name === groupName);
  return {
    ...job,
    priority: undefined,
    // Deployments and new allocs follow the newest version; what runs does not see these.
    periodic: undefined,
    parameterized: undefined,
    groups: group && {
      ...group,
      count: undefined,
      update: undefined,
      services: undefined,
      shutdownDelayMs: undefined,
      maxRunMs: undefined,
      reschedule: undefined,
      tasks: group.tasks.map(whatTaskRuns),
    },
  };
}

function whatTaskRuns(task: Task): unknown {
  return {
    ...task,
    services: undefined,
    // Limits are changed while it runs.
    resources: undefined,
    restart: undefined,
    killTimeoutMs: undefined,
    killSignal: undefined,
    shutdownDelayMs: undefined,
  };
}
