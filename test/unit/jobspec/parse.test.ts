import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { parseJobFile, parseJobJson, renderFaults, type JobResult } from '../../../src/jobspec/parse.js';
import { jobSpecToWire } from '../../../src/api/wire.js';
import type { Job, Task } from '../../../src/jobspec/types.js';

const VALID = 'test/fixtures/jobspec/valid';

/** Places must lie within the text, and what is told must fit a terminal. */
function checkResult(result: JobResult, text: string): void {
  if (result.ok) return;
  assert.ok(result.faults.length > 0, 'a refusal without a reason');
  const lines = text.replace(/^\uFEFF/, '').split('\n');
  for (const { line, column, message } of result.faults) {
    assert.ok(line !== undefined && column !== undefined);
    assert.ok(line >= 1 && line <= lines.length, `line ${line} of ${lines.length}: ${message}`);
    const length = Array.from(lines[line - 1] ?? '').length;
    assert.ok(column >= 1 && column <= length + 1, `column ${column} of ${length}: ${message}`);
    assert.ok(!message.includes('\n'));
  }
  for (const line of renderFaults(result.faults, text).split('\n'))
    assert.ok(Array.from(line).length <= 80, line);
}

describe('parseJobFile', () => {
  it('gives faults or a job for any text at all', () => {
    const name = fc.constantFrom(
      'a.hcl',
      'a.nomad',
      'a.json',
      'a.yaml',
      'a.yml',
      'a.toml',
      '',
      'a.constructor',
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 80 }), name, (text, file) => {
        checkResult(parseJobFile(text, file), text);
      }),
      { numRuns: 1000 },
    );
  });

  it('gives faults or a job for every mutation of a good file', () => {
    const files = ['full.hcl', 'full.yaml', 'full.json'].map((name) => ({
      name,
      text: readFileSync(`${VALID}/${name}`, 'utf8'),
    }));
    const bits = [
      '"',
      '{',
      '}',
      '[',
      ']',
      ':',
      '\n',
      '  ',
      '- ',
      '-1',
      'null',
      '&a ',
      '*a',
      '\t',
      '#',
      '\0',
      '😀',
      '<<',
      '1e9',
    ];
    const edit = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      remove: fc.nat({ max: 12 }),
      insert: fc.oneof(fc.constant(''), fc.constantFrom(...bits), fc.string({ maxLength: 2 })),
    });
    fc.assert(
      fc.property(
        fc.constantFrom(...files),
        fc.array(edit, { minLength: 1, maxLength: 4 }),
        ({ name, text }, edits) => {
          let mutated = text;
          for (const { at, remove, insert } of edits) {
            const offset = Math.floor(at * mutated.length);
            mutated = mutated.slice(0, offset) + insert + mutated.slice(offset + remove);
          }
          checkResult(parseJobFile(mutated, name), mutated);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('refuses what is too large or too deep', () => {
    const deep: readonly (readonly [string, string])[] = [
      ['a.json', '{"a":'.repeat(100_000)],
      ['a.yaml', '['.repeat(20_000)],
      ['a.yaml', `${'- '.repeat(5_000)}x`],
      ['a.hcl', 'a {\n'.repeat(5_000)],
      ['a.hcl', ' '.repeat(1024 * 1024 + 1)],
    ];
    for (const [name, text] of deep) assert.equal(parseJobFile(text, name).ok, false, name);
  });
});

describe('warnings', () => {
  it('tell of a kill timeout that the agent will shorten, with its place', () => {
    const text = 'job "j" {\n  task "t" {\n    driver = "mock_driver"\n    kill_timeout = "31s"\n  }\n}\n';
    const result = parseJobFile(text, 'j.hcl');
    assert.ok(result.ok);
    const [warning, ...others] = result.warnings;
    assert.deepEqual(others, []);
    assert.deepEqual([warning?.line, warning?.column], [4, 20]);
    assert.match(warning?.message ?? '', /`kill_timeout`: the agent shortens 31s .* 30s$/);
    const usual = parseJobFile(text.replace('31s', '30s'), 'j.hcl');
    assert.deepEqual(usual.ok ? usual.warnings : usual.faults, []);
  });
});

describe('parseJobJson', () => {
  it('gives faults or a job for any value at all', () => {
    const value = fc.oneof(
      fc.anything(),
      fc.object({ key: fc.constantFrom('Job', 'ID', 'TaskGroups', 'Name', 'Tasks') }),
    );
    fc.assert(
      fc.property(value, (body) => {
        const result = parseJobJson(body);
        if (!result.ok) assert.ok(result.faults.length > 0 && renderFaults(result.faults, undefined) !== '');
      }),
    );
  });

  it('names places by their path', () => {
    const task = { Name: 't', Driver: 'raw_exec', Config: { comand: 'x' }, KillTimeout: '5' };
    const result = parseJobJson({ Job: { ID: 'j', TaskGroups: [{ Name: 'g', Tasks: [task] }] } });
    assert.ok(!result.ok);
    assert.deepEqual(
      result.faults.map(({ line, path }) => [line, path]),
      [
        [undefined, 'Job.TaskGroups[0].Tasks[0].KillTimeout'],
        [undefined, 'Job.TaskGroups[0].Tasks[0].Config'],
        [undefined, 'Job.TaskGroups[0].Tasks[0].Config.comand'],
      ],
    );
    assert.match(
      renderFaults(result.faults, undefined),
      /^body: Job\.TaskGroups\[0\]\.Tasks\[0\]\.KillTimeout: /,
    );
  });

  it('does not fall for __proto__', () => {
    const result = parseJobJson(JSON.parse('{"ID":"j","__proto__":{"x":1},"TaskGroups":[]}'));
    assert.ok(!result.ok);
    assert.match(result.faults.map((fault) => fault.message).join(), /no key `__proto__`/);
    const env = parseJobJson(
      JSON.parse(
        '{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver","Env":{"__proto__":"x"}}]}]}',
      ),
    );
    assert.ok(env.ok);
    assert.deepEqual(Object.entries(env.job.groups[0]?.tasks[0]?.env ?? {}), [['__proto__', 'x']]);
  });
});

// Any job that the validator may give.
const name = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,20}$/).filter((text) => text !== 'alloc');
const words = fc.dictionary(fc.stringMatching(/^[A-Za-z_]{1,8}$/), fc.string());
const ms = (most: number) => fc.nat({ max: most });
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const restart = fc.record({
  attempts: fc.integer({ min: 1, max: 10 }),
  intervalMs: fc.integer({ min: 3_600_000, max: 9_000_000_000_000 }),
  delayMs: ms(60_000),
  mode: fc.constantFrom('fail' as const, 'delay' as const),
  factor: fc.double({ min: 1, max: 100, noNaN: true }),
  maxDelayMs: maybe(fc.integer({ min: 60_000, max: 1e9 })),
  jitter: fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value + 0),
  resetAfterMs: maybe(ms(1e9)),
});
const mibs = fc.integer({ min: 1, max: 10_000 });
const task: fc.Arbitrary<Task> = fc.record({
  name,
  driver: fc.constant('mock_driver'),
  config: fc.record({
    stdout_string: fc.string().filter((text) => !text.includes('\0')),
    exit_code: fc.nat({ max: 255 }),
  }),
  env: words,
  user: maybe(fc.stringMatching(/^[a-z]{1,8}$/)),
  meta: words,
  resources: fc.record(
    {
      cpuMhz: fc.integer({ min: 1, max: 10_000 }),
      cpuPercent: maybe(fc.integer({ min: 1, max: 1000 })),
      memoryMib: fc.integer({ min: 10, max: 1000 }),
      memoryMaxMib: maybe(fc.constantFrom(-1, 1000, 5000)),
      pids: maybe(fc.integer({ min: 1, max: 1000 })),
      ...{ cores: fc.integer({ min: 1, max: 64 }), memorySwapMib: fc.constantFrom(-1, 0, 64) },
      ...{ ioWeight: mibs, ioReadMib: mibs, ioWriteMib: mibs },
    },
    { requiredKeys: ['cpuMhz', 'cpuPercent', 'memoryMib', 'memoryMaxMib', 'pids'] },
  ),
  restart,
  killTimeoutMs: ms(1e9),
  killSignal: maybe(fc.constantFrom('SIGTERM', 'SIGINT', 'SIGRTMIN+1')),
  shutdownDelayMs: ms(1e6),
  logs: fc.record({
    maxFiles: fc.integer({ min: 1, max: 100 }),
    maxFileSizeMib: fc.integer({ min: 1, max: 100 }),
    disabled: fc.boolean(),
  }),
  leftovers: fc.constantFrom('kill' as const, 'keep' as const),
  // More than one in a group would be a fault.
  leader: fc.constant(false),
  lifecycle: maybe(
    fc.constantFrom(
      { hook: 'prestart' as const, sidecar: true },
      { hook: 'poststart' as const, sidecar: false },
      { hook: 'poststop' as const, sidecar: false },
    ),
  ),
});
const update = fc.record({
  maxParallel: fc.integer({ min: 1, max: 100 }),
  healthCheck: fc.constantFrom('checks' as const, 'task_states' as const, 'manual' as const),
  minHealthyMs: ms(59_999),
  healthyDeadlineMs: fc.integer({ min: 60_000, max: 120_000 }),
  progressDeadlineMs: fc.constantFrom(0, 120_001, 1e9),
  autoRevert: fc.boolean(),
  autoPromote: fc.constant(false),
  canary: fc.constant(0),
  staggerMs: fc.integer({ min: 1, max: 1e6 }),
});
const reschedule = fc
  .record({
    attempts: fc.nat({ max: 5 }),
    intervalMs: fc.integer({ min: 1, max: 1e9 }),
    delayMs: fc.integer({ min: 1_000, max: 60_000 }),
    delayFunction: fc.constantFrom('constant' as const, 'exponential' as const, 'fibonacci' as const),
    maxDelayMs: fc.integer({ min: 60_000, max: 1e9 }),
    unlimited: fc.boolean(),
  })
  .map((policy) => ({ ...policy, unlimited: policy.unlimited && policy.attempts === 0 }));
