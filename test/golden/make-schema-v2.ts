/** Made test/golden/schema-v2.db, as make-schema-v1.ts made the one before: once, and never again. */
import { systemClock } from '../../src/base/clock.js';
import { silentLogger } from '../../src/base/log.js';
import type { Moment } from '../../src/state/store.js';
import { openSqliteStore } from '../../src/state/sqlite-store.js';
import {
  addEvent,
  BOOT,
  deploymentRecord,
  evaluationRecord,
  jobSpec,
  putAlloc,
  putJob,
  putRun,
  putTask,
} from '../helpers/records.js';

const path = process.argv[2];
if (path === undefined) throw new Error('say which file to make');
const store = openSqliteStore({ path, clock: systemClock, logger: silentLogger, bootId: BOOT });
const at = (ms: number): Moment => ({ wallMs: 1_700_000_000_000 + ms, monoMs: ms, bootId: BOOT });

await store.commit([
  putJob(),
  putJob({
    id: 'words',
    spec: {
      ...jobSpec('words'),
      type: 'batch',
      parameterized: { payload: 'required', metaRequired: ['who'], metaOptional: [] },
    },
  }),
  putJob({
    id: 'words/dispatch-1700000000-abcd1234',
    parentId: 'words',
    dispatched: true,
    payload: 'aGVsbG8=',
    idempotencyToken: 'once',
  }),
  { kind: 'put_host', key: 'periodic/report', value: '1700000000000' },
]);
const group = {
  desiredTotal: 2,
  autoRevert: true,
  progressDeadlineMs: 600_000,
  placed: 2,
  healthy: 1,
  unhealthy: 0,
  requireProgressBy: at(600_000),
};
await store.commit([
  {
    kind: 'put_deployment',
    deployment: deploymentRecord({
      id: 'd0',
      status: 'successful',
      groups: { front: { ...group, healthy: 2 } },
    }),
  },
  { kind: 'put_deployment', deployment: deploymentRecord({ jobVersion: 1, groups: { front: group } }) },
  { kind: 'put_evaluation', evaluation: evaluationRecord({ deploymentId: 'd1' }) },
  {
    kind: 'put_evaluation',
    evaluation: evaluationRecord({
      id: 'e2',
      triggeredBy: 'alloc-failure',
      status: 'pending',
      waitUntilMs: 1_700_000_030_000,
    }),
  },
  putJob({ version: 1 }),
]);
await store.commit([
  putAlloc({
    clientStatus: 'running',
    deploymentId: 'd1',
    health: { healthy: true, atMs: 1_700_000_010_000, detail: 'all tasks have run for 10s' },
    generation: 2,
    ports: { http: 20_001 },
    jobVersion: 1,
  }),
  putAlloc({
    id: 'a2',
    index: 1,
    clientStatus: 'failed',
    previousAllocId: 'a0',
    reschedule: {
      events: [{ at: at(0), previousAllocId: 'a0', delayMs: 30_000 }],
      next: { at: at(60_000), delayMs: 60_000, evalId: 'e2' },
    },
  }),
  putTask({ state: 'running', phase: 'running', runId: 'r1', generation: 2 }),
  putTask({
    allocId: 'a2',
    state: 'running',
    phase: 'stopping',
    stop: { stage: 'signal', since: at(5_000), due: at(10_000), failedKills: 2 },
  }),
  addEvent(1),
  putRun({
    handle: {
      executor: { pid: 10, startTicks: 20 },
      workload: { pid: 11, startTicks: 21 },
      driverState: { runDir: '/data/run/r1', cgroup: '/sys/fs/cgroup/holdfast.slice/r1', cgroupsV1: [] },
    },
    startedAtMs: 1_700_000_002_000,
  }),
]);
await store.commit([putAlloc({ id: 'gone' }), { kind: 'delete_alloc', allocId: 'gone' }]);
await store.close();
