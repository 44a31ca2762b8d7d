/** An executor that cannot be spoken to, one that is killed for good, and processes that nobody can kill. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { FRAME, FRAME_TAG } from '../../src/executor/protocol.js';
import { intField } from '../../src/executor/tlv.js';
import { until } from '../helpers/until.js';
import { executor, IS_ROOT, processesOf, Run, TOLD } from './harness.js';

const SIGNAL = { term: 15 } as const;

/** Now, in the unit of start times: hundredths of a second since the host booted. */
function ticksOfHost(): number {
  return Math.floor(Number.parseFloat(readFileSync('/proc/uptime', 'latin1')) * 100);
}

describe('wake', () => {
  it('G12: a socket that was removed, or replaced by a file, is made anew; the workload does not notice', async () => {
    await using run = await new Run({ sh: 'echo on; exec sleep 1000' }).started();
    await run.logged('on\n');
    const sock = join(run.dir, 'sock');
    const { workload } = run;
    const early = await run.client();
    for (const spoil of [
      () => undefined,
      () => {
        writeFileSync(sock, 'a file');
      },
    ]) {
      rmSync(sock);
      spoil();
      assert.deepEqual(await executor('wake', run.dir), { status: TOLD.ok, stderr: '' });
      await until('the socket is back', () => existsSync(sock) && statSync(sock).isSocket());
      assert.equal(statSync(sock).mode & 0o777, 0o600);
      // It is there a moment before anybody listens at it.
      const client = await until('somebody listens', () => run.client().catch(() => undefined));
      assert.equal((await client.statusText())['state'], 'running');
    }
    assert.equal((await early.statusText())['state'], 'running', 'a connection of before goes on');
    const { ino } = statSync(sock);
    await executor('wake', run.dir);
    assert.equal((await (await run.client()).statusText())['state'], 'running');
    assert.equal(statSync(sock).ino, ino, 'a socket that is there stays');
    assert.deepEqual(run.workload, workload);
    await run.stop(SIGNAL.term, 60_000);
    assert.equal(await run.outcome(), 'signaled 15');
    await until('the socket is gone', () => !existsSync(sock));
  });

  it('G12: is served at a path longer than an address', async () => {
    await using run = new Run({ sh: 'exec sleep 1000' });
    const deep = join(run.root, 'a'.repeat(200), 'b'.repeat(100));
    mkdirSync(deep, { recursive: true });
    writeFileSync(join(deep, 'spec'), readFileSync(join(run.dir, 'spec')));
    assert.equal((await executor('run', deep)).status, TOLD.ok);
    const sock = join(deep, 'sock');
    rmSync(sock);
    assert.equal((await executor('wake', deep)).status, TOLD.ok);
    await until('the socket is back', () => existsSync(sock));
    for (const pid of processesOf(run.runId)) process.kill(pid, 'SIGKILL');
    await until('the record is there', () => existsSync(join(deep, 'exit')));
  });

  it('makes a stopped executor go on', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    process.kill(run.executor.pid, 'SIGSTOP');
    await until('it is stopped', () => readProcessStat(run.executor.pid)?.state === 'T');
    const client = await run.client();
    client.send(FRAME.stop, [intField(FRAME_TAG.signal, SIGNAL.term), intField(FRAME_TAG.graceMs, 60_000)]);
    assert.equal((await executor('wake', run.dir)).status, TOLD.ok);
    assert.equal(await run.outcome(), 'signaled 15');
  });

  it('G9: neither wakes nor kills a stranger that has the pid of the executor', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    // Two that began within one tick could not be told apart.
    await until('the next tick', () => ticksOfHost() > run.executor.startTicks);
    await using other = await new Run({ sh: 'exec sleep 1000' }).started();
    await run.killExecutor();
    const status = readFileSync(join(run.dir, 'status'), 'utf8');
    // Another executor, by pid; the start time tells them apart.
    writeFileSync(
      join(run.dir, 'status'),
      status.replace(/executor_pid=\d+/, `executor_pid=${other.executor.pid}`),
    );
    for (const command of ['wake', 'unseat']) {
      const { status: told, stderr } = await executor(command, run.dir);
      assert.equal(told, TOLD.notThere);
      assert.match(stderr, /No such process/);
    }
    assert.ok(isAlive(other.executor));
    writeFileSync(join(run.dir, 'status'), status);
  });
});

