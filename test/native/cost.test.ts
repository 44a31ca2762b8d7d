/** What an executor costs while its task only runs. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Scope } from '../../src/base/scope.js';
import { readLoadKib } from '../helpers/elf.js';
import { until } from '../helpers/until.js';
import { EXECUTOR, IS_ROOT, IS_SANITIZED, Run } from './harness.js';

const OBSERVED_MS = 2000;
/** With the agent connected. */
const MAX_DESCRIPTORS = 16;
/** Each of several side by side, so that what they share is divided. A static build shares little and needs little. */
const MAX_PSS_KIB = { static: 100, dynamic: 220 };
/** Text and data. */
const MAX_PROGRAM_KIB = 64;
const SIDE_BY_SIDE = 6;
const MAX_HOLDER_KIB = 64;

function number(text: string, key: string): number {
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(text)?.[1]);
}

/** Root in a container often may not. */
function mayLowerScore(): boolean {
  const script = 'echo -1000 > /proc/self/oom_score_adj';
  return spawnSync('/bin/sh', ['-c', script], { stdio: 'ignore' }).status === 0;
}

const read = (pid: number, file: string): string => readFileSync(`/proc/${pid}/${file}`, 'utf8');

const isStatic = !readFileSync(EXECUTOR, 'latin1').includes('ld-linux');

describe('an idle executor', () => {
  it('G34: never wakes up', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const { pid } = run.executor;
    const client = await run.client();
    await client.statusText();
    const threads = readdirSync(`/proc/${pid}/task`);
    const switches = (): number =>
      threads
        .map((tid) => read(pid, `task/${tid}/status`))
        .map((text) => number(text, 'voluntary_ctxt_switches') + number(text, 'nonvoluntary_ctxt_switches'))
        .reduce((sum, count) => sum + count, 0);
    await pause(100); // It is on its way back to sleep after that answer.
    const before = switches();
    await pause(OBSERVED_MS); // The window of observation itself, not a wait for something.
    assert.equal(switches(), before);
  });

  const skip = IS_ROOT ? false : 'only root may look into it';
  it('G33: holds few descriptors and little memory of its own', { skip }, async () => {
    await using scope = new Scope();
    const runs = Array.from({ length: SIDE_BY_SIDE }, () => new Run({ sh: 'seq 1 100000; sleep 1000' }));
    for (const run of runs) {
      scope.own('run', run);
      await run.started();
      await run.logged('100000\n');
      const client = await run.client();
      await client.hello(run.runId);
      const descriptors = readdirSync(`/proc/${run.executor.pid}/fd`).length;
      assert.ok(descriptors <= MAX_DESCRIPTORS, `${descriptors} descriptors`);
    }
    if (IS_SANITIZED) return;
    const most = isStatic ? MAX_PSS_KIB.static : MAX_PSS_KIB.dynamic;
    // What much output has taken goes back when no more of it comes for a second.
    await until(`it has at most ${most} KiB`, () => {
      const sizes = runs.map((run) => number(read(run.executor.pid, 'smaps_rollup'), 'Pss'));
      return (sizes.sort((a, b) => a - b)[Math.floor(sizes.length / 2)] ?? 0) <= most;
    });
  });

  it(
    'G33: is a small program, of at most 64 KiB of text and data',
    { skip: isStatic ? false : 'only the static build is small' },
    () => {
      const kib = readLoadKib(EXECUTOR);
      assert.ok(kib > 1 && kib <= MAX_PROGRAM_KIB, `${kib} KiB of text and data`);
    },
  );

  it('has a holder of a terminal beside it that holds even less', { skip }, async () => {
    const terminal = { columns: 80, rows: 24 };
    await using run = await new Run({ sh: 'seq 1 100000; sleep 1000', terminal }).started();
    await run.logged('100000\n');
    const { tty_pid } = run.status();
    assert.ok(readdirSync(`/proc/${tty_pid}/fd`).length <= MAX_DESCRIPTORS);
    const memory = readFileSync(`/proc/${tty_pid}/smaps_rollup`, 'utf8');
    const privateKib = number(memory, 'Private_Dirty') + number(memory, 'Private_Clean');
    if (!IS_SANITIZED) assert.ok(privateKib <= MAX_HOLDER_KIB, `${privateKib} KiB`);
  });

  it(
    'G36: is protected from the OOM killer, its task is not',
    { skip: !mayLowerScore() && 'not allowed here' },
    async () => {
      await using run = await new Run({ sh: 'sleep 1000' }).started();
      assert.equal(read(run.executor.pid, 'oom_score_adj'), '-1000\n');
      assert.equal(read(run.workload.pid, 'oom_score_adj'), '0\n');
    },
  );
});

describe('a busy executor', () => {
  it('G36: takes no memory while it works: rotations, requests, clients that come and go', async () => {
    await using run = await new Run({
      sh: 'while :; do seq 1 20000; sleep 0.01; done',
      log: { maxBytes: 100_000, maxFiles: 3 },
    }).started();
    const data = (): number => number(read(run.executor.pid, 'status'), 'VmData');
    const work = async (): Promise<void> => {
      const last = Math.max(...run.logIndexes());
      for (let round = 0; round < 20; round++) {
        const client = await run.client();
        await client.statusText();
        await client.signal(0);
        client.close();
      }
      await until('it has rotated', () => Math.max(...run.logIndexes()) > last + 20);
    };
    await work();
    const before = data();
    for (let round = 0; round < 3; round++) await work();
    assert.ok(IS_SANITIZED || data() === before, `${before} → ${data()} KiB`);
  });
});
