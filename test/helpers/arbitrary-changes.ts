/** Any change that a store may be given, over few ids, so that changes meet. */
import fc from './properties.js';
import type { ExitResult } from '../../src/events/exit-result.js';
import type { TaskEvent } from '../../src/events/task-event.js';
import type { Change, Moment, RunOutcome } from '../../src/state/store.js';
import {
  addEvent,
  deploymentRecord,
  evaluationRecord,
  jobSpec,
  putAlloc,
  putHook,
  putJob,
  putRun,
  putTask,
} from './records.js';

export const JOB_IDS = ['web', 'db', 'é/job'] as const;
export const ALLOC_IDS = ['a1', 'a10', 'b2'] as const;
const jobId = fc.constantFrom(...JOB_IDS);
const allocId = fc.constantFrom(...ALLOC_IDS);
/** How far a number goes on from the one before it; see who uses `anyChange`. */
const step = (usual: number): fc.Arbitrary<number> => fc.constantFrom(usual, usual, usual, 0, 1, 1, 1, 1, -1);
const task = fc.constantFrom('server', 'a%_');
const text = fc.string({ unit: 'binary', maxLength: 8 }).filter((value) => !/\p{Surrogate}/u.test(value));
const count = fc.nat(3);
const ms = fc.double({ min: 0, max: 2e12, noNaN: true }).map(Math.abs);
const maybe = <T>(some: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(some, { nil: undefined });
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);

const moment: fc.Arbitrary<Moment> = fc.record({ wallMs: ms, monoMs: ms, bootId: text });

const exit: fc.Arbitrary<ExitResult> = fc.oneof(
  fc.record({ kind: fc.constant('exited' as const), code: fc.nat(255), oomKilled: fc.boolean() }),
  fc.record({
    kind: fc.constant('signaled' as const),
    signal: fc.integer({ min: 1, max: 64 }),
    coreDumped: fc.boolean(),
    oomKilled: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('unknown' as const),
    reason: fc.constantFrom('host_rebooted', 'executor_lost', 'record_unreadable', 'driver_error'),
    detail: text,
  }),
);

const outcome: fc.Arbitrary<RunOutcome> = fc.oneof(
  fc.record({ kind: fc.constant('start_failed' as const), error: text, atMs: ms }),
  fc.record({ kind: fc.constant('never_started' as const), detail: text, atMs: ms }),
  fc.record({
    kind: fc.constant('ended' as const),
    report: fc.record({
      result: exit,
      startedAtMs: maybe(ms),
      endedAtMs: ms,
      ranForMs: maybe(ms),
      usage: maybe(
        fc.record({ cpuUserMs: ms, cpuSystemMs: ms, peakMemoryBytes: fc.nat() }, { requiredKeys: [] }),
      ),
      logComplete: fc.boolean(),
      leftoversKilled: count,
    }),
  }),
);

const event: fc.Arbitrary<TaskEvent> = fc.oneof(
  fc.record({ type: fc.constant('Started' as const), pid: maybe(fc.nat()) }),
  fc.record({ type: fc.constant('Terminated' as const), result: exit }),
  fc.record({ type: fc.constant('Driver' as const), message: fc.string({ maxLength: 300 }) }),
);

const putAnyTask = fc
  .record({
    allocId,
    task,
    state: fc.constantFrom('pending' as const, 'running' as const, 'dead' as const),
    phase: fc.constantFrom('waiting' as const, 'running' as const, 'unkillable' as const),
    phaseDetail: text,
    failed: fc.boolean(),
    restarts: count,
    lastRestartAtMs: maybe(ms),
    restartWindow: maybe(fc.record({ opened: moment, used: count })),
    nextStart: maybe(moment),
    lastExit: maybe(exit),
    killReason: maybe(text),
    restartReason: maybe(text),
  })
  .map((over) => putTask(over));

const putAnyRun = fc
  .record({
    allocId,
    task,
    runId: fc.constantFrom('r1', 'r2', 'r3', 'r4'),
    attempt: fc.integer({ min: 1, max: 5 }),
    handle: maybe(
      fc.record({
        executor: maybe(fc.record({ pid: fc.nat(), startTicks: fc.nat() })),
        workload: fc.constant(undefined),
        driverState: fc.dictionary(text, json, { maxKeys: 2 }),
      }),
    ),
    startedAtMs: maybe(ms),
    outcome: maybe(outcome),
  })
  .map((over) => putRun(over));

const putAnyJob = fc
  .tuple(jobId, step(0), fc.boolean(), fc.dictionary(text, text, { maxKeys: 2 }))
  .map(([id, version, stopped, meta]) => putJob({ id, version, stopped, spec: { ...jobSpec(id), meta } }));

const putAnyAlloc = fc
  .record({
    id: allocId,
    jobId,
    jobVersion: count,
    clientStatus: fc.constantFrom('pending' as const, 'running' as const, 'lost' as const),
    noShutdownDelay: fc.boolean(),
    clientDescription: text,
    modifiedAtMs: ms,
  })
  .map((over) => putAlloc(over));

const addAnyEvent = fc
  .tuple(step(1), event, allocId, task)
  .map(([seq, what, alloc, name]) => addEvent(seq, what, alloc, name));

const putAnyDeployment = fc
  .record({
    id: fc.constantFrom('d1', 'd2', 'd3', 'd4'),
    jobId,
    status: fc.constantFrom('running' as const, 'successful' as const, 'failed' as const),
    description: text,
  })
  .map((over): Change => ({ kind: 'put_deployment', deployment: deploymentRecord(over) }));

const putAnyEvaluation = fc
  .record({
    id: fc.constantFrom('e1', 'e2', 'e3', 'e4', 'e5'),
    jobId,
    status: fc.constantFrom('pending' as const, 'complete' as const, 'canceled' as const),
    waitUntilMs: maybe(ms),
  })
  .map((over): Change => ({ kind: 'put_evaluation', evaluation: evaluationRecord(over) }));

/** Mostly good changes; some break a rule. Job versions and event numbers are steps from what is stored. */
export const anyChange: fc.Arbitrary<Change> = fc.oneof(
  { weight: 3, arbitrary: putAnyJob },
  { weight: 5, arbitrary: putAnyAlloc },
  { weight: 5, arbitrary: putAnyTask },
  { weight: 4, arbitrary: putAnyRun },
  { weight: 6, arbitrary: addAnyEvent },
  { weight: 2, arbitrary: putAnyDeployment },
  { weight: 2, arbitrary: putAnyEvaluation },
  {
    weight: 2,
    arbitrary: fc
      .record({
        allocId,
        task,
        hook: fc.constantFrom('h1', 'h2'),
        bootId: maybe(text),
        env: fc.constant({ A: '1' }),
      })
      .map((over) => putHook(over)),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('put_host' as const), key: text, value: text }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete_alloc' as const), allocId }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete_job' as const), jobId }) },
);
