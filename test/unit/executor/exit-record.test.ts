import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from '../../helpers/properties.js';
import { parseExitRecord, parseStatus } from '../../../src/executor/exit-record.js';

type Values = Readonly<Record<string, string | number>>;

const lines = (values: Values): string =>
  Object.entries(values)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');

function sealed(values: Values): Buffer {
  const body = Buffer.from(lines(values));
  return Buffer.concat([body, Buffer.from(`crc32=${crc32(body).toString(16).padStart(8, '0')}\n`)]);
}

const ENDED = {
  holdfast_exit: 1,
  run_id: 'r1',
  boot_id: 'b1',
  started_at_ns: '1700000000123456789',
  ended_at_ns: '1700000003000000000',
  started_mono_ns: '5000000000',
  ended_mono_ns: '7500999999',
  oom_kills: 0,
  leader_oom: 0,
  leftovers_killed: 2,
  cpu_user_us: 1500,
  cpu_sys_us: 500,
  max_rss_kib: 4,
  memory_peak_bytes: 0,
  log_complete: 1,
};

function report(values: Values): unknown {
  const read = parseExitRecord(sealed({ ...ENDED, ...values }));
  assert.equal(read.kind, 'ok');
  assert.equal(read.value.kind, 'ended');
  return read.value.report;
}

describe('exit record', () => {
  it('tells code, times and usage', () => {
    assert.deepEqual(report({ result: 'exited', code: 3 }), {
      result: { kind: 'exited', code: 3, oomKilled: false },
      startedAtMs: 1700000000123,
      endedAtMs: 1700000003000,
      ranForMs: 2500,
      usage: { cpuUserMs: 1.5, cpuSystemMs: 0.5, peakMemoryBytes: 4096 },
      logComplete: true,
      leftoversKilled: 2,
    });
    const counted = report({ result: 'exited', code: 3, memory_limit_hits: 12 });
    assert.equal((counted as { memoryLimitHits?: number }).memoryLimitHits, 12);
  });

  const cases: readonly [string, Values, unknown][] = [
    ['137 is a code', { result: 'exited', code: 137 }, { kind: 'exited', code: 137, oomKilled: false }],
    [
      'SIGKILL is a signal',
      { result: 'signaled', signal: 9, core: 0 },
      { kind: 'signaled', signal: 9, coreDumped: false, oomKilled: false },
    ],
    [
      'a child was OOM killed, the leader was not',
      { result: 'signaled', signal: 15, oom_kills: 1 },
      { kind: 'signaled', signal: 15, coreDumped: false, oomKilled: false },
    ],
    [
      'the leader was OOM killed',
      { result: 'signaled', signal: 9, oom_kills: 1, leader_oom: 1 },
      { kind: 'signaled', signal: 9, coreDumped: false, oomKilled: true },
    ],
    [
      'a child was OOM killed',
      { result: 'exited', code: 0, oom_kills: 2 },
      { kind: 'exited', code: 0, oomKilled: true },
    ],
    [
      'a core dump',
      { result: 'signaled', signal: 11, core: 1 },
      { kind: 'signaled', signal: 11, coreDumped: true, oomKilled: false },
    ],
  ];
  for (const [name, values, result] of cases) {
    it(name, () => {
      assert.deepEqual((report(values) as { result: unknown }).result, result);
    });
  }

  it('of an adopted run may say unknown, and what was not measured is not said', () => {
    const { cpu_user_us: user, cpu_sys_us: system, max_rss_kib: rss, ...nothing } = ENDED;
    const cases: readonly [Values, unknown][] = [
      [nothing, undefined],
      [{ ...nothing, memory_peak_bytes: 12345 }, { peakMemoryBytes: 12345 }],
      [
        { ...nothing, cpu_user_us: user, cpu_sys_us: system },
        { cpuUserMs: 1.5, cpuSystemMs: 0.5 },
      ],
      [{ ...nothing, max_rss_kib: rss }, { peakMemoryBytes: 4096 }],
    ];
    for (const [values, usage] of cases) {
      const read = parseExitRecord(sealed({ ...values, result: 'unknown', reason: 'supervision_lost' }));
      assert.ok(read.kind === 'ok' && read.value.kind === 'ended');
      assert.equal(read.value.report.result.kind, 'unknown');
      assert.deepEqual(read.value.report.usage, usage);
    }
  });

  it('tells a failed start apart from an end', () => {
    const values = { holdfast_exit: 1, run_id: 'r', boot_id: 'b', result: 'start_failed' };
    assert.deepEqual(parseExitRecord(sealed({ ...values, stage: 'exec', errno: 2, detail: '/a=b' })), {
      kind: 'ok',
      value: { kind: 'start_failed', runId: 'r', bootId: 'b', stage: 'exec', errno: 2, detail: '/a=b' },
    });
  });

  it('is unreadable with a status that no process can have', () => {
    for (const values of [{ code: 256 }, { code: -1 }, {}, { code: 'x' }])
      assert.equal(parseExitRecord(sealed({ ...ENDED, result: 'exited', ...values })).kind, 'unreadable');
    for (const signal of [0, 65, 'KILL'])
      assert.equal(parseExitRecord(sealed({ ...ENDED, result: 'signaled', signal })).kind, 'unreadable');
  });

  it('is unreadable when a single byte is missing or changed', () => {
    const whole = sealed({ ...ENDED, result: 'exited', code: 0 });
    for (let length = 0; length < whole.length; length++)
      assert.equal(parseExitRecord(whole.subarray(0, length)).kind, 'unreadable', `${length} bytes`);
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const damaged = Buffer.from(whole);
        damaged[at] = (damaged[at] ?? 0) ^ flip;
        assert.equal(parseExitRecord(damaged).kind, 'unreadable');
      }),
    );
  });

  it('never throws, whatever the bytes', () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void parseExitRecord(Buffer.from(bytes))));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), (values) => void parseExitRecord(sealed(values))),
    );
  });
});

describe('status', () => {
  const running = {
    holdfast_status: 1,
    run_id: 'r1',
    boot_id: 'b1',
    state: 'running',
    executor_pid: 10,
    executor_start: 111,
    pid: 11,
    pid_start: 112,
    started_at_ns: '1700000000123456789',
    started_mono_ns: '5000000000',
    version: '0.1.0',
    something_newer: 'ignored',
  };

  it('tells who runs what', () => {
    assert.deepEqual(parseStatus(lines(running)), {
      kind: 'ok',
      value: {
        runId: 'r1',
        bootId: 'b1',
        state: 'running',
        executor: { pid: 10, startTicks: 111 },
        workload: { pid: 11, startTicks: 112 },
        startedAtMs: 1700000000123,
        adopted: false,
        version: '0.1.0',
        stuck: undefined,
      },
    });
  });

  it('may lack a process only before there is one', () => {
    const without = Object.fromEntries(
      Object.entries(running).filter(([key]) => key !== 'pid' && key !== 'pid_start'),
    );
    assert.equal(parseStatus(lines({ ...without, state: 'ready' })).kind, 'ok');
    assert.equal(parseStatus(lines(without)).kind, 'unreadable');
  });

  it('is unreadable with a pid that would mean a group, or an unknown state', () => {
    for (const values of [{ executor_pid: 0 }, { executor_pid: -5 }, { pid: 0 }, { state: 'dancing' }])
      assert.equal(parseStatus(lines({ ...running, ...values })).kind, 'unreadable', JSON.stringify(values));
  });

  it('never throws, whatever the text', () => {
    fc.assert(fc.property(fc.string(), (garbage) => void parseStatus(garbage)));
  });
});
