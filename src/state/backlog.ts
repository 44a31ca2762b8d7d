/**
 * Owns the changes that wait for a disk that refuses writes: in order, commit by commit, and bounded. When the bound is
 * reached, what a later put replaces is forgotten first, then the oldest plain events; durable facts are never dropped.
 */
import { slackOf } from './limits.js';
import type { Change } from './store.js';

/** Changes written back in one transaction: a disk that has little room again takes what it can. */
const CHUNK_CHANGES = 1_000;

export class Backlog {
  readonly #limit: number;
  #commits: (readonly Change[])[] = [];
  #size = 0;
  #eventsDropped = 0;
  /** After squeezing, records stand before their time: only the whole backlog is a state that ever was. */
  #squeezed = false;

  /** @param limit most changes that may wait */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Number of changes that wait. */
  get size(): number {
    return this.#size;
  }

  /** Events given up since the backlog was last empty. */
  get eventsDropped(): number {
    return this.#eventsDropped;
  }

  /** @returns false when there is no room, not even after squeezing; then nothing was added */
  add(changes: readonly Change[]): boolean {
    if (this.#size + changes.length > this.#limit) {
      this.#squeeze(this.#limit - slackOf(this.#limit) - changes.length);
      if (this.#size + changes.length > this.#limit) return false;
    }
    this.#commits.push(changes);
    this.#size += changes.length;
    return true;
  }

  /** The commits to write next, together. Empty = nothing waits. */
  next(): readonly (readonly Change[])[] {
    if (this.#squeezed) return this.#commits;
    let changes = 0;
    const end = this.#commits.findIndex((commit) => (changes += commit.length) >= CHUNK_CHANGES);
    return end < 0 ? this.#commits : this.#commits.slice(0, end + 1);
  }

  /** Forgets the oldest `commits` commits: they are written. */
  written(commits: number): void {
    for (const commit of this.#commits.splice(0, commits)) this.#size -= commit.length;
    if (this.#commits.length > 0) return;
    this.#squeezed = false;
    this.#eventsDropped = 0;
  }

  #squeeze(target: number): void {
    this.#squeezed = true;
    let commits = mergePuts(this.#commits);
    let surplus = count(commits) - target;
    commits = commits.map((commit) =>
      commit.filter((change) => {
        if (surplus <= 0 || change.kind !== 'add_task_event') return true;
        surplus -= 1;
        this.#eventsDropped += 1;
        return false;
      }),
    );
    this.#commits = commits.filter((commit) => commit.length > 0);
    this.#size = count(this.#commits);
  }
}

function count(commits: readonly (readonly Change[])[]): number {
  return commits.reduce((sum, commit) => sum + commit.length, 0);
}

/** Puts of one key become one: the newest record at the place of the first, unless its owner was deleted between. */
function mergePuts(commits: readonly (readonly Change[])[]): (readonly Change[])[] {
  // By owner and key: a function that puts a newer record in the place of the first.
  const places = new Map<string, Map<string, (newer: Change) => void>>();
  return commits.map((commit) => {
    const merged: Change[] = [];
    for (const change of commit) {
      const { owner, key } = identify(change);
      const replace = key === undefined ? undefined : places.get(owner)?.get(key);
      if (replace !== undefined) {
        replace(change);
        continue;
      }
      const at = merged.push(change) - 1;
      if (key === undefined) {
        if (change.kind !== 'add_task_event') places.delete(owner);
        continue;
      }
      const own = places.get(owner) ?? new Map<string, (newer: Change) => void>();
      places.set(
        owner,
        own.set(key, (newer) => {
          merged[at] = newer;
        }),
      );
    }
    return merged;
  });
}

/** `key` tells puts of the same record; deletes and events have none. Deleting the owner forgets the keys it owns. */
function identify(change: Change): { readonly owner: string; readonly key: string | undefined } {
  switch (change.kind) {
    case 'put_job':
      return { owner: `job ${change.job.id}`, key: `job ${change.job.id} ${change.job.version}` };
    case 'delete_job':
      return { owner: `job ${change.jobId}`, key: undefined };
    case 'put_alloc':
      return { owner: change.alloc.id, key: `alloc ${change.alloc.id}` };
    case 'delete_alloc':
      return { owner: change.allocId, key: undefined };
    case 'put_task':
      return { owner: change.task.allocId, key: `task ${change.task.task}` };
    case 'put_run':
      return { owner: change.run.allocId, key: `run ${change.run.runId}` };
    case 'add_task_event':
      return { owner: change.allocId, key: undefined };
    case 'put_hook':
      return { owner: change.hook.allocId, key: `hook ${change.hook.task}/${change.hook.hook}` };
    case 'put_deployment':
      return { owner: `job ${change.deployment.jobId}`, key: `deployment ${change.deployment.id}` };
    case 'put_evaluation':
      return { owner: `job ${change.evaluation.jobId}`, key: `evaluation ${change.evaluation.id}` };
    case 'put_host':
      return { owner: 'host', key: `host ${change.key}` };
  }
}
