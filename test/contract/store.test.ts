/** What every StateStore must do with records: give back what was committed, in order, whole or not at all. */
import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'node:test';
import { AgentError } from '../../src/base/errors.js';
import type { Change, StateStore, TaskRecord } from '../../src/state/store.js';
import {
  addEvent,
  allocRecord,
  hookRecord,
  jobRecord,
  putAlloc,
  putHook,
  putJob,
  putRun,
  putTask,
  runRecord,
  stamped,
  taskRecord,
} from '../helpers/records.js';
import { STORES, StoreStock } from '../helpers/stores.js';

/** A job with one alloc and one task, so that anything may be put. */
const GROUND: readonly Change[] = [putJob(), putAlloc(), putTask()];

const codeOf = (code: string) => (error: unknown) => error instanceof AgentError && error.code === code;

/** Every field set, every union at its fullest. */
const FULL_TASK: TaskRecord = taskRecord({
  state: 'dead',
  phase: 'backoff',
  phaseDetail: 'restart policy',
  failed: true,
  restarts: 3,
  lastRestartAtMs: 5,
  startedAtMs: 6,
  finishedAtMs: 7.5,
  restartWindow: { opened: { wallMs: 1, monoMs: 2.25, bootId: 'b' }, used: 2 },
  nextStart: { wallMs: 9, monoMs: 10, bootId: 'b' },
  lastExit: { kind: 'signaled', signal: 9, coreDumped: true, oomKilled: true },
  runId: 'r2',
  attempts: 4,
  killReason: 'because',
  restartReason: 'asked',
  lastEventSeq: 12,
  eventsDropped: 2,
  recentEvents: [stamped(12, { type: 'Started', pid: undefined })],
});

const FULL_RUN = runRecord({
  handle: {
    executor: { pid: 1, startTicks: 2 },
    workload: undefined,
    driverState: { a: null, b: [1, { c: undefined }] },
  },
  startedAtMs: 3,
  outcome: {
    kind: 'ended',
    report: {
      result: { kind: 'unknown', reason: 'host_rebooted', detail: 'the host was restarted' },
      startedAtMs: undefined,
      endedAtMs: 8,
      ranForMs: undefined,
      usage: { cpuUserMs: 1, cpuSystemMs: 2, peakMemoryBytes: 3 },
      logComplete: false,
      leftoversKilled: 1,
    },
  },
});