const launching = fc.oneof(
  fc.constant({}),
  fc.record({
    periodic: fc.record({
      crons: fc.uniqueArray(fc.constantFrom('* * * * *', '@daily', '30 0 3 * * 1'), { minLength: 1 }),
      timeZone: fc.constantFrom('UTC', 'Asia/Tokyo'),
      prohibitOverlap: fc.boolean(),
      enabled: fc.boolean(),
    }),
  }),
  fc.record({
    parameterized: fc.record({
      payload: fc.constantFrom('optional' as const, 'required' as const, 'forbidden' as const),
      metaRequired: fc.uniqueArray(fc.constantFrom('a', 'b')),
      metaOptional: fc.uniqueArray(fc.constantFrom('c', 'd')),
    }),
  }),
);
const plainJob: fc.Arbitrary<Job> = fc.record({
  id: name,
  name: fc.stringMatching(/^[a-z ]*[a-z]$/),
  namespace: name,
  region: name,
  datacenters: fc.array(name, { minLength: 1, maxLength: 3 }),
  type: fc.constantFrom('service' as const, 'batch' as const, 'sysbatch' as const),
  priority: fc.integer({ min: 1, max: 100 }),
  meta: words,
  groups: fc.uniqueArray(
    fc.record({
      name,
      count: fc.nat({ max: 10_000 }),
      meta: words,
      tasks: fc.uniqueArray(task, { minLength: 1, maxLength: 3, selector: (one) => one.name }),
    }),
    { minLength: 1, maxLength: 3, selector: (one) => one.name },
  ),
});
/** What a job of each type may have beside its tasks. */
const job: fc.Arbitrary<Job> = fc
  .tuple(plainJob, maybe(update), reschedule, launching)
  .map(([one, ofUpdate, ofReschedule, ofLaunching]) => ({
    ...one,
    groups: one.groups.map((group) => ({
      ...group,
      ...(one.type === 'service' && ofUpdate !== undefined ? { update: ofUpdate } : {}),
      ...(one.type === 'sysbatch' ? {} : { reschedule: ofReschedule }),
    })),
    ...(one.type === 'service' ? {} : ofLaunching),
  }));

describe('jobSpecToWire', () => {
  it('is read back to the same job, also after a journey as text', () => {
    fc.assert(
      fc.property(job, (written) => {
        // What zod and JSON make of text with lone NULs is refused by the validator: not a job.
        fc.pre(!JSON.stringify(written).includes('\\u0000'));
        const json: unknown = JSON.parse(JSON.stringify({ Job: jobSpecToWire(written) }));
        const result = parseJobJson(json);
        assert.ok(result.ok, result.ok ? '' : renderFaults(result.faults, undefined));
        // fast-check's records have no prototype; a clone is a plain object.
        assert.deepEqual(result.job, structuredClone(written));
        const asFile = parseJobFile(JSON.stringify(json, null, 1), 'job.json');
        assert.deepEqual(asFile.ok ? asFile.job : asFile.faults, result.job);
      }),
    );
  });
});
