/** An executor dies by SIGKILL: its task does not notice, and another executor takes over. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { FRAME, REPLY_BIT } from '../../src/executor/protocol.js';
import { until } from '../helpers/until.js';
import { EXECUTOR, IS_ROOT, processesOf, Run, TOLD } from './harness.js';

const SIGNAL = { term: 15 } as const;
/** Linux 6.15: PIDFD_INFO_EXIT. */
const KERNEL_TELLS = atLeast(6, 15);

function atLeast(major: number, minor: number): boolean {
  const [a = 0, b = 0] = readFileSync('/proc/sys/kernel/osrelease', 'utf8').split('.').map(Number);
  return a > major || (a === major && b >= minor);
}

/** Where the standard descriptors of a process lead. */
function openFiles(pid: number): string {
  return [0, 1, 2].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`)).join(' ');
}

async function takenOver(run: Run): Promise<void> {
  await run.killExecutor();
  assert.deepEqual(await run.adopt(), { status: TOLD.ok, stderr: '' });
  assert.equal(run.status()['adopted'], '1');
}

/** Whether the newest log file ends so. */
function endsWith(run: Run, text: string): boolean {
  const newest = join(run.logDir, `main.stdout.${run.logIndexes().at(-1)}`);
  return existsSync(newest) && readFileSync(newest, 'latin1').endsWith(text);
}

/** What the writer does with a chunk, in this order, and, at a rotation, with its files: call, and what it is about. */
const WRITER_CALLS: readonly (readonly [call: string, about: 'pipe' | 'files'])[] = [
  ['ppoll', 'pipe'],
  ['ioctl', 'pipe'],
  ['read', 'pipe'],
  ['fstat,newfstatat', 'files'],
  ['pwrite64', 'files'],
  ['openat', 'files'],
];
const NO_STRACE = IS_ROOT && spawnSync('strace', ['-V']).status === 0 ? false : 'needs root and strace';

/** Takes over by an executor that is killed as it enters a call for the Nth time. @returns 1, or 0 when it did not come to that */
async function adoptAndDieAt(
  run: Run,
  [call, about]: (typeof WRITER_CALLS)[number],
  when: number,
): Promise<number> {
  const trace = join(run.root, `trace-${call}-${when}`);
  const newest = run.logIndexes().at(-1) ?? 0;
  const files = Array.from({ length: 20 }, (_, at) => join(run.logDir, `main.stdout.${newest + at}`));
  // All others of an executor stay out of it. A call that waits for several things is about none of them.
  const paths = about === 'files' ? [run.logDir, ...files] : [join(run.dir, 'stdout')];
  const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:signal=KILL:when=${when}`];
  const only = call === 'ppoll' ? [] : paths.flatMap((path) => ['-P', path]);
  spawnSync('strace', ['-D', '-f', '-qq', '-o', trace, ...inject, ...only, EXECUTOR, 'adopt', run.dir], {
    stdio: 'ignore',
  });
  const isDead = (): boolean => readFileSync(trace, 'utf8').includes('killed by SIGKILL');
  const isOver = (): boolean => endsWith(run, 'end\n');
  await until(`it was killed at ${call}`, () => isDead() || isOver(), { everyMs: 5 });
  return isDead() ? 1 : 0;
}

