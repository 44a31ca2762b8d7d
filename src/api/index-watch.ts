/**
 * Owns blocking queries: at which index something was last changed, and who waits for its next change. Answers carry
 * the store's index; a caller that comes back with it waits until a later change touches what it asks for.
 */
import type { Clock } from '../base/clock.js';
import type { FeedRow, StateStore } from '../state/store.js';

/** What a blocking query may wait for. */
export type WatchKey =
  | 'jobs'
  | 'allocs'
  | 'events'
  | 'node'
  | 'deployments'
  | 'evaluations'
  | `job/${string}`
  | `alloc/${string}`
  | `events/${string}`
  | `deployments/${string}`
  | `evaluations/${string}`;

/** Keys remembered. Beyond it all are forgotten at once, which costs each waiting caller one early answer. */
const MOST_KEYS = 20_000;

export class IndexWatch implements Disposable {
  readonly #clock: Clock;
  readonly #subscription: Disposable;
  readonly #touched = new Map<WatchKey, number>();
  readonly #waiters = new Map<WatchKey, Set<() => void>>();
  /** No key that is not in `#touched` was changed after this index. */
  #floor: number;

  constructor(store: StateStore, clock: Clock) {
    this.#clock = clock;
    this.#floor = store.index();
    this.#subscription = store.onCommitted((rows) => {
      this.#note(rows);
    });
  }

  /** An index at or after which `key` has not changed. */
  lastTouched(key: WatchKey): number {
    return this.#touched.get(key) ?? this.#floor;
  }

  /** Waits until `key` changes after `index`, for at most `waitMs`, or until `signal` aborts. Never rejects. */
  async changedAfter(
    key: WatchKey,
    index: number,
    options: { readonly waitMs: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const { waitMs, signal } = options;
    if (signal.aborted || this.#isNews(key, index)) return;
    await new Promise<void>((resolve) => {
      const waiters = this.#waiters.get(key) ?? new Set();
      this.#waiters.set(key, waiters);
      const done = (): void => {
        waiters.delete(done);
        if (waiters.size === 0) this.#waiters.delete(key);
        timer[Symbol.dispose]();
        signal.removeEventListener('abort', done);
        resolve();
      };
      waiters.add(done);
      const timer = this.#clock.setTimer(waitMs, done);
      signal.addEventListener('abort', done);
    });
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #isNews(key: WatchKey, index: number): boolean {
    // An empty store answers with index 1, because 0 means "do not block": so a change at 1 is news to who has seen 1.
    const touched = this.lastTouched(key);
    return touched > index || (index === 1 && touched === 1);
  }

  #note(rows: readonly FeedRow[]): void {
    const woken = new Set<WatchKey>();
    for (const row of rows) {
      for (const key of keysOf(row)) {
        this.#touched.set(key, row.index);
        woken.add(key);
      }
      if (this.#touched.size > MOST_KEYS) {
        this.#touched.clear();
        this.#floor = row.index;
      }
    }
    for (const key of woken) for (const wake of [...(this.#waiters.get(key) ?? [])]) wake();
  }
}

/** What a row changes: a job's status and summary follow from its allocs. */
function keysOf({ payload }: FeedRow): readonly WatchKey[] {
  switch (payload.type) {
    case 'JobRegistered':
    case 'JobDeregistered':
      return ['jobs', `job/${payload.job.id}`];
    case 'JobPurged':
      return ['jobs', `job/${payload.jobId}`];
    case 'AllocationUpdated':
      return ['jobs', 'allocs', `job/${payload.alloc.jobId}`, `alloc/${payload.alloc.id}`];
    case 'AllocationPurged':
      return ['jobs', 'allocs', `job/${payload.jobId}`, `alloc/${payload.allocId}`];
    case 'NodeSchedulingUpdated':
      return ['node'];
    case 'TaskEvent':
      return ['events', `events/${payload.jobId}`, `events/${payload.event.allocId}`];
    // By the thing itself, and by its job.
    case 'DeploymentStatusUpdate':
      return [
        'deployments',
        `deployments/${payload.deployment.id}`,
        `deployments/${payload.deployment.jobId}`,
      ];
    case 'EvaluationUpdated':
      return [
        'evaluations',
        `evaluations/${payload.evaluation.id}`,
        `evaluations/${payload.evaluation.jobId}`,
      ];
  }
}
