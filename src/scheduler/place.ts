/**
 * Owns what a job's newest version means for its allocs on this host. Pure. A place (group, index) never holds two
 * live allocs: the next one is created when the one before is over.
 */
import { isDeepStrictEqual } from 'node:util';
import { isTerminal } from '../allocrunner/client-status.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { AllocRecord, JobRecord } from '../state/store.js';

export type Placement =
  | { readonly kind: 'create'; readonly group: TaskGroup; readonly index: number }
  /** The newer version changes nothing that needs a new run. */
  | { readonly kind: 'update_in_place'; readonly alloc: AllocRecord; readonly group: TaskGroup }
  | { readonly kind: 'stop'; readonly alloc: AllocRecord; readonly why: string };

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
}

/** Decides what to create, change and stop so that the host holds what the job asks for. */
export function place(input: PlaceInput): readonly Placement[] {
  const { job, allocs, isLive } = input;
  const placements: Placement[] = [];
  const wanted = job.stopped ? [] : job.spec.groups;
  for (const alloc of allocs) {
    if (!isLive(alloc.id) || alloc.desiredStatus === 'stop') continue;
    const group = wanted.find((candidate) => candidate.name === alloc.group);
    if (job.stopped) placements.push({ kind: 'stop', alloc, why: 'job was stopped' });
    else if (group === undefined)
      placements.push({ kind: 'stop', alloc, why: 'group is not in the job any more' });
    else if (alloc.index >= group.count) placements.push({ kind: 'stop', alloc, why: 'count was lowered' });
  }
  for (const group of wanted) {
    for (let index = 0; index < group.count; index++) {
      const placement = fill(input, group, index);
      if (placement !== undefined) placements.push(placement);
    }
  }
  return placements;
}

function fill(input: PlaceInput, group: TaskGroup, index: number): Placement | undefined {
  const { job, isLive } = input;
  const here = input.allocs.filter((alloc) => alloc.group === group.name && alloc.index === index);
  const live = here.filter((alloc) => isLive(alloc.id));
  const running = live.find((alloc) => alloc.desiredStatus === 'run');
  if (running !== undefined) {
    if (running.jobVersion === job.version) return undefined;
    const before = input.specOf(running.jobVersion);
    if (before !== undefined && needsNoNewRun(before, job.spec, group.name)) {
      return { kind: 'update_in_place', alloc: running, group };
    }
    return { kind: 'stop', alloc: running, why: `job was updated to version ${job.version}` };
  }
  if (live.length > 0) return undefined;
  const last = here.at(-1);
  return last === undefined || wantsAnother(input, last) ? { kind: 'create', group, index } : undefined;
}

/** Whether a place whose last alloc is over is to be filled again. */
function wantsAnother({ job, retryFailed }: PlaceInput, last: AllocRecord): boolean {
  // Not terminal and yet not live: its runner could not be made, and its workload may run. It stays for the operator.
  if (!isTerminal(last.clientStatus)) return false;
  if (last.desiredStatus === 'stop' || last.jobVersion !== job.version) return true;
  return last.clientStatus === 'lost' || (last.clientStatus === 'failed' && retryFailed);
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
    restart: undefined,
    killTimeoutMs: undefined,
    killSignal: undefined,
    shutdownDelayMs: undefined,
  };
}
