import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type {
  EndRecord,
  ExecutorStatus,
  ExitRecord,
  Read,
  StartFailedRecord,
} from '../../../src/executor/exit-record.js';
import { decideVerdict, type RunFacts, type Verdict } from '../../../src/executor/recover.js';

const ids = { runId: 'r', bootId: 'b' };
const ENDED: EndRecord = {
  ...ids,
  kind: 'ended',
  report: {
    result: { kind: 'exited', code: 0, oomKilled: false },
    startedAtMs: 1,
    endedAtMs: 2,
    ranForMs: 1,
    usage: undefined,
    logComplete: true,
    leftoversKilled: 0,
  },
};
const FAILED: StartFailedRecord = { ...ids, kind: 'start_failed', stage: 'exec', errno: 2, detail: '/x' };
const RUNNING: ExecutorStatus = {
  ...ids,
  state: 'running',
  executor: { pid: 10, startTicks: 1 },
  workload: { pid: 11, startTicks: 2 },
  startedAtMs: 1,
  adopted: false,
  version: undefined,
  stuck: undefined,
};
const READY: ExecutorStatus = { ...RUNNING, state: 'ready', workload: undefined };

const ok = <T>(value: T): Read<T> => ({ kind: 'ok', value });
const absent = { kind: 'absent' } as const;
const torn = { kind: 'unreadable', why: 'it is cut off' } as const;

/** Its executor runs it and answers. */
const HEALTHY: RunFacts = {
  sameBoot: true,
  claim: { kind: 'taken' },
  status: ok(RUNNING),
  record: absent,
  executor: 'alive',
  workload: 'alive',
  socket: 'answers',
  leafPopulated: true,
  otherExecutors: false,
  strays: false,
  seenStarted: true,
  keepLeftovers: false,
};
/** Executor and workload are dead, nothing was written about the end. */
const DEAD: RunFacts = {
  ...HEALTHY,
  executor: 'dead',
  workload: 'dead',
  socket: 'closed',
  leafPopulated: false,
};
/** Nothing was ever there but the intent. */
const NOTHING: RunFacts = {
  ...DEAD,
  claim: { kind: 'fenced' },
  status: absent,
  executor: 'unnamed',
  workload: 'unnamed',
  seenStarted: false,
};
const REBOOTED: RunFacts = { ...NOTHING, sameBoot: false, claim: { kind: 'free' }, seenStarted: true };

