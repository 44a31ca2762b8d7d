/** What every StateStore must tell: grouping, listeners, the rows that commits make, their indexes and their bounds. */
import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'node:test';
import { NODE_SCHEDULING_KEY, type Change, type FeedRow, type TaskEventRow } from '../../src/state/store.js';
import {
  addEvent,
  allocRecord,
  putAlloc,
  putHook,
  putJob,
  putRun,
  putTask,
  stamped,
  taskRecord,
} from '../helpers/records.js';
import { STORES, StoreStock } from '../helpers/stores.js';

const GROUND: readonly Change[] = [putJob(), putAlloc(), putTask()];
const named = (rows: readonly FeedRow[]): string[] => rows.map((row) => `${row.payload.type} ${row.key}`);
const indexes = (rows: readonly FeedRow[]): number[] => rows.map((row) => row.index);
const seqs = (rows: readonly TaskEventRow[]): number[] => rows.map((row) => row.seq);
const driverSays = (length: number) => ({ type: 'Driver', message: 'm'.repeat(length) }) as const;

for (const [kind, make] of Object.entries(STORES)) {
  const stock = new StoreStock(make);

  describe(`${kind} store: grouping`, () => {
    afterEach(() => stock.removeAll());

    it('makes one transaction of what is handed in during one turn, in order', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      const told: (readonly FeedRow[])[] = [];
      store.onCommitted((rows) => told.push(rows));
      await Promise.all(Array.from({ length: 100 }, (_, n) => store.commit([addEvent(n + 1)])));
      assert.equal(told.length, 1);
      const order = told[0]?.map((row) => (row.payload.topic === 'TaskEvent' ? row.payload.event.seq : 0));
      assert.deepEqual(
        order,
        Array.from({ length: 100 }, (_, n) => n + 1),
      );
    });

    it('stores the others when one commit of the group is bad', async () => {
      const { store } = stock.take();
      const groups: number[] = [];
      store.onCommitted((rows) => groups.push(rows.length));
      const commits = [
        store.commit([putJob({ id: 'one' })]),
        store.commit([putJob({ id: 'lost' }), putTask({ allocId: 'gone' })]),
        store.commit([putJob({ id: 'two' })], { whenRefused: 'keep' }),
      ];
      const [one, lost, two] = await Promise.allSettled(commits);
      assert.equal(one?.status, 'fulfilled');
      assert.equal(lost?.status, 'rejected');
      assert.deepEqual(two, { status: 'fulfilled', value: 'stored' });
      assert.deepEqual(named(store.readFeed(0, 10)), ['JobRegistered one', 'JobRegistered two']);
      assert.deepEqual(indexes(store.readFeed(0, 10)), [1, 2]);
      assert.deepEqual(groups, [2]);
    });

    it('tells once of an alloc that several of the group change, as it is then, and of each event', async () => {
      const { store } = stock.take();
      await store.commit([...GROUND, putTask({ task: 'other' })]);
      const index = store.index();
      await Promise.all([
        store.commit([putTask({ attempts: 1 }), addEvent(1)]),
        store.commit([putTask({ task: 'other', attempts: 7 }), putAlloc({ clientStatus: 'running' })]),
        store.commit([putTask({ attempts: 2 }), addEvent(2), putAlloc({ clientStatus: 'failed' })]),
      ]);
      const rows = store.readFeed(index, 10);
      // After what led to it: who follows it must not take it for over before it has seen why.
      assert.deepEqual(named(rows), ['TaskEvent a1/server', 'AllocationUpdated a1', 'TaskEvent a1/server']);
      const [, { payload } = { payload: undefined }] = rows;
      assert.ok(payload?.topic === 'Allocation' && payload.type === 'AllocationUpdated');
      assert.equal(payload.alloc.clientStatus, 'failed');
      const attempts = payload.tasks.map((task) => [task.task, task.attempts]);
      assert.deepEqual(attempts, [
        ['server', 2],
        ['other', 7],
      ]);
      assert.deepEqual(
        store.listTasks('a1').map((task) => [task.task, task.attempts]),
        attempts,
      );
    });

    it('tells what became of an alloc before it tells that it is gone', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      const index = store.index();
      await Promise.all([
        store.commit([putAlloc({ clientStatus: 'complete' })]),
        store.commit([{ kind: 'delete_alloc', allocId: 'a1' }]),
      ]);
      assert.deepEqual(named(store.readFeed(index, 10)), ['AllocationUpdated a1', 'AllocationPurged a1']);
    });

    it('stores the others when one commit that changes the same alloc is bad', async () => {
      const { store } = stock.take();
      await store.commit([...GROUND, putRun({ runId: 'r1' })]);
      const commits = await Promise.allSettled([
        store.commit([putTask({ attempts: 1 })]),
        store.commit([putTask({ attempts: 7 }), putRun({ runId: 'r1', task: 'other' })]),
        store.commit([addEvent(1)]),
      ]);
      assert.deepEqual(
        commits.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      );
      assert.equal(store.listTasks('a1')[0]?.attempts, 1);
      assert.equal(store.listTaskEvents({ allocId: 'a1' }).length, 1);
    });

    it('a run that two of the group claim belongs to the first', async () => {
      const { store } = stock.take();
      await store.commit([...GROUND, putTask({ task: 'other' })]);
      const commits = await Promise.allSettled([
        store.commit([putRun({ runId: 'r1' })]),
        store.commit([putRun({ runId: 'r1', task: 'other' })]),
      ]);
      assert.deepEqual(
        commits.map(({ status }) => status),
        ['fulfilled', 'rejected'],
      );
      const { task } = taskRecord({});
      assert.equal(store.getRun('r1')?.task, task);
    });

    it('lets a commit that is not urgent wait for company, ten milliseconds at most', async () => {
      const { store, clock } = stock.take();
      await store.commit(GROUND);
      const told: number[] = [];
      store.onCommitted((rows) => told.push(rows.length));
      const lazy = store.commit([addEvent(1)], { urgent: false });
      await clock.advance(9);
      assert.deepEqual(told, []);
      await clock.advance(1);
      assert.deepEqual(told, [1]);
      const second = store.commit([addEvent(2)], { urgent: false });
      await store.commit([addEvent(3)]);
      await Promise.all([lazy, second]);
      assert.deepEqual(told, [1, 2], 'an urgent one takes the waiting one along');
      assert.deepEqual(clock.pendingMs(), []);
    });

    it('tells listeners before the commit resolves, and stops when asked', async () => {
      const { store } = stock.take();
      const told: string[] = [];
      const bad = store.onCommitted(() => {
        throw new Error('a bad listener');
      });
      const listen = (rows: readonly FeedRow[]): void => {
        assert.equal(store.index(), rows.at(-1)?.index, 'reads see what is told');
        told.push(...named(rows));
      };
      const first = store.onCommitted(listen);
      const second = store.onCommitted(listen);
      await store.commit([putJob()]);
      assert.deepEqual(told, ['JobRegistered web', 'JobRegistered web']);
      second[Symbol.dispose]();
      second[Symbol.dispose]();
      await store.commit([putJob({ version: 1, stopped: true })]);
      first[Symbol.dispose]();
      bad[Symbol.dispose]();
      await store.commit([putJob({ version: 2 })]);
      assert.deepEqual(told.slice(2), ['JobDeregistered web']);
    });
  });

  describe(`${kind} store: feed`, () => {
    afterEach(() => stock.removeAll());

    it('tells each touched alloc once, as it stands after the commit, at its first change', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      const index = store.index();
      const rows: FeedRow[] = [];
      store.onCommitted((more) => rows.push(...more));
      await store.commit([
        putTask({ state: 'running', phase: 'starting' }),
        addEvent(1),
        putTask({ state: 'running', phase: 'running' }),
        putAlloc({ clientStatus: 'running' }),
        putRun(),
        putHook(),
        { kind: 'put_host', key: 'k', value: 'v' },
      ]);
      assert.deepEqual(named(rows), ['AllocationUpdated a1', 'TaskEvent a1/server']);
      assert.deepEqual(rows[0]?.payload, {
        topic: 'Allocation',
        type: 'AllocationUpdated',
        alloc: allocRecord({ clientStatus: 'running' }),
        tasks: [taskRecord({ state: 'running', phase: 'running' })],
      });
      assert.deepEqual(rows[1]?.payload, {
        topic: 'TaskEvent',
        type: 'TaskEvent',
        event: { allocId: 'a1', task: 'server', ...stamped(1) },
        jobId: 'web',
      });
      assert.deepEqual(indexes(rows), [index + 1, index + 2]);
      assert.deepEqual(store.readFeed(index, 10), rows);
    });

    it('tells of the node, and gives that back to who asks later', async () => {
      const { store } = stock.take();
      const rows: FeedRow[] = [];
      store.onCommitted((more) => rows.push(...more));
      await store.commit([{ kind: 'put_host', key: NODE_SCHEDULING_KEY, value: '{"drain":true}' }]);
      assert.deepEqual(rows[0]?.payload, {
        topic: 'Node',
        type: 'NodeSchedulingUpdated',
        scheduling: '{"drain":true}',
      });
      assert.deepEqual(store.readFeed(0, 10), rows);
      assert.deepEqual(store.listQuarantined(), []);
    });

    it('leaves the index alone when nothing worth telling changes', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      const index = store.index();
      store.onCommitted(() => assert.fail('there is nothing to tell'));
      await store.commit([putRun(), putHook(), { kind: 'put_host', key: 'k', value: 'v' }]);
      await store.commit([
        { kind: 'delete_alloc', allocId: 'nobody' },
        { kind: 'delete_job', jobId: 'nobody' },
      ]);
      await store.commit([]);
      assert.equal(store.index(), index);
    });

    it('tells what was purged, in the order of the changes', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      await store.commit([
        { kind: 'delete_job', jobId: 'web' },
        { kind: 'delete_alloc', allocId: 'a1' },
      ]);
      const payloads = store.readFeed(2, 9).map((row) => row.payload);
      assert.deepEqual(payloads, [
        { topic: 'Job', type: 'JobPurged', jobId: 'web' },
        { topic: 'Allocation', type: 'AllocationPurged', allocId: 'a1', jobId: 'web' },
      ]);
    });

    it('tells only the end of an alloc that comes and goes within one commit', async () => {
      const { store } = stock.take();
      await store.commit([putJob()]);
      const again = putAlloc({ group: 'back' });
      await store.commit([putAlloc(), putTask(), { kind: 'delete_alloc', allocId: 'a1' }, again]);
      assert.deepEqual(named(store.readFeed(1, 9)), ['AllocationPurged a1', 'AllocationUpdated a1']);
      assert.deepEqual(store.listTasks('a1'), []);
    });

    it('says when a record was made and last changed', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      await store.commit([putJob({ version: 1 })]);
      await store.commit([putTask({ state: 'running' })]);
      const when = (found: { createIndex: number; modifyIndex: number } | undefined): number[] =>
        found === undefined ? [] : [found.createIndex, found.modifyIndex];
      assert.deepEqual(when(store.getJob('web')), [1, 3]);
      assert.deepEqual(when(store.getJobVersion('web', 0)), [1, 1]);
      assert.deepEqual(when(store.getJobVersion('web', 1)), [1, 3]);
      assert.deepEqual(when(store.getAlloc('a1')), [2, 4]);
      assert.deepEqual(store.listJobs(), [store.getJob('web')]);
      assert.deepEqual(store.listAllocs(), [store.getAlloc('a1')]);
    });
  });

  describe(`${kind} store: bounds`, () => {
    afterEach(() => stock.removeAll());

    it('bounds the events of a task by number, and counts what it drops', async () => {
      const { store } = stock.take({ eventsPerTask: 5 });
      await store.commit([...GROUND, addEvent(1, undefined, 'a1', 'other')]);
      for (let seq = 1; seq <= 12; seq++) {
        await store.commit([addEvent(seq)]);
        assert.equal(store.countDroppedEvents('a1', 'server'), Math.max(0, seq - 5));
      }
      assert.deepEqual(seqs(store.listTaskEvents({ task: 'server' })), [8, 9, 10, 11, 12]);
      assert.deepEqual(seqs(store.listTaskEvents({ task: 'other' })), [1]);
      assert.equal(store.countDroppedEvents('a1', 'other'), 0);
    });

    it('trims many events at once, never below the bound less its slack', async () => {
      const { store } = stock.take({ eventsPerTask: 160 });
      await store.commit(GROUND);
      let trims = 0;
      let before = 0;
      for (let seq = 1; seq <= 400; seq++) {
        await store.commit([addEvent(seq)]);
        const dropped = store.countDroppedEvents('a1', 'server');
        if (dropped !== before) trims += 1;
        before = dropped;
        assert.ok(seq - dropped <= 160 && seq - dropped >= Math.min(seq, 150), `${seq - dropped} held`);
      }
      assert.ok(trims > 10 && trims < 30, `${trims} trims`);
    });

    it('bounds the events of a task by size, but holds the newest', async () => {
      const { store } = stock.take({ eventBytesPerTask: 1000 });
      await store.commit(GROUND);
      for (let seq = 1; seq <= 20; seq++) await store.commit([addEvent(seq, driverSays(200))]);
      const held = seqs(store.listTaskEvents({ task: 'server' }));
      assert.equal(held.at(-1), 20);
      assert.ok(held.length >= 2 && held.length <= 4, `holds ${held.length}`);
      assert.equal(store.countDroppedEvents('a1', 'server'), 20 - held.length);
      await store.commit([addEvent(21, driverSays(2000))]);
      assert.deepEqual(seqs(store.listTaskEvents({ task: 'server' })), [21]);
    });

    it('drops a feed row only when it is both old and beyond the newest', async () => {
      const { store, clock } = stock.take({ feedRows: 4, feedAgeMs: 1000 });
      await store.commit(GROUND);
      for (let seq = 1; seq <= 3; seq++) await store.commit([addEvent(seq)]);
      assert.deepEqual(store.feedBounds(), { oldest: 1, newest: 5 }, 'young rows stay');
      await clock.advance(5000);
      await store.commit([addEvent(4)]);
      assert.deepEqual(store.feedBounds(), { oldest: 3, newest: 6 }, 'the newest stay, however old');
      assert.deepEqual(indexes(store.readFeed(0, 2)), [3, 4]);
      assert.deepEqual(indexes(store.readFeed(4, 9)), [5, 6]);
      assert.deepEqual(store.readFeed(6, 9), []);
      assert.deepEqual(store.readFeed(99, 9), []);
    });

    it('caps the feed by size', async () => {
      const { store } = stock.take({ feedBytes: 3000 });
      await store.commit(GROUND);
      for (let seq = 1; seq <= 30; seq++) await store.commit([addEvent(seq, driverSays(300))]);
      const { oldest, newest } = store.feedBounds();
      assert.equal(newest, 32);
      assert.ok(oldest > 20 && oldest < 32, `oldest is ${oldest}`);
      assert.equal(store.readFeed(0, 99).length, newest - oldest + 1);
      assert.equal(indexes(store.readFeed(0, 1))[0], oldest);
    });
  });
}
