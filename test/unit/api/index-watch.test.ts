import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { IndexWatch, type WatchKey } from '../../../src/api/index-watch.js';
import { openMemoryStore } from '../../../src/state/memory-store.js';
import type { StateStore } from '../../../src/state/store.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { addEvent, putAlloc, putJob, putTask } from '../../helpers/records.js';

describe('IndexWatch', () => {
  let clock: FakeClock;
  let store: StateStore;
  let watch: IndexWatch;

  beforeEach(async () => {
    clock = new FakeClock();
    store = openMemoryStore({ clock });
    await Promise.all([
      store.commit([putJob(), putJob({ id: 'db' }), putAlloc(), putTask()]),
      clock.advance(20),
    ]);
    watch = new IndexWatch(store, clock);
  });
  afterEach(async () => {
    watch[Symbol.dispose]();
    await store.close();
  });

  /** Begins to wait; `done()` says whether it is over. */
  const begin = (key: WatchKey, index: number, signal = new AbortController().signal): (() => boolean) => {
    let over = false;
    void watch.changedAfter(key, index, { waitMs: 60_000, signal }).then(() => {
      over = true;
    });
    return () => over;
  };
  const commit = async (...changes: Parameters<StateStore['commit']>[0]): Promise<void> => {
    await Promise.all([store.commit(changes), clock.advance(20)]);
  };

  it('waits for a change after the index, and no longer than told', async () => {
    const current = begin('job/web', store.index());
    const old = begin('job/web', store.index() - 1);
    await clock.advance(59_000);
    assert.deepEqual([current(), old()], [false, true]);
    await clock.advance(1_000);
    assert.equal(current(), true);
    assert.deepEqual(clock.pendingMs(), []);
  });

  it('wakes who waits for what was changed, and nobody else', async () => {
    const index = store.index();
    const keys: WatchKey[] = [
      'jobs',
      'job/web',
      'job/db',
      'allocs',
      'alloc/a1',
      'alloc/a2',
      'node',
      'events/web',
    ];
    const waiting = keys.map((key) => ({ key, done: begin(key, index) }));
    await commit(putAlloc({ clientStatus: 'running' }));
    const woken = (): WatchKey[] => waiting.filter(({ done }) => done()).map(({ key }) => key);
    assert.deepEqual(woken(), ['jobs', 'job/web', 'allocs', 'alloc/a1']);
    await commit(addEvent(1));
    assert.ok(woken().includes('events/web') && !woken().includes('job/db'), woken().join());
  });

  it('remembers what changed while nobody waited', async () => {
    const seen = store.index();
    await commit(putAlloc({ clientStatus: 'running' }));
    const [mine, other] = [begin('alloc/a1', seen), begin('alloc/a2', seen)];
    await clock.settle();
    assert.deepEqual([mine(), other()], [true, false]);
    assert.equal(watch.lastTouched('alloc/a2'), seen);
    await clock.advance(60_000);
  });

  it('ends when the caller goes, and leaves no timer', async () => {
    const caller = new AbortController();
    const done = begin('jobs', store.index(), caller.signal);
    await clock.settle();
    assert.equal(done(), false);
    caller.abort();
    await clock.settle();
    assert.equal(done(), true);
    assert.deepEqual(clock.pendingMs(), []);
  });
});