const CASES: readonly (readonly [string, RunFacts, Partial<Verdict>])[] = [
  ['executor answers', HEALTHY, { kind: 'running' }],
  ['executor answers, status damaged', { ...HEALTHY, status: torn }, { kind: 'running' }],
  ['executor is stopped (SIGSTOP)', { ...HEALTHY, socket: 'mute' }, { kind: 'unreachable', settling: true }],
  ['socket removed', { ...HEALTHY, socket: 'closed' }, { kind: 'unreachable' }],
  ['executor just starting', { ...HEALTHY, status: ok(READY) }, { kind: 'unreachable', settling: true }],
  [
    'its start has failed, which cannot be written yet',
    { ...HEALTHY, status: ok({ ...READY, state: 'failed' }), workload: 'unnamed' },
    { kind: 'unreachable', settling: true },
  ],
  [
    'record written, executor leaving',
    { ...HEALTHY, record: ok(ENDED), socket: 'closed', workload: 'dead' },
    { kind: 'unreachable', settling: true },
  ],
  ['executor killed', { ...DEAD, workload: 'alive', leafPopulated: true }, { kind: 'adopt' }],
  ['executor killed, half a record', { ...DEAD, workload: 'alive', record: torn }, { kind: 'adopt' }],
  [
    'executor killed, status damaged',
    { ...DEAD, workload: 'alive', status: torn },
    { kind: 'unreachable', settling: false },
  ],
  [
    'another one taking over',
    { ...DEAD, workload: 'alive', otherExecutors: true },
    { kind: 'unreachable', settling: true },
  ],
  ['ended', { ...DEAD, record: ok(ENDED) }, { kind: 'exited', record: ENDED }],
  ['ended, status damaged', { ...DEAD, record: ok(ENDED), status: torn }, { kind: 'exited', record: ENDED }],
  [
    'ended, leftovers kept',
    { ...DEAD, record: ok(ENDED), leafPopulated: true, keepLeftovers: true },
    { kind: 'exited' },
  ],
  [
    'record against a living process',
    { ...DEAD, record: ok(ENDED), workload: 'alive' },
    { kind: 'unreachable' },
  ],
  [
    'start failed',
    { ...DEAD, record: ok(FAILED), workload: 'unnamed', seenStarted: false },
    { kind: 'start_failed', record: FAILED },
  ],
  ['all killed', DEAD, { kind: 'gone', reason: 'executor_lost', killFirst: false }],
  [
    'all killed but a child',
    { ...DEAD, leafPopulated: true },
    { kind: 'gone', reason: 'executor_lost', killFirst: true },
  ],
  [
    'all killed but a child, no cgroup',
    { ...DEAD, strays: true },
    { kind: 'gone', reason: 'executor_lost', killFirst: true },
  ],
  [
    'all killed but a child that shall be kept',
    { ...DEAD, leafPopulated: true, keepLeftovers: true },
    { kind: 'gone', killFirst: false },
  ],
  ['all killed, half a record', { ...DEAD, record: torn }, { kind: 'unknown', killFirst: false }],
  [
    'all killed, half a record, a child',
    { ...DEAD, record: torn, leafPopulated: true },
    { kind: 'unknown', killFirst: true },
  ],
  [
    'all gone, status damaged',
    { ...DEAD, status: torn, executor: 'unnamed', workload: 'unnamed' },
    { kind: 'unknown' },
  ],
  [
    'status damaged, something lives',
    { ...DEAD, status: torn, executor: 'unnamed', workload: 'unnamed', leafPopulated: true },
    { kind: 'unreachable' },
  ],
  [
    'run directory removed, all dead',
    { ...DEAD, status: absent, claim: { kind: 'fenced' } },
    { kind: 'gone', reason: 'executor_lost' },
  ],
  [
    'run directory removed, executor lives',
    { ...HEALTHY, status: absent, socket: 'closed' },
    { kind: 'unreachable' },
  ],
  [
    'run directory removed, workload lives',
    { ...DEAD, status: absent, workload: 'alive' },
    { kind: 'unreachable' },
  ],
  [
    'run directory removed, never stored, something lives',
    { ...NOTHING, strays: true },
    { kind: 'unreachable' },
  ],
  ['only the intent', NOTHING, { kind: 'never_started' }],
  ['executor died before it was ready', { ...NOTHING, claim: { kind: 'taken' } }, { kind: 'never_started' }],
  [
    'executor before it was ready',
    { ...NOTHING, claim: { kind: 'taken' }, otherExecutors: true },
    { kind: 'unreachable', settling: true },
  ],
  [
    'executor killed while the workload was held',
    { ...NOTHING, claim: { kind: 'taken' }, status: ok(READY), executor: 'dead', leafPopulated: true },
    { kind: 'never_started', killFirst: true },
  ],
  ['disk takes no fence', { ...NOTHING, claim: { kind: 'unclear', why: 'ENOSPC' } }, { kind: 'unreachable' }],
  ['not fenced', { ...NOTHING, claim: { kind: 'free' } }, { kind: 'unreachable', settling: true }],
  ['host rebooted', REBOOTED, { kind: 'gone', reason: 'host_rebooted', killFirst: false }],
  [
    'host rebooted, never stored',
    { ...REBOOTED, seenStarted: false },
    { kind: 'gone', reason: 'host_rebooted' },
  ],
  ['host rebooted after the end', { ...REBOOTED, record: ok(ENDED) }, { kind: 'exited', record: ENDED }],
  ['host rebooted after a failed start', { ...REBOOTED, record: ok(FAILED) }, { kind: 'start_failed' }],
  ['host rebooted, damaged record', { ...REBOOTED, record: torn }, { kind: 'gone', reason: 'host_rebooted' }],
];

