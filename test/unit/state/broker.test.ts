/** The fan-out of the feed: no gap, no repeat, or the truth about what was lost; whatever readers do. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import {
  Broker,
  snapshotWithIndex,
  type FeedItem,
  type SubscribeOptions,
} from '../../../src/state/broker.js';
import { openMemoryStore } from '../../../src/state/memory-store.js';
import type { AllocRecord, FeedRow, JobRecord, StateStore, TaskRecord } from '../../../src/state/store.js';
import { ALLOC_IDS, anyChange, JOB_IDS } from '../../helpers/arbitrary-changes.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { addEvent, putAlloc, putJob, putTask } from '../../helpers/records.js';

const indexes = (rows: readonly FeedRow[]): number[] => rows.map(({ index }) => index);

/** What an item says, in short: `1 2 3` or `lost 4-6`. */
function say(item: FeedItem): string {
  return item.kind === 'rows' ? indexes(item.rows).join(' ') : `lost ${item.from}-${item.to}`;
}

async function take(items: AsyncGenerator<FeedItem, void, void>): Promise<string> {
  const { value, done } = await items.next();
  return done === true ? 'end' : say(value);
}

/** A store with a job, an alloc and `events` events: index 2 + events. */
async function storeWith(events: number, limits = {}): Promise<{ store: StateStore; clock: FakeClock }> {
  const clock = new FakeClock();
  const store = openMemoryStore({ clock, limits });
  await store.commit([putJob(), putAlloc()]);
  for (let seq = 1; seq <= events; seq++) await store.commit([addEvent(seq)]);
  return { store, clock };
}

