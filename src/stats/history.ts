/** Owns the last samples of each task: a short ring a task, in memory only. */
import type { TaskUsage } from './usage.js';

/** At one sample every SAMPLE_EVERY_MS: ten minutes. */
export const SAMPLES_KEPT = 60;
/** Often enough to see what happens; reading the files of 200 tasks so often costs less than half a percent of a core. */
export const SAMPLE_EVERY_MS = 10_000;

/** One sample of one task. */
export interface UsageSample {
  readonly allocId: string;
  readonly jobId: string;
  readonly task: string;
  readonly usage: TaskUsage;
}

export class UsageHistory {
  #rings = new Map<string, Map<string, TaskUsage[]>>();

  /** Takes one round of samples: a task that is not in it runs no more, and is forgotten. */
  take(round: readonly UsageSample[]): void {
    const rings = new Map<string, Map<string, TaskUsage[]>>();
    for (const { allocId, task, usage } of round) {
      const ring = this.#rings.get(allocId)?.get(task) ?? [];
      // A call in between may have made the sample already.
      if (ring.at(-1)?.atMs !== usage.atMs) ring.push(usage);
      if (ring.length > SAMPLES_KEPT) ring.shift();
      const ofAlloc = rings.get(allocId) ?? new Map<string, TaskUsage[]>();
      rings.set(allocId, ofAlloc.set(task, ring));
    }
    this.#rings = rings;
  }

  /** By task, oldest first. */
  of(allocId: string): ReadonlyMap<string, readonly TaskUsage[]> {
    return this.#rings.get(allocId) ?? new Map();
  }
}
