/**
 * Owns what is said on the feed, whatever carries it. A reader has no queue of its own: it has a place (an index) and
 * takes the next rows from there, from the newest ones in memory or else from the store, when it is ready for them. So
 * a slow reader costs nothing, slows nobody, and is told what it lost when the rows it needs are gone.
 */
import type { Clock } from '../base/clock.js';
import { AgentError } from '../base/errors.js';
import type { FeedRow, StateStore } from '../state/store.js';
import { parseFeedRequest, type FeedFilter } from './feed-request.js';
import { RecentRows } from './feed-recent.js';
import { encodeRow, type EncodedRow } from './feed-rows.js';
import { FeedText, type FeedBatch } from './feed-text.js';
import { withHeartbeat } from './heartbeat.js';
import type { Query } from './query.js';
import type { FeedMessage, FeedSnapshot, PassingEvent } from './wire.js';
import type { View } from './view.js';

const HEARTBEAT: FeedBatch = [new FeedText('{}')];
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

const DEFAULT_FEED_LIMITS: FeedLimits = { readers: 256, recentRows: 1024, rowsBehind: 10_000 };

export interface FeedDeps {
  readonly store: StateStore;
  readonly clock: Clock;
  readonly view: View;
  readonly limits?: Partial<FeedLimits>;
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
  readonly #readers = new Set<Reader>();

  constructor(deps: FeedDeps) {
    this.#store = deps.store;
    this.#clock = deps.clock;
    this.#view = deps.view;
    this.#limits = { ...DEFAULT_FEED_LIMITS, ...deps.limits };
    this.#recent = new RecentRows(deps.store.index(), this.#limits.recentRows);
    this.#subscription = deps.store.onCommitted((rows) => {
      this.#keep(rows);
      for (const reader of [...this.#readers]) reader.wake();
    });
  }

  /**
   * The messages of one reader, in batches, until `signal` aborts: that is also what frees its place.
   * @throws AgentError bad_request, too_many
   */
  open(query: Query, signal: AbortSignal): AsyncGenerator<FeedBatch, void, void> {
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
    if (this.#readers.size >= this.#limits.readers) {
      throw new AgentError('too_many', `the feed has ${this.#readers.size} readers already: try again later`);
    }
    const reader = new Reader(request.filter);
    if (!signal.aborted) {
      this.#readers.add(reader);
      const leave = (): void => {
        this.#readers.delete(reader);
        reader.wake();
      };
      signal.addEventListener('abort', leave, { once: true });
    }
    const messages = this.#read(
      reader,
      { ...request, after: after ?? newest, begins: request.after === undefined },
      signal,
    );
    return withHeartbeat(messages, { beat: HEARTBEAT, everyMs: HEARTBEAT_MS, clock: this.#clock });
  }

  /** Readers that are connected now. */
  get readers(): number {
    return this.#readers.size;
  }

  /** True while somebody has asked for this topic by name: what is told of nothing else need not be measured before. */
  isNamed(topic: PassingEvent['Topic']): boolean {
    for (const { filter } of this.#readers) if (filter.names(topic)) return true;
    return false;
  }

  /**
   * Tells something that is true now and not kept. Only those who have named its topic get it, and one who is slow gets
   * the newest of each key. Its index is the reader's place: it moves nobody.
   */
  tell(event: PassingEvent): void {
    const keys = [event.Key, ...event.FilterKeys];
    for (const reader of this.#readers) {
      if (!reader.filter.names(event.Topic) || !reader.filter.wants(event.Topic, keys)) continue;
      reader.passing.set(`${event.Topic} ${event.Key}`, event);
      reader.wake();
    }
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #keep(rows: readonly FeedRow[]): void {
    // Putting rows into words costs something: not for nobody.
    if (this.#readers.size > 0) this.#recent.push(rows, this.#view.context());
    else this.#recent.skip(rows);
  }

  async *#read(reader: Reader, from: Beginning, signal: AbortSignal): AsyncGenerator<FeedBatch, void, void> {
    const { filter } = reader;
    let at = from.after;
    if (from.snapshot) {
      // One turn of the event loop: what is read belongs to exactly this index.
      at = this.#store.index();
      yield [encode({ Index: at, Snapshot: filterSnapshot(this.#view.snapshot(), filter) })];
    } else if (from.begins) {
      // So that a reader that is cut off before the first event can resume.
      yield [encode({ Index: at, Events: [] })];
    }
    let isUpToDate = false;
    while (!signal.aborted) {
      const next = this.#next(at, isUpToDate);
      if (next.kind === 'lost') {
        yield [encode({ Index: next.to, Lost: { From: at + 1, To: next.to } })];
        at = next.to;
        continue;
      }
      const batch = pick(next.rows, at, filter);
      at = next.rows.at(-1)?.index ?? at;
      if (batch.length > 0) yield batch;
      const passing = reader.takePassing(at);
      if (passing.length > 0) yield passing;
      if (next.rows.length > 0) continue;
      isUpToDate = true;
      if (!isAborted(signal) && this.#recent.newest() <= at) await reader.sleep();
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
}

interface Beginning {
  readonly snapshot: boolean;
  readonly after: number;
  /** Neither a snapshot nor a place was asked for: say where it begins. */
  readonly begins: boolean;
}

/** One who is connected. */
class Reader {
  readonly filter: FeedFilter;
  /** What is to be told and not kept: the newest of each key. */
  readonly passing = new Map<string, PassingEvent>();
  #isAwake = false;
  #wake: (() => void) | undefined;

  constructor(filter: FeedFilter) {
    this.filter = filter;
  }

  /** There is news, or it is over. */
  wake(): void {
    this.#isAwake = true;
    this.#wake?.();
  }

  /** Resolves at the next wake, or at once after one that came since the last sleep. */
  async sleep(): Promise<void> {
    if (!this.#isAwake) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#isAwake = false;
  }

  takePassing(index: number): FeedBatch {
    if (this.passing.size === 0) return [];
    const told = [...this.passing.values()].map((event) =>
      encode({ Index: index, Events: [{ ...event, Index: index }] }),
    );
    this.passing.clear();
    return told;
  }
}

/** What a reader wants of these rows. One that could not be read was moved aside: said, not passed over. */
function pick(rows: readonly EncodedRow[], after: number, filter: FeedFilter): FeedBatch {
  const isWhole = (rows.at(-1)?.index ?? after) === after + rows.length;
  // The array itself: whoever takes the same one shares its bytes.
  if (isWhole && filter.wantsAll) return rows;
  const batch: FeedText[] = [];
  let at = after;
  for (const row of rows) {
    if (row.index > at + 1) {
      batch.push(encode({ Index: row.index - 1, Lost: { From: at + 1, To: row.index - 1 } }));
    }
    at = row.index;
    if (filter.wants(row.topic, row.keys)) batch.push(row);
  }
  return batch;
}

function encode(message: FeedMessage): FeedText {
  return new FeedText(JSON.stringify(message));
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
    Deployments: snapshot.Deployments.filter(({ ID, JobID }) => filter.wants('Deployment', [ID, JobID])),
  };
}