describe('Broker', () => {
  it('goes on from an index, and then live, without a gap or a repeat', async () => {
    const { store } = await storeWith(3);
    using broker = new Broker(store);
    const items = broker.subscribe({ afterIndex: 2 });
    assert.equal(await take(items), '3 4 5');
    const next = take(items);
    await store.commit([addEvent(4)]);
    assert.equal(await next, '6');
    await Promise.all([store.commit([addEvent(5)]), store.commit([addEvent(6)])]);
    assert.equal(await take(items), '7 8');
  });

  it('begins now when no index is given, and at the time of the call', async () => {
    const { store } = await storeWith(2);
    using broker = new Broker(store);
    const items = broker.subscribe();
    await store.commit([addEvent(3)]);
    assert.equal(await take(items), '5');
  });

  it('reads a long past in pieces', async () => {
    const { store } = await storeWith(600);
    using broker = new Broker(store);
    const items = broker.subscribe({ afterIndex: 0 });
    const seen: string[] = [];
    for (let n = 0; n < 3; n++) seen.push(await take(items));
    assert.deepEqual(
      seen.join(' ').split(' ').map(Number),
      Array.from({ length: 602 }, (_, n) => n + 1),
    );
  });

  it('hands out what is wanted, and goes past the rest', async () => {
    const { store } = await storeWith(3);
    using broker = new Broker(store);
    const items = broker.subscribe({ afterIndex: 0, wants: (row) => row.payload.topic === 'Job' });
    assert.equal(await take(items), '1');
    const next = take(items);
    await store.commit([addEvent(4)]);
    await store.commit([putJob({ version: 1 })]);
    assert.equal(await next, '7');
  });

  it('says first what is no longer held', async () => {
    const { store, clock } = await storeWith(8, { feedRows: 3, feedAgeMs: 10 });
    await clock.advance(1000);
    await store.commit([addEvent(9)]);
    using broker = new Broker(store);
    const items = broker.subscribe({ afterIndex: 4 });
    assert.equal(await take(items), 'lost 5-8');
    assert.equal(await take(items), '9 10 11');
  });

  it('takes an index from another life for a loss of everything', async () => {
    const { store } = await storeWith(1);
    using broker = new Broker(store);
    const items = broker.subscribe({ afterIndex: 500 });
    assert.equal(await take(items), 'lost 1-3');
    const next = take(items);
    await store.commit([addEvent(2)]);
    assert.equal(await next, '4');
  });

  it('says that rows in the middle are missing', async () => {
    const { store } = await storeWith(6);
    const holes = new Set([4, 5]);
    const torn: StateStore = Object.create(store, {
      readFeed: {
        value: (after: number, limit: number) =>
          store.readFeed(after, limit).filter((row) => !holes.has(row.index)),
      },
      index: { value: () => store.index() },
      onCommitted: { value: (listener: (rows: readonly FeedRow[]) => void) => store.onCommitted(listener) },
    }) as StateStore;
    using broker = new Broker(torn);
    const items = broker.subscribe({ afterIndex: 0 });
    assert.deepEqual(
      [await take(items), await take(items), await take(items)],
      ['1 2 3', 'lost 4-5', '6 7 8'],
    );
  });

  for (const [name, queueLimit] of [
    ['rows', { rows: 3, bytes: 1e9 }],
    ['bytes', { rows: 1e9, bytes: 500 }],
  ] as const) {
    it(`tells a reader that is slow by ${name} what it lost, and nobody else notices`, async () => {
      const { store } = await storeWith(0);
      using broker = new Broker(store);
      const slow = broker.subscribe({ queueLimit });
      const quick = broker.subscribe();
      const first = take(slow);
      const quickItems: string[] = [];
      const pump = (async () => {
        for await (const item of quick) quickItems.push(say(item));
      })();
      for (let seq = 1; seq <= 7; seq++) await store.commit([addEvent(seq)]);
      assert.equal(await first, '3');
      const lost = await take(slow);
      assert.match(lost, /^lost 4-/);
      const to = Number(lost.split('-')[1]);
      const rest = to === 9 ? [] : (await take(slow)).split(' ').map(Number);
      assert.deepEqual(
        rest,
        Array.from(rest, (_, n) => to + 1 + n),
      );
      broker.close();
      await pump;
      assert.deepEqual(quickItems.join(' ').split(' ').map(Number), [3, 4, 5, 6, 7, 8, 9]);
    });
  }

  it('tells a loss from the first row that was not handed out', async () => {
    const { store } = await storeWith(5);
    using broker = new Broker(store);
    const items = broker.subscribe({ queueLimit: { rows: 1, bytes: 1e9 } });
    const first = take(items);
    await nextTurn();
    await Promise.all([6, 7, 8].map((seq) => store.commit([addEvent(seq)])));
    assert.equal(await first, 'lost 8-9');
    assert.equal(await take(items), '10');
  });

  it('ends with its signal, with closing, and when the reader leaves', async () => {
    const { store } = await storeWith(1);
    const broker = new Broker(store);
    const abort = new AbortController();
    const aborted = take(broker.subscribe({ signal: abort.signal }));
    const waiting = take(broker.subscribe());
    for await (const item of broker.subscribe({ afterIndex: 0 })) {
      assert.equal(say(item), '1 2 3');
      break;
    }
    assert.equal(broker.subscribers, 2);
    abort.abort();
    assert.equal(await aborted, 'end');
    assert.equal(broker.subscribers, 1);
    broker.close();
    assert.equal(await waiting, 'end');
    assert.equal(broker.subscribers, 0);
    assert.equal(await take(new Broker(store).subscribe({ signal: abort.signal, afterIndex: 0 })), 'end');
  });
});

/** Knows the state from a snapshot and the rows after it, as a reader of the feed would. */
class Follower {
  readonly #store: StateStore;
  readonly #broker: Broker;
  readonly #options: SubscribeOptions;
  #jobs = new Map<string, JobRecord>();
  #allocs = new Map<string, { alloc: AllocRecord; tasks: readonly TaskRecord[] }>();
  #at = 0;
  #items: AsyncGenerator<FeedItem, void, void>;
  #pending: Promise<void> | undefined;
  #ready: FeedItem | undefined;

  constructor(store: StateStore, broker: Broker, options: SubscribeOptions) {
    this.#store = store;
    this.#broker = broker;
    this.#options = options;
    this.#items = broker.subscribe({ ...options, afterIndex: 0 });
  }

