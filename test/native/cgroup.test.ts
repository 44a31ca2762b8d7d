/** What a cgroup adds: born in it, killed with it, OOM by evidence. Needs a cgroup hierarchy that we may write to. */
import assert from 'node:assert/strict';
import { readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive } from '../../src/base/host.js';
import { until } from '../helpers/until.js';
import { Cgroup, needs, V1_CPUACCT, V1_MEMORY, V2 } from './cgroups.js';
import { Run, TOLD, type Values } from './harness.js';

/** HOLDFAST_OOM_ROUNDS=250 is a thousand ends. */
const OOM_ROUNDS = Number(process.env['HOLDFAST_OOM_ROUNDS'] ?? 5);

describe('cgroup v2 leaf', needs(V2, 'cgroup v2'), () => {
  it('G25: the workload is born in it, the executor is not', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = await new Run({
      sh: 'cat /proc/self/cgroup; exec sleep 1000',
      cgroup: cgroup.dir,
    }).started();
    await run.logged('0::');
    assert.match(run.log(), new RegExp(`^0::.*${cgroup.dir.slice((V2 ?? '').length)}$`, 'm'));
    assert.ok(cgroup.pids().includes(run.workload.pid));
    assert.ok(!cgroup.pids().includes(run.executor.pid));
  });

  it('is empty when the record is there, whoever was in it', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = await new Run({
      // Without environment, parents or session in common: only the cgroup finds these.
      sh: [
        '(setsid env -i sh -c \'trap "" TERM HUP; echo up; while :; do sleep 0.1; done\' &)',
        "(setsid env -i sh -c 'echo up; kill -STOP $$; :' &)",
        'trap "" TERM; echo up; while :; do sleep 0.1; done',
      ].join('\n'),
      cgroup: cgroup.dir,
    }).started();
    await until('all are up', () => run.log() === 'up\n'.repeat(3));
    await run.stop(15, 100);
    const exit = await run.exit();
    assert.deepEqual(cgroup.pids(), []);
    assert.equal(exit['log_complete'], '1');
    rmdirSync(cgroup.dir);
  });

  it('ends an adopted tree that nothing else would find', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = await new Run({
      sh: "(setsid env -i sh -c 'echo up; exec sleep 1000' &); echo up; exec sleep 1000",
      cgroup: cgroup.dir,
    }).started();
    await until('both are up', () => run.log() === 'up\nup\n');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    await run.stop(15, 60_000);
    await run.exit();
    assert.deepEqual(cgroup.pids(), []);
  });

  it('one that was killed before can be joined all the same', async () => {
    await using cgroup = new Cgroup(V2);
    writeFileSync(join(cgroup.dir, 'cgroup.kill'), '1');
    await using run = await new Run({ sh: 'echo ran; exec sleep 1000', cgroup: cgroup.dir }).started();
    await run.logged('ran\n');
    assert.deepEqual(cgroup.pids(), [run.workload.pid]);
    assert.equal(run.log(), 'ran\n');
  });

  it('G17: a frozen workload obeys a stop', async () => {
    await using cgroup = new Cgroup(V2);
    const sh = 'trap "exit 5" TERM; echo up; while :; do sleep 0.01; done';
    await using run = await new Run({ sh, cgroup: cgroup.dir }).started();
    await run.logged('up');
    writeFileSync(join(cgroup.dir, 'cgroup.freeze'), '1');
    await until('it is frozen', () =>
      readFileSync(join(cgroup.dir, 'cgroup.events'), 'utf8').includes('frozen 1'),
    );
    await run.stop(15, 60_000);
    assert.equal(await run.outcome(), 'exited 5');
  });

  it('executors move themselves away, and say when they cannot', async () => {
    await using cgroup = new Cgroup(V2);
    const selfProcs = [join(cgroup.dir, 'cgroup.procs')];
    await using run = await new Run({ sh: 'exec sleep 1000', selfProcs }).started();
    assert.deepEqual(cgroup.pids().sort(), [run.executor.pid, run.workload.pid].sort());
    await using other = await new Run({ sh: 'exec sleep 1000', selfProcs: ['/nonexistent'] }).started();
    assert.equal(other.status()['self_procs_errno'], '2');
    await run.stop(0, 0);
    await run.exit();
    await until('the executor is gone', () => !isAlive(run.executor));
  });

  it('executors are born where they are to be: no file is written for that', async () => {
    await using cgroup = new Cgroup(V2);
    const selfProcs = [join(cgroup.dir, 'no-such-file')];
    await using run = await new Run({ sh: 'exec sleep 1000', selfProcs }).started();
    assert.deepEqual(cgroup.pids().sort(), [run.executor.pid, run.workload.pid].sort());
    assert.equal(run.status()['self_procs_errno'], undefined);
    await run.stop(0, 0);
    await run.exit();
    await until('the executor is gone', () => !isAlive(run.executor));
  });

  it('an executor that the kernel kills at its birth is made again, and moves itself', async () => {
    await using cgroup = new Cgroup(V2);
    writeFileSync(join(cgroup.dir, 'cgroup.kill'), '1');
    const selfProcs = [join(cgroup.dir, 'cgroup.procs')];
    await using run = await new Run({ sh: 'exec sleep 1000', selfProcs }).started();
    assert.deepEqual(cgroup.pids().sort(), [run.executor.pid, run.workload.pid].sort());
    await run.stop(0, 0);
    await run.exit();
    await until('the executor is gone', () => !isAlive(run.executor));
  });
});

