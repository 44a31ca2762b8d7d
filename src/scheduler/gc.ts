/**
 * Owns which dead allocs and launches may be forgotten, and which of them go first. Pure. What lives, what still fills a
 * place of a job, and what waits for a new alloc is never among them.
 */
import { isTerminal } from '../allocrunner/client-status.js';
import type { AllocRecord, JobRecord } from '../state/store.js';
import { wantedGroups } from './place.js';

export interface GcLimits {
  /** Dead allocs that may be forgotten are kept up to this number. */
  readonly maxAllocs: number;
  /** They are forgotten when they have been over for so long. */
  readonly allocAgeMs: number;
  /** And launches of periodic and parameterized jobs, as a whole, after this. */
  readonly jobAgeMs: number;
}

/** One thing to be forgotten: a single alloc, or a launch with all its allocs. */
export interface Garbage {
  readonly jobId: string;
  readonly allocIds: readonly string[];
  /** The job goes too. */
  readonly wholeJob: boolean;
  /** When the last of it was over. */
  readonly endedAtMs: number;
}

export interface GcInput {
  readonly jobs: readonly JobRecord[];
  /** In the order in which they were made. */
  readonly allocs: readonly AllocRecord[];
  readonly isLive: (allocId: string) => boolean;
}

/** All that may be forgotten, oldest first. */
export function findGarbage({ jobs, allocs, isLive }: GcInput): readonly Garbage[] {
  const byJob = new Map<string, AllocRecord[]>();
  for (const alloc of allocs) {
    const own = byJob.get(alloc.jobId) ?? [];
    own.push(alloc);
    byJob.set(alloc.jobId, own);
  }
  const known = new Map(jobs.map((job) => [job.id, job]));
  const garbage: Garbage[] = [];
  for (const [jobId, own] of byJob) {
    const job = known.get(jobId);
    const isOver = (alloc: AllocRecord): boolean => !isLive(alloc.id) && isTerminal(alloc.clientStatus);
    if (job?.parentId !== undefined) {
      const isWaiting = !job.stopped && own.some(awaitsSuccessor);
      if (own.every(isOver) && !isWaiting) garbage.push(garbageOf(jobId, own, true));
      continue;
    }
    const needed = job === undefined ? new Set<string>() : neededBy(job, own);
    for (const alloc of own) {
      if (isOver(alloc) && !needed.has(alloc.id)) garbage.push(garbageOf(jobId, [alloc], false));
    }
  }
  return garbage.sort((a, b) => a.endedAtMs - b.endedAtMs);
}

/** Ids of the allocs that say how the places of a job are: the newest of each. */
function neededBy(job: JobRecord, allocs: readonly AllocRecord[]): ReadonlySet<string> {
  const newest = new Map<string, string>();
  const groups = wantedGroups(job);
  for (const { id, group, index } of allocs) {
    if (groups.some(({ name, count }) => name === group && index < count))
      newest.set(`${group}/${index}`, id);
  }
  return new Set(newest.values());
}

function awaitsSuccessor({ reschedule, nextAllocId, desiredStatus }: AllocRecord): boolean {
  return reschedule?.next !== undefined && nextAllocId === undefined && desiredStatus === 'run';
}

function garbageOf(jobId: string, allocs: readonly AllocRecord[], wholeJob: boolean): Garbage {
  const endedAtMs = Math.max(...allocs.map(({ modifiedAtMs }) => modifiedAtMs));
  return { jobId, allocIds: allocs.map(({ id }) => id), wholeJob, endedAtMs };
}

/** Of `garbage`, what goes because of its age or because there is too much of it. */
export function chooseGarbage(
  garbage: readonly Garbage[],
  limits: GcLimits,
  nowMs: number,
): readonly Garbage[] {
  let held = garbage.reduce((sum, { allocIds }) => sum + allocIds.length, 0);
  return garbage.filter(({ allocIds, wholeJob, endedAtMs }) => {
    const ageMs = wholeJob ? limits.jobAgeMs : limits.allocAgeMs;
    const goes = endedAtMs + ageMs < nowMs || held > limits.maxAllocs;
    if (goes) held -= allocIds.length;
    return goes;
  });
}
