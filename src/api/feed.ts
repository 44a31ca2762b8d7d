/**
 * Owns what is said on the feed, whatever carries it. A reader has no queue of its own: it has a place (an index) and
 * takes the next rows from there, from the newest ones in memory or else from the store, when it is ready for them. So
 * a slow reader costs nothing, slows nobody, and is told what it lost when the rows it needs are gone.
 */
import type { Clock } from '../base/clock.js';
import { AgentError } from '../base/errors.js';
import type { FeedRow, StateStore } from '../state/store.js';
import type { FeedFilter, FeedRequest } from './feed-request.js';
import { parseFeedRequest } from './feed-request.js';
import { StatsMailbox } from './feed-stats.js';
import type { AgentOperations } from './operations.js';
import { RecentRows, encodeRow, type EncodedRow } from './feed-rows.js';
import { withHeartbeat } from './heartbeat.js';
import type { Query } from './query.js';
import type { FeedMessage, FeedSnapshot } from './wire.js';
import type { View } from './view.js';

const HEARTBEAT = '{}';
const HEARTBEAT_MS = 10_000;
/** Rows read from the store at once: few enough not to hold up the agent, enough to be quick. */
const BATCH_ROWS = 256;

export interface FeedLimits {
  /** Readers at once. A dashboard holds one; far above what people open. */
  readonly readers: number;
  /** Newest rows kept in memory, shared by all readers. */
  readonly recentRows: number;
  /** A reader that was up to date and has fallen this far behind is set to the present, and told. */
  readonly rowsBehind: number;
}

export const DEFAULT_FEED_LIMITS: FeedLimits = { readers: 256, recentRows: 1024, rowsBehind: 10_000 };

export interface FeedDeps {
  readonly store: StateStore;
  readonly clock: Clock;
  readonly view: View;
  /** Rounds of samples, for the topic Stats; absent = there are none. */
  readonly usage?: Pick<AgentOperations, 'onUsage' | 'node'>;
  readonly limits?: Partial<FeedLimits>;
}

/** How one reader is served. */
interface Reading {
  readonly after: number;
  readonly signal: AbortSignal;
  readonly mailbox: StatsMailbox | undefined;
}

/** What comes after a reader's place. */
type Next =
  | { readonly kind: 'rows'; readonly rows: readonly EncodedRow[] }
  /** Up to this index nothing can be given any more, or shall be waited for. */
  | { readonly kind: 'lost'; readonly to: number };

export class Feed implements Disposable {
  readonly #store: StateStore;
  readonly #clock: Clock;
  readonly #view: View;
  readonly #limits: FeedLimits;
  readonly #recent: RecentRows;
  readonly #subscription: Disposable;
  readonly #usage: FeedDeps['usage'];
  readonly #usageSubscription: Disposable | undefined;
  readonly #mailboxes = new Set<StatsMailbox>();
  /** Wakes the readers that have read everything. */
  readonly #idle = new Set<() => void>();
  #readers = 0;

  constructor(deps: FeedDeps) {
    this.#store = deps.store;
    this.#clock = deps.clock;
    this.#view = deps.view;
    this.#limits = { ...DEFAULT_FEED_LIMITS, ...deps.limits };
    this.#recent = new RecentRows(deps.store.index(), this.#limits.recentRows);
    this.#subscription = deps.store.onCommitted((rows) => {
      this.#keep(rows);
      for (const wake of [...this.#idle]) wake();
    });
    this.#usage = deps.usage;
    this.#usageSubscription = deps.usage?.onUsage((round) => {
      for (const mailbox of this.#mailboxes) mailbox.put(round);
      if (this.#mailboxes.size > 0) for (const wake of [...this.#idle]) wake();
    });
  }