/** Seconds that a child of a task burns, which nobody reaps, so that nobody is told what it used. */
const BURNT = 0.3;
const BURN = [
  'import os, signal, time',
  'signal.signal(signal.SIGCHLD, signal.SIG_IGN)',
  'if os.fork() == 0:',
  `    while time.process_time() < ${BURNT}: pass`,
  '    os._exit(0)',
  'try: os.wait()',
  'except ChildProcessError: print("burnt", flush=True)',
].join('\n');

function assertBurnt(exit: Values): void {
  const cpuUs = Number(exit['cpu_user_us']) + Number(exit['cpu_sys_us']);
  assert.ok(cpuUs >= 0.9 * BURNT * 1e6, JSON.stringify(exit));
}

describe('CPU time of a cgroup', needs(V2, 'cgroup v2'), () => {
  it('is that of all that was in it, also of what nobody reaped', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = await new Run({ sh: `python3 -c '${BURN}'`, cgroup: cgroup.dir }).started();
    const exit = await run.exit();
    assertBurnt(exit);
    assert.ok(Number(exit['max_rss_kib']) > 0);
  });

  it('is on record after a take-over, with what was used before it', async () => {
    await using cgroup = new Cgroup(V2);
    const sh = `python3 -c '${BURN}'; exec sleep 1000`;
    await using run = await new Run({ sh, cgroup: cgroup.dir }).started();
    await run.logged('burnt\n');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    await run.stop(15, 60_000);
    const exit = await run.exit();
    assert.equal(exit['adopted'], '1');
    assertBurnt(exit);
    assert.equal(exit['max_rss_kib'], undefined);
  });
});

describe('CPU time of a v1 cgroup', needs(V1_CPUACCT, 'cgroup v1 cpuacct'), () => {
  it('is read where the task has joined it', async () => {
    await using cgroup = new Cgroup(V1_CPUACCT);
    const joinProcs = [join(cgroup.dir, 'tasks')];
    await using run = await new Run({ sh: `python3 -c '${BURN}'`, joinProcs }).started();
    assertBurnt(await run.exit());
  });
});

describe('memory of a cgroup', () => {
  it('G4: how often the limit was hit is read as both versions write it, and not said where nothing counts it', async () => {
    for (const [text, hits] of [
      ['low 3\nhigh 4\nmax 17\noom 1\noom_kill 0\noom_group_kill 0\n', '17'],
      ['12\n', '12'],
      [undefined, undefined],
    ] as const) {
      await using run = new Run();
      const memoryHits = text === undefined ? undefined : join(run.root, 'counter');
      if (memoryHits !== undefined) writeFileSync(memoryHits, text ?? '');
      run.writeSpec({ sh: 'exit 0', memoryHits });
      await run.started();
      assert.equal((await run.exit())['memory_limit_hits'], hits);
    }
  });
});

