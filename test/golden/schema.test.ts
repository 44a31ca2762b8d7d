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