describe('adopt', () => {
  it('G29: output goes on without loss or repetition, however often', async () => {
    const count = 150_000;
    await using run = await new Run({
      // It stays at the end: what lies in a pipe that nobody holds any more is lost.
      sh: `seq 1 ${count}; echo end; exec sleep 1000`,
      log: { maxBytes: 100_000, maxFiles: 1000 },
    }).started();
    const workload = run.workload;
    for (let round = 0; round < 12; round++) await takenOver(run);
    await run.logged('end\n');
    assert.equal(run.log(), Array.from({ length: count }, (_, i) => `${i + 1}\n`).join('') + 'end\n');
    assert.deepEqual(run.workload, workload);
    assert.ok(isAlive(workload));
    await run.stop(SIGNAL.term, 60_000);
    const exit = await run.exit();
    assert.deepEqual([exit['adopted'], exit['log_complete'], exit['cpu_user_us']], ['1', '1', undefined]);
  });

  it('G29: nor when every line is like the one before, wherever it is killed', async () => {
    // What was taken out of the pipe cannot be told from what came after it by looking at it.
    const count = 20_000_000;
    await using run = await new Run({
      sh: `yes | head -n ${count}; echo end; exec sleep 1000`,
      log: { maxBytes: 1_000_000, maxFiles: 1000 },
    }).started();
    let kills = 0;
    for (; !endsWith(run, 'end\n'); kills++) await takenOver(run);
    assert.equal(run.log(), 'y\n'.repeat(count) + 'end\n');
    assert.ok(kills > 0);
  });

  for (const [name, command] of [
    ['numbered lines', 'seq 1 6000000'],
    ['the same line again and again', 'yes | head -n 20000000'],
  ] as const) {
    it(`G29: nor at any system call of its writer: ${name}`, { skip: NO_STRACE }, async () => {
      await using run = await new Run({
        sh: `${command}; echo end; exec sleep 1000`,
        log: { maxBytes: 1_000_000, maxFiles: 1000 },
      }).started();
      let deaths = 0;
      for (const when of [1, 2, 3, 4]) {
        for (const call of WRITER_CALLS) {
          await run.killExecutor();
          deaths += await adoptAndDieAt(run, call, when);
        }
      }
      await run.killExecutor();
      assert.equal((await run.adopt()).status, TOLD.ok);
      await until('the end is there', () => endsWith(run, 'end\n'));
      const expected = execFileSync('/bin/sh', ['-c', `${command}; echo end`], { maxBuffer: 1 << 26 });
      assert.ok(run.log() === expected.toString('latin1'), `${run.log().length} of ${expected.length} bytes`);
      assert.equal(deaths, WRITER_CALLS.length * 4);
    });
  }

  it(
    'G29: nor when it comes a byte at a time, at any system call of its writer',
    { skip: NO_STRACE },
    async () => {
      // So few bytes are looked at before they are read.
      await using base = new Run();
      await using run = await new Run({
        cwd: base.root,
        sh: 'n=0; until [ -e enough ]; do echo; n=$((n + 1)); sleep 0.001; done; echo $n; echo end; exec sleep 1000',
      }).started();
      let deaths = 0;
      for (const when of [2, 3, 4, 5]) {
        for (const call of [
          ...WRITER_CALLS.filter(([name]) => name !== 'openat'),
          ['tee', 'pipe'] as const,
        ]) {
          await run.killExecutor();
          deaths += await adoptAndDieAt(run, call, when);
        }
      }
      await run.killExecutor();
      assert.equal((await run.adopt()).status, TOLD.ok);
      writeFileSync(join(base.root, 'enough'), '');
      await run.logged('end\n');
      const [, empty = '', count] = /^(\n+)(\d+)\nend\n$/.exec(run.log()) ?? [];
      assert.equal(empty.length, Number(count));
      assert.equal(deaths, WRITER_CALLS.length * 4);
    },
  );

  it('refuses while the executor is alive', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    assert.equal((await run.adopt()).status, TOLD.claimed);
    assert.ok(isAlive(run.executor));
  });

  it('refuses a run that has ended, or was never claimed', async () => {
    await using run = await new Run().started();
    await run.exit();
    await until('the executor is gone', () => !isAlive(run.executor));
    assert.equal((await run.adopt()).status, TOLD.notThere);
    await using unclaimed = new Run();
    assert.equal((await unclaimed.adopt()).status, TOLD.notThere);
  });

  it('two at once: one takes over', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    await run.killExecutor();
    const told = await Promise.all([run.adopt(), run.adopt(), run.adopt()]);
    assert.deepEqual(told.map(({ status }) => status).sort(), [TOLD.ok, TOLD.claimed, TOLD.claimed]);
  });

  it('G9: never touches a stranger with the pid of the workload', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    await run.killExecutor();
    const workload = run.workload;
    process.kill(workload.pid, 'SIGKILL');
    await until('it is reaped', () => readProcessStat(workload.pid) === undefined);
    // The leader of a session of its own, as the workload was.
    const stranger = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' });
    try {
      const status = readFileSync(join(run.dir, 'status'), 'utf8');
      writeFileSync(join(run.dir, 'status'), status.replace(/^pid=\d+$/m, `pid=${stranger.pid}`));
      assert.equal((await run.adopt()).status, TOLD.notThere);
      assert.ok(readProcessStat(stranger.pid ?? 0) !== undefined);
      assert.equal(stranger.exitCode ?? stranger.signalCode, null);
    } finally {
      stranger.kill('SIGKILL');
    }
  });

  it('the exit status is the true one, and is told to whoever waits', async () => {
    const ends: readonly [string, string][] = [
      ['exit 42', 'exited 42'],
      ['exit 0', 'exited 0'],
      ['kill -USR1 $$', 'signaled 10'],
    ];
    for (const [end, outcome] of ends) {
      await using run = new Run();
      run.writeSpec({ sh: `while [ ! -e ${run.root}/go ]; do sleep 0.01; done; ${end}` });
      await run.started();
      await takenOver(run);
      const client = await run.client();
      assert.equal((await client.hello(run.runId))?.type, FRAME.hello | REPLY_BIT);
      const wait = client.send(FRAME.wait);
      writeFileSync(join(run.root, 'go'), '');
      assert.equal((await client.reply(wait))?.type, FRAME.wait | REPLY_BIT);
      assert.match((await run.exit())['how'] ?? '', /^(proc_stat|pidfd_info)$/);
      assert.equal(await run.outcome(), outcome);
    }
  });

  it('a leader that somebody else has reaped: the kernel tells, or it is unknown', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    await takenOver(run);
    const workload = run.workload;
    process.kill(run.executor.pid, 'SIGSTOP');
    process.kill(workload.pid, 'SIGUSR2');
    await until('it is reaped', () => readProcessStat(workload.pid) === undefined);
    process.kill(run.executor.pid, 'SIGCONT');
    assert.equal(await run.outcome(), KERNEL_TELLS ? 'signaled 12' : 'unknown supervision_lost');
    assert.equal((await run.exit())['how'], KERNEL_TELLS ? 'pidfd_info' : undefined);
  });

  it('a stop works, deadline included, and nothing of the tree survives', async () => {
    await using run = await new Run({
      sh: [
        'setsid sh -c \'trap "" TERM; echo up; while :; do sleep 0.1; done\' &',
        "(setsid sh -c 'echo up; exec sleep 1000' &)",
        "sh -c 'echo up; kill -STOP $$; :' &",
        'trap "" TERM; echo up; while :; do sleep 0.1; done',
      ].join('\n'),
    }).started();
    await until('all four are up', () => run.log() === 'up\n'.repeat(4));
    await takenOver(run);
    assert.ok(processesOf(run.runId).length >= 4);
    await run.stop(SIGNAL.term, 200);
    const exit = await run.exit();
    assert.equal(exit['stop_stage'], 'kill');
    assert.deepEqual(processesOf(run.runId), []);
    assert.equal(exit['leader_oom'], '0');
  });

  it('what outlived a leader that nobody saw end is brought to an end', async () => {
    await using run = await new Run({ sh: 'setsid sleep 1000 & sleep 1000 & exec sleep 1000' }).started();
    await until('three processes', () => processesOf(run.runId).length === 3);
    await run.killExecutor();
    const workload = run.workload;
    process.kill(workload.pid, 'SIGKILL');
    await until('the leader is gone', () => readProcessStat(workload.pid) === undefined);
    assert.equal((await run.adopt()).status, TOLD.ok);
    assert.equal(await run.outcome(), 'unknown supervision_lost');
    assert.deepEqual(processesOf(run.runId), []);
    assert.equal((await run.exit())['leftovers_killed'], '2');
  });

  it('G18: what outlives the leader has its time, measured anew, whoever is the executor', async () => {
    for (const [lasts, killed] of [
      [0.5, '0'],
      [1000, '1'],
    ] as const) {
      await using run = await new Run({ sh: `setsid sleep ${lasts} & exit 6`, leftoversMs: 2_000 }).started();
      await until('it waits', () => run.status()['state'] === 'stopping');
      const beforeMs = performance.now();
      await run.killExecutor();
      assert.equal((await run.adopt()).status, TOLD.ok);
      assert.equal(await run.outcome(), 'unknown supervision_lost');
      assert.equal((await run.exit())['leftovers_killed'], killed);
      assert.ok(killed === '0' || performance.now() - beforeMs > 2_000);
      assert.deepEqual(processesOf(run.runId), []);
    }
  });

  it('a log tail that may be lost is never called complete', async () => {
    await using run = new Run();
    run.writeSpec({
      sh: `while [ ! -e ${run.root}/go ]; do sleep 0.01; done; exec >/dev/null 2>&1; sleep 1000`,
    });
    await run.started();
    await run.killExecutor();
    writeFileSync(join(run.root, 'go'), '');
    await until('it has let go of its output', () => !openFiles(run.workload.pid).includes(run.dir));
    assert.equal((await run.adopt()).status, TOLD.ok);
    await run.stop(0, 0);
    assert.equal((await run.exit())['log_complete'], '0');
  });

  it('works without log directory and without the old socket', async () => {
    await using run = await new Run({ sh: 'sleep 1000', log: 'none' }).started();
    await run.killExecutor();
    rmSync(join(run.dir, 'sock'));
    assert.equal((await run.adopt()).status, TOLD.ok);
    await run.stop(0, 0);
    assert.equal((await run.exit())['log_complete'], '1');
  });

  it('G6: an executor killed at any moment of a start leaves either nothing, or a workload that is on record', async () => {
    const seen = { nothing: 0, workload: 0, ended: 0 };
    for (let round = 0; round < 40; round++) {
      await using run = new Run();
      run.writeSpec({ sh: `echo $$ > ${run.root}/ran; exec sleep 1000` });
      const started = run.start();
      await until('an executor', () => existsSync(join(run.dir, 'status')), { everyMs: 0 });
      const untilNs = process.hrtime.bigint() + BigInt(round) * 50_000n;
      while (process.hrtime.bigint() < untilNs);
      await run.killExecutor();
      await started;
      const told = await run.adopt();
      if (told.status === TOLD.ok) {
        seen.workload++;
        // A child that was still behind its gate ends by itself.
        await run.stop(0, 0).catch(() => undefined);
        const outcome = await run.outcome();
        const ran = existsSync(join(run.root, 'ran'));
        assert.ok(outcome === 'signaled 9' || (!ran && outcome === 'unknown supervision_lost'), outcome);
      } else {
        assert.equal(told.status, TOLD.notThere);
        seen[existsSync(join(run.dir, 'exit')) ? 'ended' : 'nothing']++;
        assert.ok(!existsSync(join(run.root, 'ran')), 'it ran and is not on record');
      }
      assert.deepEqual(processesOf(run.runId), []);
    }
    assert.ok(seen.workload > 0, JSON.stringify(seen));
  });
});