  /** Drops the connection and resumes by index. What was on its way is lost with it. */
  async reconnect(): Promise<void> {
    const old = this.#items;
    this.#items = this.#broker.subscribe({ ...this.#options, afterIndex: this.#at });
    this.#pending = undefined;
    this.#ready = undefined;
    void old.return();
    await nextTurn();
  }

  /** Takes one item if there is one by now. @returns whether there was */
  async read(): Promise<boolean> {
    const items = this.#items;
    this.#pending ??= items.next().then(({ value, done }) => {
      if (done !== true && items === this.#items) this.#ready = value;
    });
    for (let turn = 0; turn < 4; turn++) await nextTurn();
    if (this.#ready === undefined) return false;
    const item = this.#ready;
    this.#ready = undefined;
    this.#pending = undefined;
    if (item.kind === 'lost') this.#lookAnew(item);
    else for (const row of item.rows) this.#apply(row);
    return true;
  }

  assertKnowsAll(): void {
    const { index, jobs, allocs } = snapshotWithIndex(this.#store);
    assert.equal(this.#at, index);
    assert.deepEqual(this.#jobs, new Map(jobs.map(({ record }) => [record.id, record])));
    const known = allocs.map(
      ({ alloc, tasks }) => [alloc.record.id, { alloc: alloc.record, tasks }] as const,
    );
    assert.deepEqual(this.#allocs, new Map(known));
  }

  #lookAnew(lost: { readonly from: number; readonly to: number }): void {
    assert.ok(
      lost.from <= this.#at + 1 && lost.from <= lost.to,
      `lost ${lost.from}-${lost.to} at ${this.#at}`,
    );
    const { index, jobs, allocs } = snapshotWithIndex(this.#store);
    assert.ok(index >= lost.to);
    this.#jobs = new Map(jobs.map(({ record }) => [record.id, record]));
    this.#allocs = new Map(
      allocs.map(({ alloc, tasks }) => [alloc.record.id, { alloc: alloc.record, tasks }]),
    );
    this.#at = index;
  }

  #apply({ index, payload }: FeedRow): void {
    // Rows that the snapshot after a loss already knew.
    if (index <= this.#at) return;
    assert.equal(index, this.#at + 1, 'no gap');
    this.#at = index;
    switch (payload.type) {
      case 'JobRegistered':
      case 'JobDeregistered':
        this.#jobs.set(payload.job.id, payload.job);
        return;
      case 'JobPurged':
        this.#jobs.delete(payload.jobId);
        return;
      case 'AllocationUpdated':
        this.#allocs.set(payload.alloc.id, { alloc: payload.alloc, tasks: payload.tasks });
        return;
      case 'AllocationPurged':
        this.#allocs.delete(payload.allocId);
        return;
      case 'TaskEvent':
    }
  }
}

describe('a reader of the feed', () => {
  it('ends up with the state of the store, whatever it and the others do', async () => {
    const who = fc.nat(2);
    const step = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({
          do: fc.constant('commit' as const),
          changes: fc.array(anyChange, { maxLength: 4 }),
        }),
      },
      { weight: 6, arbitrary: fc.record({ do: fc.constant('read' as const), who }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('reconnect' as const), who }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(600) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
        const clock = new FakeClock();
        const store = openMemoryStore({ clock, limits: { feedRows: 6, feedAgeMs: 400 } });
        using broker = new Broker(store);
        const limits = [{ rows: 1, bytes: 1e6 }, { rows: 1000, bytes: 3000 }, undefined];
        const followers = limits.map((queueLimit) => {
          return new Follower(store, broker, queueLimit === undefined ? {} : { queueLimit });
        });
        await store.commit([
          ...JOB_IDS.map((id) => putJob({ id })),
          ...ALLOC_IDS.map((id) => putAlloc({ id })),
          putTask(),
        ]);
        for (const each of steps) {
          if (each.do === 'commit') await store.commit(each.changes).catch(() => undefined);
          else if (each.do === 'read') await followers[each.who]?.read();
          else if (each.do === 'reconnect') await followers[each.who]?.reconnect();
          else await clock.advance(each.ms);
        }
        for (const follower of followers) {
          while (await follower.read());
          follower.assertKnowsAll();
        }
      }),
      { numRuns: 60 },
    );
  });
});