const CHOICES: { readonly [K in keyof RunFacts]: readonly RunFacts[K][] } = {
  sameBoot: [true, false],
  claim: [{ kind: 'free' }, { kind: 'taken' }, { kind: 'fenced' }, { kind: 'unclear', why: 'ENOSPC' }],
  status: [
    absent,
    torn,
    ok(READY),
    ok(RUNNING),
    ok({ ...RUNNING, state: 'starting' }),
    ok({ ...READY, state: 'failed' }),
  ],
  record: [absent, torn, ok<ExitRecord>(ENDED), ok<ExitRecord>(FAILED)],
  executor: ['alive', 'dead', 'unnamed'],
  workload: ['alive', 'dead', 'unnamed'],
  socket: ['answers', 'mute', 'closed'],
  leafPopulated: [true, false],
  otherExecutors: [true, false],
  strays: [true, false],
  seenStarted: [true, false],
  keepLeftovers: [true, false],
};

/** Every combination there is: more than a property would try. */
function* combinations(): Generator<RunFacts> {
  const keys = Object.keys(CHOICES) as (keyof RunFacts)[];
  const sizes = keys.map((key) => CHOICES[key].length);
  const total = sizes.reduce((product, size) => product * size, 1);
  for (let number = 0; number < total; number++) {
    let rest = number;
    const facts: Record<string, unknown> = {};
    keys.forEach((key, at) => {
      const size = sizes[at] ?? 1;
      facts[key] = CHOICES[key][rest % size];
      rest = Math.floor(rest / size);
    });
    yield facts as unknown as RunFacts;
  }
}

describe('the verdict about a run', () => {
  for (const [name, facts, expected] of CASES) {
    it(`${name}: ${String(expected.kind)}`, () => {
      const verdict = decideVerdict(facts);
      assert.deepEqual({ ...verdict, ...expected }, verdict);
    });
  }

  it('never writes off what may live, nor claims what it has not seen, in any combination of facts', () => {
    let seen = 0;
    for (const facts of combinations()) {
      seen += 1;
      const verdict = decideVerdict(facts);
      const check = (rule: string, holds: boolean): void => {
        if (!holds) assert.fail(`${rule}: ${JSON.stringify({ facts, verdict })}`);
      };
      const { sameBoot } = facts;
      const known =
        facts.executor === 'alive' ||
        facts.workload === 'alive' ||
        facts.socket !== 'closed' ||
        facts.otherExecutors;
      const open = verdict.kind === 'running' || verdict.kind === 'adopt' || verdict.kind === 'unreachable';
      check('what lives is not over', !(sameBoot && known) || open);
      check('another boot is over', sameBoot || !open);
      const remains = sameBoot && (facts.leafPopulated || facts.strays);
      const kills = 'killFirst' in verdict && verdict.killFirst;
      check(
        'remains are killed or kept or keep it open, unless a record tells the end',
        !remains || open || kills || facts.keepLeftovers || facts.record.kind === 'ok',
      );
      check(
        'nothing is killed without need or against the wish',
        !kills || (remains && !facts.keepLeftovers),
      );
      check('nothing is killed that no status explains', !kills || facts.status.kind === 'ok');
      check('running answers', verdict.kind !== 'running' || facts.socket === 'answers');
      check(
        'adopted lives, alone, on record',
        verdict.kind !== 'adopt' ||
          (facts.workload === 'alive' && facts.executor !== 'alive' && facts.status.kind === 'ok'),
      );
      const told = verdict.kind === 'exited' || verdict.kind === 'start_failed';
      check('an end is told by a record', !told || facts.record.kind === 'ok');
      check('a record is believed', facts.record.kind !== 'ok' || told || open);
      check(
        'never started is certain',
        verdict.kind !== 'never_started' ||
          (sameBoot &&
            !facts.seenStarted &&
            facts.record.kind === 'absent' &&
            (facts.claim.kind === 'fenced' || facts.claim.kind === 'taken' || facts.status.kind === 'ok') &&
            (facts.status.kind !== 'ok' || facts.status.value.workload === undefined)),
      );
    }
    assert.equal(seen, 165_888);
  });
});
