/**
 * Owns the fan-out of the feed to its subscribers: each gets every row after its index, once and in order, first from
 * the store and then live, or is told exactly what it lost. A slow one loses its own queue, and never slows a commit.
 *
 * It lives here and not in events/, because the rows it hands out are the store's.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AllocRecord, FeedRow, Indexed, JobRecord, StateStore, TaskRecord } from './store.js';

export type FeedItem =
  | { readonly kind: 'rows'; readonly rows: readonly FeedRow[] }
  /** Rows `from` to `to`, both included, cannot be had any more: look at the state anew. */
  | { readonly kind: 'lost'; readonly from: number; readonly to: number };

export interface QueueLimit {
  readonly rows: number;
  /** Of payloads as JSON. */
  readonly bytes: number;
}

export interface SubscribeOptions {
  /** Resume after this index; default: from now on. */
  readonly afterIndex?: number;
  /** Which rows to hand out; default all. Must not throw. What is lost is told whether it was wanted or not. */
  readonly wants?: (row: FeedRow) => boolean;
  readonly queueLimit?: QueueLimit;
  /** Ends the subscription. */
  readonly signal?: AbortSignal;
}

/** A few seconds of a busy host: who is further behind had better look at the state anew. */
export const DEFAULT_QUEUE_LIMIT: QueueLimit = { rows: 2048, bytes: 4 * 2 ** 20 };

/** Rows read from the store at once: few enough not to hold up the agent, enough to be quick. */
const CHUNK_ROWS = 256;

export class Broker implements Disposable {
  readonly #store: StateStore;
  readonly #listening: Disposable;
  readonly #open = new Set<Subscription>();
  /** Each row is measured once, however many subscribers it goes to. */
  readonly #sizes = new WeakMap<FeedRow, number>();