describe('memory of a v1 cgroup', needs(V1_MEMORY, 'cgroup v1 memory'), () => {
  const LIMIT_BYTES = 32 << 20;
  // tail keeps what it reads until a line ends: it grows for ever.
  const cases: readonly [string, string, string, string][] = [
    ['the leader', 'exec tail /dev/zero', 'signaled 9', '1'],
    ['a child', 'tail /dev/zero; exit 0', 'exited 0', '0'],
  ];
  for (const [who, sh, outcome, leaderOom] of cases) {
    it(`G4: the OOM killer took ${who}`, async () => {
      await using cgroup = new Cgroup(V1_MEMORY);
      writeFileSync(join(cgroup.dir, 'memory.limit_in_bytes'), String(LIMIT_BYTES));
      await using run = await new Run({
        sh,
        joinProcs: [join(cgroup.dir, 'tasks')],
        memoryEvents: join(cgroup.dir, 'memory.oom_control'),
        memoryPeak: join(cgroup.dir, 'memory.max_usage_in_bytes'),
        memoryHits: join(cgroup.dir, 'memory.failcnt'),
      }).started();
      const exit = await run.exit();
      assert.equal(await run.outcome(), outcome);
      assert.ok(Number(exit['memory_limit_hits']) > 0);
      assert.deepEqual([exit['oom_kills'], exit['leader_oom']], ['1', leaderOom]);
      assert.equal(exit['memory_peak_bytes'], String(LIMIT_BYTES));
    });
  }

  it(`G4: is told from other ends, ${OOM_ROUNDS} times each`, async () => {
    const SMALL_BYTES = 4 << 20;
    const ends: readonly {
      readonly sh: string;
      readonly limit: number;
      readonly seen: string;
      kill?: true;
    }[] = [
      { sh: 'exec tail /dev/zero', limit: LIMIT_BYTES, seen: 'signaled 9, oom_kills 1, leader_oom 1' },
      // Within a millisecond or two of its start.
      { sh: 'exec tail /dev/zero', limit: SMALL_BYTES, seen: 'signaled 9, oom_kills 1, leader_oom 1' },
      { sh: 'tail /dev/zero; exit 0', limit: SMALL_BYTES, seen: 'exited 0, oom_kills 1, leader_oom 0' },
      {
        sh: 'exec sleep 1000',
        limit: SMALL_BYTES,
        seen: 'signaled 9, oom_kills 0, leader_oom 0',
        kill: true,
      },
    ];
    for (let round = 0; round < OOM_ROUNDS; round += 1) {
      for (const { sh, limit, seen, kill } of ends) {
        await using cgroup = new Cgroup(V1_MEMORY);
        writeFileSync(join(cgroup.dir, 'memory.limit_in_bytes'), String(limit));
        const change = { joinProcs: [join(cgroup.dir, 'tasks')], log: 'none' as const };
        await using run = await new Run({
          sh,
          ...change,
          memoryEvents: join(cgroup.dir, 'memory.oom_control'),
        }).started();
        if (kill) process.kill(run.workload.pid, 'SIGKILL');
        const exit = await run.exit();
        const { oom_kills: kills, leader_oom: leader } = exit;
        assert.equal(
          `${await run.outcome()}, oom_kills ${kills ?? ''}, leader_oom ${leader ?? ''}`,
          seen,
          `round ${round}: ${sh}`,
        );
      }
    }
  });

  it('G4: a limit that was only hit is counted, and is no OOM', async () => {
    await using cgroup = new Cgroup(V1_MEMORY);
    writeFileSync(join(cgroup.dir, 'memory.limit_in_bytes'), String(LIMIT_BYTES));
    for (const [mib, isHit] of [
      [1, false],
      [64, true],
    ] as const) {
      await using run = new Run();
      run.writeSpec({
        // What is written stays in memory until it has to make room.
        sh: `dd if=/dev/zero of=${run.root}/file bs=1M count=${mib} 2>/dev/null`,
        joinProcs: [join(cgroup.dir, 'tasks')],
        memoryEvents: join(cgroup.dir, 'memory.oom_control'),
        memoryHits: join(cgroup.dir, 'memory.failcnt'),
      });
      await run.started();
      const exit = await run.exit();
      assert.deepEqual([exit['code'], exit['oom_kills']], ['0', '0']);
      assert.equal(Number(exit['memory_limit_hits']) > 0, isHit);
    }
  });

  it('G4: a SIGKILL of somebody else is no OOM', async () => {
    await using cgroup = new Cgroup(V1_MEMORY);
    await using run = await new Run({
      sh: 'exec sleep 1000',
      joinProcs: [join(cgroup.dir, 'tasks')],
      memoryEvents: join(cgroup.dir, 'memory.oom_control'),
    }).started();
    process.kill(run.workload.pid, 'SIGKILL');
    const exit = await run.exit();
    assert.deepEqual([exit['signal'], exit['oom_kills'], exit['leader_oom']], ['9', '0', '0']);
  });
});
