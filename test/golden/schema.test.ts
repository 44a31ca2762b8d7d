/** Databases of every released schema open for ever, with everything that was in them. */
import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import { afterEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { addEvent, BOOT, putTask } from '../helpers/records.js';
import { StoreOnDisk } from '../helpers/stores.js';

/** From dist/test/golden/ to the sources: databases are not compiled. */
const golden = (name: string): string =>
  fileURLToPath(new URL(`../../../test/golden/${name}`, import.meta.url));

describe('a database of schema 1', () => {
  const disk = new StoreOnDisk();
  afterEach(() => disk.remove());

  it('opens, and holds what was put in', async () => {
    copyFileSync(golden('schema-v1.db'), disk.path);
    const store = disk.open();
    assert.deepEqual(store.listQuarantined(), []);
    assert.equal(store.hostId(), '53d30154-ca1f-4be7-b24b-bd362d7fb2d3');
    assert.equal(store.getHost('name'), 'worker-1');

    const jobs = store.listJobs().map(({ record }) => [record.id, record.version, record.stopped]);
    assert.deepEqual(jobs, [
      ['once', 0, true],
      ['web', 1, false],
    ]);
    assert.deepEqual(store.getJobVersion('web', 0)?.record.spec.meta, { owner: 'ops' });
    const alloc = store.getAlloc('a1');
    assert.equal(alloc?.record.clientStatus, 'running');
    assert.deepEqual([alloc.createIndex, alloc.modifyIndex], [4, 4]);
    assert.equal(store.listAllocs().length, 1);

    const [server, sidecar] = store.listTasks('a1');
    assert.deepEqual(server?.lastExit, { kind: 'signaled', signal: 11, coreDumped: true, oomKilled: false });
    assert.deepEqual(server.restartWindow, {
      opened: { wallMs: 1_700_000_000_000, monoMs: 12.5, bootId: BOOT },
      used: 2,
    });
    assert.equal(server.nextStart?.monoMs, 5012.5);
    assert.equal(server.phase, 'backoff');
    assert.deepEqual(sidecar?.lastExit, { kind: 'exited', code: 3, oomKilled: true });

    const [rebooted, failed, running] = store.listRuns('a1', 'server');
    assert.ok(rebooted?.outcome?.kind === 'ended');
    assert.deepEqual(rebooted.outcome.report.result, {
      kind: 'unknown',
      reason: 'host_rebooted',
      detail: 'the host was restarted',
    });
    assert.deepEqual(failed?.outcome, { kind: 'start_failed', error: 'no such file', atMs: 1 });
    assert.deepEqual(running?.handle, {
      executor: { pid: 10, startTicks: 20 },
      workload: { pid: 11, startTicks: 21 },
      driverState: { socket: 'run/r3/r3/sock' },
    });
    assert.equal(running.outcome, undefined);

    const events = store.listTaskEvents({ allocId: 'a1' }).map(({ seq, event }) => [seq, event.type]);
    assert.deepEqual(events, [
      [1, 'Received'],
      [2, 'Terminated'],
    ]);
    assert.deepEqual(store.listHooks('a1', 'server')[0]?.env, { TOKEN: 'x' });
    assert.deepEqual(store.feedBounds(), { oldest: 1, newest: 7 });
    const told = store.readFeed(0, 99).map(({ payload }) => payload.type);
    assert.deepEqual(told, [
      'JobRegistered',
      'JobDeregistered',
      'JobRegistered',
      'AllocationUpdated',
      'TaskEvent',
      'TaskEvent',
      'AllocationPurged',
    ]);

    assert.equal(await store.commit([putTask({ restarts: 3 }), addEvent(3)]), 'stored');
    assert.equal(store.index(), 9, 'and numbers go on');
  });
});

describe('a database of schema 2', () => {
  const disk = new StoreOnDisk();
  afterEach(() => disk.remove());

  it('opens, and holds what was put in', async () => {
    copyFileSync(golden('schema-v2.db'), disk.path);
    const store = disk.open();
    assert.deepEqual(store.listQuarantined(), []);
    assert.equal(store.getHost('periodic/report'), '1700000000000');

    const launch = store.getJob('words/dispatch-1700000000-abcd1234')?.record;
    assert.deepEqual(
      [launch?.parentId, launch?.dispatched, launch?.payload, launch?.idempotencyToken],
      ['words', true, 'aGVsbG8=', 'once'],
    );
    assert.deepEqual(store.getJob('words')?.record.spec.parameterized?.metaRequired, ['who']);

    const [first, second] = store.listDeployments({ jobId: 'web' }).map(({ record }) => record);
    assert.deepEqual([first?.id, first?.status, first?.jobVersion], ['d0', 'successful', 0]);
    assert.deepEqual([second?.status, second?.jobVersion], ['running', 1]);
    assert.deepEqual(second?.groups['front'], {
      desiredTotal: 2,
      autoRevert: true,
      progressDeadlineMs: 600_000,
      placed: 2,
      healthy: 1,
      unhealthy: 0,
      requireProgressBy: { wallMs: 1_700_000_600_000, monoMs: 600_000, bootId: BOOT },
    });
    const evaluations = store.listEvaluations().map(({ record }) => [record.id, record.status]);
    assert.deepEqual(evaluations, [
      ['e1', 'complete'],
      ['e2', 'pending'],
    ]);
    assert.equal(store.listEvaluations()[1]?.record.waitUntilMs, 1_700_000_030_000);

    const running = store.getAlloc('a1')?.record;
    assert.equal(running?.health?.healthy, true);
    assert.deepEqual(
      [running.deploymentId, running.generation, running.ports, running.jobVersion],
      ['d1', 2, { http: 20_001 }, 1],
    );
    const failed = store.getAlloc('a2')?.record;
    assert.equal(failed?.previousAllocId, 'a0');
    assert.deepEqual(failed.reschedule, {
      events: [
        {
          at: { wallMs: 1_700_000_000_000, monoMs: 0, bootId: BOOT },
          previousAllocId: 'a0',
          delayMs: 30_000,
        },
      ],
      next: {
        at: { wallMs: 1_700_000_060_000, monoMs: 60_000, bootId: BOOT },
        delayMs: 60_000,
        evalId: 'e2',
      },
    });
    const [stopping] = store.listTasks('a2');
    assert.equal(stopping?.phase, 'stopping');
    assert.deepEqual([stopping.stop?.stage, stopping.stop?.failedKills], ['signal', 2]);
    assert.deepEqual(store.listRuns('a1', 'server')[0]?.handle?.driverState, {
      runDir: '/data/run/r1',
      cgroup: '/sys/fs/cgroup/holdfast.slice/r1',
      cgroupsV1: [],
    });

    const told = new Set(store.readFeed(0, 99).map(({ payload }) => payload.topic));
    assert.deepEqual([...told].sort(), ['Allocation', 'Deployment', 'Evaluation', 'Job', 'TaskEvent']);
    const before = store.index();
    assert.equal(await store.commit([putTask({ restarts: 3 }), addEvent(2)]), 'stored');
    assert.equal(store.index(), before + 2, 'and numbers go on');
  });
});