describe('the death of an executor', () => {
  it('G13: adopt, the default: the workload goes on, and another one takes over and sees the end', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    assert.equal((await executor('unseat', run.dir)).status, TOLD.ok);
    await until('the executor is gone', () => !isAlive(run.executor));
    assert.ok(isAlive(run.workload));
    assert.equal((await run.adopt()).status, TOLD.ok);
    assert.ok(isAlive(run.workload));
    await run.stop(SIGNAL.term, 60_000);
    assert.equal((await run.exit())['adopted'], '1');
  });

  for (const [name, isolate] of [
    ['plain', undefined],
    [
      'in a pid namespace',
      {
        namespaces: ['pid'],
        mounts: [],
        search: [],
        capabilities: undefined,
        noNewPrivs: false,
        seccomp: false,
      },
    ],
  ] as const) {
    const skip = isolate !== undefined && !IS_ROOT && 'needs root';
    it(
      `G13: kill: the workload dies with its executor (${name}), and its end is not made up`,
      { skip },
      async () => {
        await using run = await new Run({
          sh: 'sleep 1000 & exec sleep 1000',
          onExecutorDeath: 'kill',
          isolation: isolate,
        }).started();
        await until('both are there', () => processesOf(run.runId).length >= 2);
        const { workload } = run;
        await run.killExecutor();
        await until('the leader is gone', () => !isAlive(workload));
        const { status } = await run.adopt();
        if (isolate === undefined) {
          // What it had started is found by its mark, and ended.
          assert.equal(status, TOLD.ok);
          assert.match(await run.outcome(), /^(signaled 9|unknown supervision_lost)$/);
        } else {
          assert.ok(status === TOLD.notThere || status === TOLD.ok);
        }
        await until('nothing is left', () => processesOf(run.runId).length === 0);
      },
    );
  }

  it('G13: kill: also what has lost the death signal ends when it is taken over', async () => {
    // As one does that runs a set-uid program: it was started without the signal, and the spec wants it.
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    run.writeSpec({ sh: 'exec sleep 1000', onExecutorDeath: 'kill' });
    await run.killExecutor();
    assert.ok(isAlive(run.workload));
    assert.equal((await run.adopt()).status, TOLD.ok);
    assert.equal((await run.exit())['adopted'], '1');
    assert.equal((await run.exit())['signal'], '9');
  });
});

const FREEZER = '/sys/fs/cgroup/freezer';
const canFreeze =
  IS_ROOT && existsSync(join(FREEZER, 'cgroup.procs')) && !existsSync(join(FREEZER, 'freezer.state'));

describe('what does not die', () => {
  const skip = !canFreeze && 'no cgroup v1 freezer that may be used';
  it('G16: is named with its pid, its command and where it waits, until it is gone', { skip }, async () => {
    await using run = await new Run({ sh: 'sleep 1000 & exec sleep 2000' }).started();
    await until('both are there', () => processesOf(run.runId).length === 2);
    const pid = processesOf(run.runId).find((found) => found !== run.workload.pid) ?? 0;
    // A freezer that the executor knows nothing of: the frozen cannot even die.
    const group = join(FREEZER, `holdfast-test-${process.pid}`);
    mkdirSync(group);
    try {
      writeFileSync(join(group, 'cgroup.procs'), String(pid));
      writeFileSync(join(group, 'freezer.state'), 'FROZEN');
      await until('it is frozen', () => readFileSync(join(group, 'freezer.state'), 'utf8') === 'FROZEN\n');
      await run.stop(0, 0);
      const status = await until('it is named', () => run.status()['stuck'] !== undefined && run.status());
      assert.match(status['stuck'] ?? '', new RegExp(`^${pid} \\(sleep\\) in \\S+$`));
      assert.equal(status['stuck_count'], '1');
      assert.equal((await (await run.client()).statusText())['stuck'], status['stuck']);
      writeFileSync(join(group, 'freezer.state'), 'THAWED');
      assert.equal((await run.exit())['result'], 'signaled');
      assert.equal(run.status()['stuck'], undefined);
    } finally {
      writeFileSync(join(group, 'freezer.state'), 'THAWED');
      await until('the group is empty', () => readFileSync(join(group, 'cgroup.procs'), 'utf8') === '');
      rmdirSync(group);
    }
  });
});