  constructor(store: StateStore) {
    this.#store = store;
    this.#listening = store.onCommitted((rows) => {
      for (const subscription of this.#open) subscription.offer(rows);
    });
  }

  /** Subscriptions that have not ended. */
  get subscribers(): number {
    return this.#open.size;
  }

  /**
   * What follows `afterIndex`. Ends, without an error, with `signal`, with `close`, or when the reader leaves its loop.
   * One reader each; nothing is queued before it begins.
   */
  subscribe(options: SubscribeOptions = {}): AsyncGenerator<FeedItem, void, void> {
    const sizeOf = (row: FeedRow): number => this.#sizeOf(row);
    const subscription = new Subscription(this.#store, options, sizeOf);
    this.#open.add(subscription);
    const end = (): void => {
      subscription.end();
      this.#open.delete(subscription);
      options.signal?.removeEventListener('abort', end);
    };
    options.signal?.addEventListener('abort', end);
    if (options.signal?.aborted === true) end();
    return subscription.items(end);
  }

  /** Ends every subscription. */
  close(): void {
    this.#listening[Symbol.dispose]();
    for (const subscription of this.#open) subscription.end();
    this.#open.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #sizeOf(row: FeedRow): number {
    let size = this.#sizes.get(row);
    if (size === undefined) {
      size = JSON.stringify(row.payload).length;
      this.#sizes.set(row, size);
    }
    return size;
  }
}

/** One subscriber: behind, it reads the store at its own pace; up to date, it is live and has a queue. */
class Subscription {
  readonly #store: StateStore;
  readonly #wants: (row: FeedRow) => boolean;
  readonly #limit: QueueLimit;
  readonly #sizeOf: (row: FeedRow) => number;
  /** Everything up to here was handed out, not wanted, or told as lost. */
  #at: number;
  /** Everything up to here went through the queue; only while live. */
  #seen = 0;
  #live = false;
  #ended = false;
  #queue: FeedRow[] = [];
  #queueBytes = 0;
  /** Rows after `#at` up to here were thrown out of the queue. */
  #lostTo: number | undefined;
  #wake: (() => void) | undefined;

  constructor(store: StateStore, options: SubscribeOptions, sizeOf: (row: FeedRow) => number) {
    this.#store = store;
    this.#at = options.afterIndex ?? store.index();
    this.#wants = options.wants ?? (() => true);
    this.#limit = options.queueLimit ?? DEFAULT_QUEUE_LIMIT;
    this.#sizeOf = sizeOf;
  }

  async *items(onEnd: () => void): AsyncGenerator<FeedItem, void, void> {
    try {
      while (!this.#ended) {
        const item = this.#live ? this.#takeQueued() : this.#takeStored();
        if (item !== undefined) yield item;
        // Between two reads of the store others get their turn, also when this one wants none of the rows.
        if (!this.#live) await nextTurn();
        else if (item === undefined) await this.#news();
      }
    } finally {
      onEnd();
    }
  }

  end(): void {
    this.#ended = true;
    this.#queue = [];
    this.#wake?.();
  }

  /** Takes the rows of a commit: within the commit, so it must be quick. */
  offer(rows: readonly FeedRow[]): void {
    if (!this.#live) return;
    for (const row of rows) {
      if (row.index <= this.#seen) continue;
      this.#seen = row.index;
      if (!this.#wants(row)) continue;
      this.#queue.push(row);
      this.#queueBytes += this.#sizeOf(row);
      const { rows: most, bytes } = this.#limit;
      if (this.#queue.length > most || this.#queueBytes > bytes) this.#dropQueue();
    }
    this.#wake?.();
  }

  #dropQueue(): void {
    this.#lostTo = this.#seen;
    this.#queue = [];
    this.#queueBytes = 0;
  }

  #takeQueued(): FeedItem | undefined {
    if (this.#lostTo !== undefined) return this.#lose(this.#lostTo);
    const rows = this.#queue;
    this.#queue = [];
    this.#queueBytes = 0;
    this.#at = this.#seen;
    return rows.length === 0 ? undefined : { kind: 'rows', rows };
  }

  /** Reads on from the store; at its end the subscription goes live in the same turn, so nothing comes between. */
  #takeStored(): FeedItem | undefined {
    const newest = this.#store.index();
    // An index of another life: of this store nothing is known yet.
    if (this.#at > newest) return this.#lose(newest, 1);
    const rows = this.#store.readFeed(this.#at, CHUNK_ROWS);
    const [first] = rows;
    if (first === undefined) {
      if (this.#at < newest) return this.#lose(newest);
      this.#live = true;
      this.#seen = newest;
      return undefined;
    }
    if (first.index !== this.#at + 1) return this.#lose(first.index - 1);
    // Up to the next hole, if there is one: a row that could not be read.
    const hole = rows.findIndex((row, n) => row.index !== first.index + n);
    const whole = hole < 0 ? rows : rows.slice(0, hole);
    this.#at = whole.at(-1)?.index ?? this.#at;
    const wanted = whole.filter(this.#wants);
    return wanted.length === 0 ? undefined : { kind: 'rows', rows: wanted };
  }

  #lose(to: number, from = this.#at + 1): FeedItem {
    this.#at = to;
    this.#lostTo = undefined;
    return { kind: 'lost', from, to };
  }

  async #news(): Promise<void> {
    if (this.#queue.length > 0 || this.#lostTo !== undefined || this.#ended) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }
}

/** The whole state, at exactly this index. */
export interface Snapshot {
  readonly index: number;
  readonly jobs: readonly Indexed<JobRecord>[];
  readonly allocs: readonly { readonly alloc: Indexed<AllocRecord>; readonly tasks: readonly TaskRecord[] }[];
}

/** Reads the state in one turn of the event loop; the feed goes on from `index`. */
export function snapshotWithIndex(store: StateStore): Snapshot {
  const allocs = store.listAllocs().map((alloc) => ({ alloc, tasks: store.listTasks(alloc.record.id) }));
  return { index: store.index(), jobs: store.listJobs(), allocs };
}
