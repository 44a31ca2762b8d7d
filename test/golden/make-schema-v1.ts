/**
 * Made test/golden/schema-v1.db, and shows how the next one is made: run it once when a schema is released, with the
 * program of that release, and never again for that version: `node dist/test/golden/make-schema-v1.js FILE`.
 */
import { systemClock } from '../../src/base/clock.js';
import { silentLogger } from '../../src/base/log.js';
import { openSqliteStore } from '../../src/state/sqlite-store.js';
import { addEvent, BOOT, jobSpec, putAlloc, putHook, putJob, putRun, putTask } from '../helpers/records.js';

const path = process.argv[2];
if (path === undefined) throw new Error('say which file to make');
const store = openSqliteStore({ path, clock: systemClock, logger: silentLogger, bootId: BOOT });

await store.commit([
  putJob({ spec: { ...jobSpec('web'), meta: { owner: 'ops' } } }),
  putJob({ id: 'once', stopped: true }),
  { kind: 'put_host', key: 'name', value: 'worker-1' },
]);
await store.commit([putJob({ version: 1 })]);
await store.commit([
  putAlloc({ clientStatus: 'running' }),
  putTask({
    state: 'running',
    phase: 'backoff',
    restarts: 2,
    restartWindow: { opened: { wallMs: 1_700_000_000_000, monoMs: 12.5, bootId: BOOT }, used: 2 },
    nextStart: { wallMs: 1_700_000_005_000, monoMs: 5012.5, bootId: BOOT },
    lastExit: { kind: 'signaled', signal: 11, coreDumped: true, oomKilled: false },
    attempts: 3,
    lastEventSeq: 2,
  }),
  putTask({ task: 'sidecar', lastExit: { kind: 'exited', code: 3, oomKilled: true } }),
  addEvent(1),
  addEvent(2, { type: 'Terminated', result: { kind: 'exited', code: 3, oomKilled: true } }),
  putHook({ env: { TOKEN: 'x' }, bootId: BOOT }),
]);
await store.commit([
  putRun({
    outcome: {
      kind: 'ended',
      report: {
        result: { kind: 'unknown', reason: 'host_rebooted', detail: 'the host was restarted' },
        startedAtMs: undefined,
        endedAtMs: 1_700_000_001_000,
        ranForMs: undefined,
        usage: undefined,
        logComplete: false,
        leftoversKilled: 0,
      },
    },
  }),
  putRun({ runId: 'r2', attempt: 2, outcome: { kind: 'start_failed', error: 'no such file', atMs: 1 } }),
  putRun({
    runId: 'r3',
    attempt: 3,
    handle: {
      executor: { pid: 10, startTicks: 20 },
      workload: { pid: 11, startTicks: 21 },
      driverState: { socket: 'run/r3/r3/sock' },
    },
    startedAtMs: 1_700_000_002_000,
  }),
]);
await store.commit([putAlloc({ id: 'gone' }), { kind: 'delete_alloc', allocId: 'gone' }]);
await store.close();
