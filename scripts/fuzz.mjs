// Owns `npm run fuzz`: feeds the executor's parsers with made-up input, under AddressSanitizer and UBSan.
//   npm run fuzz -- --seconds 1800        that long for each target (default 20)
// With clang and its libFuzzer the inputs are led by coverage; else gcc and blind changes of the same seeds.
// Prints one line a target; on a fault its report and the input, and exits 1.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from './prepare.mjs';
import { encodeFrame, encodeSpec, FRAME, FRAME_TAG } from '../dist/src/executor/protocol.js';
import { intField, stringField } from '../dist/src/executor/tlv.js';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '20' }, seed: { type: 'string', default: '1' } },
});
const native = join(ROOT, 'native');
const sanitize = 'address,undefined';

/** Target → what it is made of beside its own file, and inputs that are right. */
const TARGETS = {
  spec: { without: ['main.c', 'launcher.c'], seeds: specSeeds() },
  frames: { without: ['main.c', 'launcher.c', 'wire.c'], seeds: frameSeeds() },
};

const dir = mkdtempSync(join(tmpdir(), 'holdfast-fuzz-'));
try {
  for (const target of Object.keys(TARGETS)) if (!fuzz(target)) process.exitCode = 1;
} finally {
  if (process.exitCode !== 1) rmSync(dir, { recursive: true });
}

/** @param {keyof typeof TARGETS} target */
function fuzz(target) {
  const corpus = join(dir, `${target}.corpus`);
  mkdirSync(corpus);
  const seeds = TARGETS[target].seeds.map((bytes, number) => {
    const path = join(corpus, `seed-${number}`);
    writeFileSync(path, bytes);
    return path;
  });
  const program = join(dir, target);
  const led = build('clang', target, program, `-fsanitize=fuzzer,${sanitize}`, []);
  if (!led && !build('gcc', target, program, `-fsanitize=${sanitize}`, ['fuzz/standalone.c'])) {
    console.error(`holdfast: cannot build the fuzz target ${target}: gcc not found, or without libasan`);
    return false;
  }
  const args = led
    ? [
        `-max_total_time=${values.seconds}`,
        `-seed=${values.seed}`,
        '-print_final_stats=1',
        '-max_len=65540',
        corpus,
      ]
    : [values.seconds, values.seed, ...seeds];
  const done = spawnSync(program, args, { cwd: dir, encoding: 'utf8', maxBuffer: 1 << 28 });
  const count =
    /number_of_executed_units: (\d+)/.exec(done.stderr)?.[1] ?? /(\d+) inputs/.exec(done.stdout)?.[1] ?? '0';
  const how = led ? 'led by coverage' : 'blind';
  if (done.status === 0 && Number(count) > 0) {
    console.log(`fuzz ${target}: ${count} inputs, ${how}, no fault`);
    return true;
  }
  process.stderr.write(done.stdout + done.stderr.slice(-20_000));
  console.error(`fuzz ${target}: a fault after ${count} inputs (${how}); the input is in ${dir}`);
  return false;
}

/** @param {string} compiler @param {keyof typeof TARGETS} target @param {string} program @param {string} flag @param {string[]} more */
function build(compiler, target, program, flag, more) {
  const { without } = TARGETS[target];
  const sources = readdirSync(native).filter((name) => name.endsWith('.c') && !without.includes(name));
  const flags = ['-std=gnu17', '-O1', '-g', flag, '-fno-sanitize-recover=all', '-DHOLDFAST_VERSION="fuzz"'];
  const files = [`fuzz/${target}.c`, ...more, ...sources].map((name) => join(native, name));
  return spawnSync(compiler, [...flags, ...files, '-o', program], { stdio: 'ignore' }).status === 0;
}

function specSeeds() {
  /** @type {import('../dist/src/executor/protocol.js').ExecutorSpec} */
  const spec = {
    runId: '0123456789abcdef0123456789abcdef',
    bootId: '00000000-0000-0000-0000-000000000000',
    title: 'job/task',
    path: '/bin/true',
    argv: ['true', 'a', 'b'],
    env: { A: 'b', EMPTY: '' },
    cwd: '/',
    user: undefined,
    log: { dir: '/l', name: 't', maxFiles: 3, maxBytes: 1000 },
    cgroup: '/c',
    joinProcs: ['/a/cgroup.procs', '/b/cgroup.procs'],
    selfProcs: ['/s'],
    gate: true,
    leftovers: 'keep',
    oomScoreAdj: -5,
    memoryEvents: '/m',
    memoryPeak: '/p',
  };
  const isolated = {
    ...spec,
    path: 'true',
    isolation: {
      namespaces: ['mount', 'pid', 'user'],
      mounts: [
        { source: '/usr', target: '/usr', options: ['ro', 'optional'] },
        { source: '/d', target: '/local', options: ['own'] },
      ],
      search: ['/bin', '/usr/bin'],
      capabilities: { bounding: 7, ambient: 1 },
      noNewPrivs: true,
      seccomp: true,
    },
    attributes: { rlimits: [{ name: 'nofile', soft: 10, hard: -1 }], umask: 0o22, nice: 5 },
  };
  return [
    encodeSpec(spec),
    encodeSpec(isolated),
    encodeSpec({ ...spec, argv: ['x'], user: 'nobody', log: undefined }),
  ];
}

function frameSeeds() {
  const hello = encodeFrame({
    type: FRAME.hello,
    request: 1,
    fields: [stringField(FRAME_TAG.runId, '0123456789abcdef')],
  });
  const stop = encodeFrame({
    type: FRAME.stop,
    request: 2,
    fields: [intField(FRAME_TAG.signal, 15), intField(FRAME_TAG.graceMs, 5000)],
  });
  const signal = encodeFrame({
    type: FRAME.signal,
    request: 3,
    fields: [intField(FRAME_TAG.signal, 1), intField(FRAME_TAG.target, 1)],
  });
  const plain = [FRAME.status, FRAME.go, FRAME.wait].map((type) =>
    encodeFrame({ type, request: 4, fields: [] }),
  );
  return [hello, stop, signal, ...plain, Buffer.concat([hello, ...plain, stop])];
}
