/**
 * Made what is in executor-v1/: what an agent and an executor of release 0.1.0 wrote. Kept to show how; not run again,
 * since its output is what must stay readable. `node dist/test/golden/make-executor-v1.js DIR`
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encodeFrame, encodeSpec, FRAME, FRAME_TAG, type ExecutorSpec } from '../../src/executor/protocol.js';
import { intField, stringField, type Field } from '../../src/executor/tlv.js';

const dir = process.argv[2] ?? '.';

/** The boot id is a placeholder of the right length: the test puts the present one there. */
const PLAIN: ExecutorSpec = {
  runId: 'golden-run-0001',
  bootId: '00000000-0000-0000-0000-000000000000',
  title: 'golden/run/0001',
  path: '/bin/sh',
  argv: ['sh', '-c', 'trap "exit 7" TERM; while :; do sleep 0.01; done'],
  env: { HOLDFAST_RUN_ID: 'golden-run-0001', PATH: '/usr/bin:/bin' },
  cwd: '/',
  user: undefined,
  log: undefined,
  cgroup: undefined,
  joinProcs: [],
  selfProcs: [],
  gate: true,
  leftovers: 'kill',
  oomScoreAdj: 0,
  memoryEvents: undefined,
  memoryPeak: undefined,
};

const FULL: ExecutorSpec = {
  ...PLAIN,
  user: 'nobody',
  log: { dir: '/var/log/x', name: 'main', maxFiles: 3, maxBytes: 1_000_000 },
  cgroup: '/sys/fs/cgroup/unified/holdfast.slice/x',
  joinProcs: ['/sys/fs/cgroup/memory/x/cgroup.procs', '/sys/fs/cgroup/cpu/x/cgroup.procs'],
  selfProcs: ['/sys/fs/cgroup/memory/executors/cgroup.procs'],
  leftovers: 'keep',
  oomScoreAdj: 100,
  memoryEvents: '/sys/fs/cgroup/memory/x/memory.oom_control',
  memoryPeak: '/sys/fs/cgroup/memory/x/memory.max_usage_in_bytes',
  onExecutorDeath: 'kill',
  isolation: {
    namespaces: ['mount', 'pid', 'ipc'],
    mounts: [{ source: '/usr', target: '/usr', options: ['ro', 'optional'] }],
    search: ['/usr/bin'],
    capabilities: { bounding: 1025, ambient: 0 },
    noNewPrivs: true,
    seccomp: true,
  },
  attributes: { rlimits: [{ name: 'nofile', soft: 100, hard: 200 }], umask: 0o027, nice: 5 },
};

const requests: readonly [number, readonly Field[]][] = [
  [FRAME.hello, [stringField(FRAME_TAG.runId, PLAIN.runId)]],
  [FRAME.go, []],
  [FRAME.status, []],
  [FRAME.signal, [intField(FRAME_TAG.signal, 18), intField(FRAME_TAG.target, 0)]],
  [FRAME.signal, [intField(FRAME_TAG.signal, 99), intField(FRAME_TAG.target, 0)]],
  [FRAME.wait, []],
  [FRAME.stop, [intField(FRAME_TAG.signal, 15), intField(FRAME_TAG.graceMs, 10_000)]],
];

writeFileSync(join(dir, 'spec-plain'), encodeSpec(PLAIN));
writeFileSync(join(dir, 'spec-full'), encodeSpec(FULL));
writeFileSync(join(dir, 'spec-full.json'), `${JSON.stringify(FULL, undefined, 2)}\n`);
writeFileSync(
  join(dir, 'requests'),
  Buffer.concat(requests.map(([type, fields], i) => encodeFrame({ type, request: i + 1, fields }))),
);