for (const [kind, make] of Object.entries(STORES)) {
  describe(`${kind} store: records`, () => {
    const stock = new StoreStock(make);
    afterEach(() => stock.removeAll());

    it('starts empty', () => {
      const { store } = stock.take();
      assert.equal(store.index(), 0);
      assert.deepEqual(store.feedBounds(), { oldest: 1, newest: 0 });
      assert.deepEqual(store.readFeed(0, 10), []);
      assert.deepEqual(store.listJobs(), []);
      assert.deepEqual(store.listQuarantined(), []);
      assert.equal(store.keptChanges(), 0);
      assert.equal(store.trouble(), undefined);
      assert.match(store.hostId(), /^[0-9a-f-]{36}$/);
    });

    it('gives back what was committed, once it is committed', async () => {
      const { store } = stock.take();
      const hook = hookRecord({ bootId: 'b', env: { A: 'é\u0000' }, data: { x: '\u0000u' } });
      const done = store.commit([
        ...GROUND,
        { kind: 'put_task', task: FULL_TASK },
        { kind: 'put_run', run: FULL_RUN },
        { kind: 'put_hook', hook },
        { kind: 'put_host', key: 'name', value: 'host' },
        addEvent(1),
      ]);
      assert.equal(store.getJob('web'), undefined, 'nothing is seen before the commit');
      assert.equal(await done, 'stored');
      assert.deepEqual(store.getJob('web')?.record, jobRecord());
      assert.deepEqual(store.getAlloc('a1')?.record, allocRecord());
      assert.deepEqual(store.getTask('a1', 'server'), FULL_TASK);
      assert.deepEqual(store.listTasks('a1'), [FULL_TASK]);
      assert.deepEqual(store.getRun('r1'), FULL_RUN);
      assert.deepEqual(store.listRuns('a1', 'server'), [FULL_RUN]);
      assert.deepEqual(store.listHooks('a1', 'server'), [hook]);
      assert.equal(store.getHost('name'), 'host');
      const [event] = store.listTaskEvents({ allocId: 'a1' });
      assert.deepEqual(event, { allocId: 'a1', task: 'server', ...stamped(1) });
    });

    it('gives undefined and empty lists for what it does not know', () => {
      const { store } = stock.take();
      assert.equal(store.getJob('x'), undefined);
      assert.equal(store.getJobVersion('x', 0), undefined);
      assert.equal(store.getAlloc('x'), undefined);
      assert.equal(store.getTask('x', 'y'), undefined);
      assert.equal(store.getRun('x'), undefined);
      assert.equal(store.getHost('x'), undefined);
      assert.equal(store.countDroppedEvents('x', 'y'), 0);
      assert.deepEqual(store.listJobVersions('x'), []);
      assert.deepEqual(
        [store.listTasks('x'), store.listRuns('x', 'y'), store.listHooks('x', 'y')],
        [[], [], []],
      );
    });

    it('keeps apart the ways a run may come to nothing', async () => {
      const { store } = stock.take();
      const outcomes = [
        { kind: 'start_failed', error: 'no such file', atMs: 4 },
        { kind: 'never_started', detail: 'intent only', atMs: 5 },
        undefined,
      ] as const;
      const runs = outcomes.map((outcome, n) => putRun({ runId: `r${n}`, attempt: n + 1, outcome }));
      await store.commit([...GROUND, ...runs]);
      const stored = store.listRuns('a1', 'server').map((run) => run.outcome);
      assert.deepEqual(stored, [...outcomes]);
    });

    it('lists in the orders it promises', async () => {
      const { store } = stock.take();
      const jobs = [{ id: 'b' }, { id: 'a' }, { id: 'B' }, { id: 'a', version: 2 }];
      await store.commit(jobs.map((job) => putJob(job)));
      const allocs = [
        { id: 'z', jobId: 'a' },
        { id: 'y', jobId: 'b' },
        { id: 'x', jobId: 'a' },
      ];
      await store.commit(allocs.map((alloc) => putAlloc(alloc)));
      const own = { allocId: 'z', task: 't1' };
      await store.commit(['t2', 't1', 't3', 't1'].map((task) => putTask({ allocId: 'z', task })));
      await store.commit([3, 1, 2].map((attempt) => putRun({ ...own, runId: `r${attempt}`, attempt })));
      await store.commit(['h2', 'h1', 'h2'].map((hook) => putHook({ ...own, hook })));
      await store.commit([putAlloc({ id: 'z', jobId: 'a', clientStatus: 'running' })]);
      const ids = (found: readonly { readonly record: { readonly id: string } }[]): string[] =>
        found.map(({ record }) => record.id);
      assert.deepEqual(ids(store.listJobs()), ['B', 'a', 'b']);
      assert.deepEqual(ids(store.listAllocs()), ['z', 'y', 'x']);
      assert.deepEqual(ids(store.listAllocs({ jobId: 'a' })), ['z', 'x']);
      const versions = store.listJobVersions('a').map(({ record }) => record.version);
      assert.deepEqual(versions, [2, 0]);
      const tasks = store.listTasks('z').map(({ task }) => task);
      assert.deepEqual(tasks, ['t2', 't1', 't3']);
      const runs = store.listRuns('z', 't1').map(({ runId }) => runId);
      assert.deepEqual(runs, ['r1', 'r2', 'r3']);
      const hooks = store.listHooks('z', 't1').map(({ hook }) => hook);
      assert.deepEqual(hooks, ['h2', 'h1']);
    });

    it('finds events by owner, time, number and count', async () => {
      const { store } = stock.take();
      await store.commit([...GROUND, putJob({ id: 'db' }), putAlloc({ id: 'a2', jobId: 'db' })]);
      await store.commit([addEvent(1), addEvent(1, undefined, 'a2', 'x'), addEvent(2), addEvent(3)]);
      const find = (filter: Parameters<StateStore['listTaskEvents']>[0]): string[] =>
        store.listTaskEvents(filter).map((row) => `${row.allocId}/${row.task} ${row.seq}`);
      assert.deepEqual(find({}), ['a1/server 1', 'a2/x 1', 'a1/server 2', 'a1/server 3']);
      assert.deepEqual(find({ jobId: 'db' }), ['a2/x 1']);
      assert.deepEqual(find({ jobId: 'web', task: 'server', limit: 2 }), ['a1/server 2', 'a1/server 3']);
      assert.deepEqual(find({ allocId: 'a1', task: 'server', afterSeq: 1, limit: 1 }), ['a1/server 3']);
      assert.deepEqual(find({ sinceMs: stamped(2).atMs }), ['a1/server 2', 'a1/server 3']);
      assert.deepEqual(find({ limit: 0 }), []);
      assert.deepEqual(find({ allocId: 'nobody' }), []);
    });

    it('stores a commit in whole or not at all', async () => {
      const { store } = stock.take();
      await store.commit(GROUND);
      const before = store.index();
      const notData = { f: (() => '') as never };
      const bad: Readonly<Record<string, readonly Change[]>> = {
        'a task of no alloc': [putTask({ allocId: 'gone' })],
        'a run of no alloc': [putRun({ allocId: 'gone' })],
        'a hook of no alloc': [putHook({ allocId: 'gone' })],
        'an event of no alloc': [addEvent(1, undefined, 'gone')],
        'a run that changes hands': [putAlloc({ id: 'a2' }), putRun({ runId: 'x', allocId: 'a2' })],
        'an event number used twice': [addEvent(1), addEvent(1)],
        'a job that goes before its allocs': [{ kind: 'delete_job', jobId: 'web' }],
        'a version that goes back': [putJob({ version: 3 }), putJob({ version: 2 })],
        'a number that is none': [putAlloc({ createdAtMs: NaN })],
        'a value that is no data': [putJob({ spec: { ...jobRecord().spec, meta: notData } })],
      };
      for (const [name, changes] of Object.entries(bad)) {
        const good = [putAlloc({ clientStatus: 'failed' }), putRun({ runId: 'x' }), putJob({ id: 'more' })];
        await assert.rejects(store.commit([...good, ...changes]), codeOf('internal'), name);
        assert.equal(store.getAlloc('a1')?.record.clientStatus, 'pending', name);
        assert.equal(store.getRun('x'), undefined, name);
        assert.deepEqual(store.listJobs().length, 1, name);
        assert.equal(store.index(), before, name);
      }
    });

    it('forgets an alloc with all that is its own, and nothing else', async () => {
      const { store } = stock.take();
      const all = (allocId: string): Change[] => [
        putAlloc({ id: allocId }),
        putTask({ allocId }),
        putRun({ allocId, runId: `run-${allocId}` }),
        putHook({ allocId }),
        addEvent(1, undefined, allocId),
      ];
      await store.commit([putJob(), ...all('a1'), ...all('a10')]);
      await store.commit([{ kind: 'delete_alloc', allocId: 'a1' }]);
      assert.equal(store.getAlloc('a1'), undefined);
      assert.deepEqual(store.listTasks('a1'), []);
      assert.deepEqual(store.listRuns('a1', 'server'), []);
      assert.equal(store.getRun('run-a1'), undefined);
      assert.deepEqual(store.listHooks('a1', 'server'), []);
      const events = store.listTaskEvents({}).map((row) => row.allocId);
      assert.deepEqual(events, ['a10']);
      assert.equal(store.listTasks('a10').length + store.listRuns('a10', 'server').length, 2);
      const index = store.index();
      await store.commit(all('a1'));
      const allocs = store.listAllocs().map(({ record }) => record.id);
      assert.deepEqual(allocs, ['a10', 'a1'], 'it starts anew');
      assert.equal(store.getAlloc('a1')?.createIndex, index + 1);
    });

    it('forgets a job with its versions once its allocs are gone, in whichever order they are named', async () => {
      const { store } = stock.take();
      await store.commit([...GROUND, putJob({ version: 1 })]);
      await store.commit([
        { kind: 'delete_job', jobId: 'web' },
        { kind: 'delete_alloc', allocId: 'a1' },
      ]);
      assert.equal(store.getJob('web'), undefined);
      assert.deepEqual(store.listJobVersions('web'), []);
      const index = store.index();
      await store.commit([putJob()]);
      assert.equal(store.getJob('web')?.createIndex, index + 1, 'a job of that name is a new one');
    });

    it('a job that is put, deleted and put again in one commit was made by the last of them', async () => {
      const { store } = stock.take();
      await store.commit([putJob(), { kind: 'delete_job', jobId: 'web' }, putJob()]);
      assert.equal(store.index(), 3, 'all three are told');
      assert.deepEqual([store.getJob('web')?.createIndex, store.getJob('web')?.modifyIndex], [3, 3]);
    });

    it('remembers the newest versions of a job and those that run', async () => {
      const { store } = stock.take({ versionsPerJob: 2 });
      await store.commit([putJob(), putAlloc({ jobVersion: 0 })]);
      for (const version of [1, 2, 3]) await store.commit([putJob({ version })]);
      const versions = store.listJobVersions('web').map(({ record }) => record.version);
      assert.deepEqual(versions, [3, 2, 0]);
    });

    it('remembers the newest ended runs and every open one', async () => {
      const { store } = stock.take({ runsPerTask: 3 });
      await store.commit(GROUND);
      for (let attempt = 1; attempt <= 7; attempt++) {
        const outcome = attempt === 2 ? undefined : ({ kind: 'start_failed', error: '', atMs: 1 } as const);
        await store.commit([putRun({ runId: `r${attempt}`, attempt, outcome })]);
      }
      const attempts = store.listRuns('a1', 'server').map((run) => run.attempt);
      assert.deepEqual(attempts, [2, 5, 6, 7]);
    });

    it('a run is of one task for as long as it is there, and no longer', async () => {
      const outcome = { kind: 'start_failed', error: '', atMs: 1 } as const;
      const { store } = stock.take({ runsPerTask: 32 });
      await store.commit([...GROUND, putAlloc({ id: 'b2' }), putTask({ allocId: 'b2' })]);
      const commits = Array.from({ length: 34 }, (_, at) => [
        putRun({ runId: `r${at + 1}`, attempt: at + 1, outcome }),
      ]);
      // All in one transaction. The first of them is trimmed by the last.
      await Promise.all(
        [...commits, [putRun({ runId: 'r1', allocId: 'b2' })]].map((commit) => store.commit(commit)),
      );
      assert.equal(store.getRun('r1')?.allocId, 'b2');
      await assert.rejects(store.commit([putRun({ runId: 'r34', allocId: 'b2' })]), /r34 belongs to task a1/);
    });

    it("a run of an alloc that is gone is nobody's", async () => {
      const { store } = stock.take();
      await store.commit([...GROUND, putAlloc({ id: 'b2' }), putTask({ allocId: 'b2' })]);
      await Promise.all([
        store.commit([putRun({ runId: 'r1' })]),
        store.commit([{ kind: 'delete_alloc', allocId: 'a1' }]),
        store.commit([putRun({ runId: 'r1', allocId: 'b2' })]),
      ]);
      assert.equal(store.getRun('r1')?.allocId, 'b2');
    });

    it('is not changed by what callers do to the records they gave', async () => {
      const { store } = stock.take();
      const meta = { a: '1' };
      const told: unknown[] = [];
      store.onCommitted((rows) => told.push(...rows.map((row) => row.payload)));
      await store.commit([putJob({ spec: { ...jobRecord().spec, meta } })]);
      meta.a = '2';
      assert.deepEqual(told, [store.readFeed(0, 1)[0]?.payload]);
      assert.deepEqual(store.getJob('web')?.record.spec.meta, { a: '1' });
    });

    it('takes nothing after it was closed, and closes twice', async () => {
      const { store } = stock.take();
      const last = store.commit([putJob()]);
      await Promise.all([store.close(), store.close()]);
      assert.equal(await last, 'stored', 'what was handed in is written');
      await assert.rejects(store.commit([putJob()]), codeOf('store_unavailable'));
      assert.throws(() => store.listJobs(), codeOf('store_unavailable'));
    });
  });
}