  /**
   * The messages of one reader, as JSON texts, until `signal` aborts: that is also what frees its place.
   * @throws AgentError bad_request, too_many
   */
  open(query: Query, signal: AbortSignal): AsyncGenerator<string, void, void> {
    const request = parseFeedRequest(query);
    const newest = this.#store.index();
    // An empty store says 1 in X-Nomad-Index, where 0 would mean something else.
    const after = newest === 0 && request.after === 1 ? 0 : request.after;
    if (!request.snapshot && after !== undefined && after > newest) {
      throw new AgentError(
        'bad_request',
        `index ${after} lies ahead of this host's newest, ${newest}: begin again with snapshot=true`,
      );
    }
    if (this.#readers >= this.#limits.readers) {
      throw new AgentError('too_many', `the feed has ${this.#readers} readers already: try again later`);
    }
    if (!signal.aborted) {
      this.#readers += 1;
      signal.addEventListener('abort', () => (this.#readers -= 1), { once: true });
    }
    const messages = this.#read(request, after ?? newest, signal);
    return withHeartbeat(messages, { beat: HEARTBEAT, everyMs: HEARTBEAT_MS, clock: this.#clock });
  }

  /** Readers that are connected now. */
  get readers(): number {
    return this.#readers;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    this.#usageSubscription?.[Symbol.dispose]();
  }

  #keep(rows: readonly FeedRow[]): void {
    // Putting rows into words costs something: not for nobody.
    if (this.#readers > 0) this.#recent.push(rows, this.#view.context());
    else this.#recent.skip(rows);
  }

  async *#read(request: FeedRequest, after: number, signal: AbortSignal): AsyncGenerator<string, void, void> {
    const mailbox =
      request.filter.wantsStats && this.#usage !== undefined
        ? new StatsMailbox(request.filter, this.#usage.node())
        : undefined;
    if (mailbox === undefined) {
      yield* this.#readEvents(request, { after, signal, mailbox });
      return;
    }
    this.#mailboxes.add(mailbox);
    try {
      yield* this.#readEvents(request, { after, signal, mailbox });
    } finally {
      this.#mailboxes.delete(mailbox);
    }
  }

  async *#readEvents(
    request: FeedRequest,
    { after, signal, mailbox }: Reading,
  ): AsyncGenerator<string, void, void> {
    const { filter } = request;
    let at = after;
    if (request.snapshot) {
      // One turn of the event loop: what is read belongs to exactly this index.
      at = this.#store.index();
      yield encode({ Index: at, Snapshot: filterSnapshot(this.#view.snapshot(), filter) });
    } else if (request.after === undefined) {
      // So that a reader that is cut off before the first event can resume.
      yield encode({ Index: at, Events: [] });
    }
    let isUpToDate = false;
    while (!signal.aborted) {
      const next = this.#next(at, isUpToDate);
      if (next.kind === 'lost') {
        yield encode({ Index: next.to, Lost: { From: at + 1, To: next.to } });
        at = next.to;
        continue;
      }
      if (next.rows.length === 0) {
        isUpToDate = true;
        if (mailbox?.isEmpty === false) yield encode(mailbox.take(at));
        else await this.#news(at, signal);
      }
      for (const row of next.rows) {
        if (isAborted(signal)) return;
        // A row that could not be read was moved aside: said, not passed over.
        if (row.index > at + 1)
          yield encode({ Index: row.index - 1, Lost: { From: at + 1, To: row.index - 1 } });
        at = row.index;
        if (filter.wants(row.topic, row.keys)) yield row.text;
      }
    }
  }

  /** @param wasUpToDate then the reader shall not fall behind without end */
  #next(at: number, wasUpToDate: boolean): Next {
    const newest = this.#recent.newest();
    if (wasUpToDate && newest - at > this.#limits.rowsBehind) return { kind: 'lost', to: newest };
    const recent = this.#recent.after(at);
    if (recent !== undefined) return { kind: 'rows', rows: recent };
    const { oldest } = this.#store.feedBounds();
    if (at + 1 < oldest) return { kind: 'lost', to: oldest - 1 };
    const rows = this.#store.readFeed(at, BATCH_ROWS);
    if (rows.length === 0 && newest > at) return { kind: 'lost', to: newest };
    const context = this.#view.context();
    return { kind: 'rows', rows: rows.map((row) => encodeRow(row, context)) };
  }

  /** Resolves when there may be rows after `at`. */
  async #news(at: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#recent.newest() > at) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#idle.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#idle.add(done);
      signal.addEventListener('abort', done);
    });
  }
}

function encode(message: FeedMessage): string {
  return JSON.stringify(message);
}

/** A signal may abort while we are suspended, which the compiler does not know. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** What a reader did not ask for, it does not get in the beginning either. */
function filterSnapshot(snapshot: FeedSnapshot, filter: FeedFilter): FeedSnapshot {
  return {
    Node: snapshot.Node,
    Jobs: snapshot.Jobs.filter(({ ID }) => filter.wants('Job', [ID])),
    Allocations: snapshot.Allocations.filter(({ ID, JobID }) => filter.wants('Allocation', [ID, JobID])),
  };
}
