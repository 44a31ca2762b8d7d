/** The end of a run: signals, the deadline that the executor keeps by itself, and the end of the whole tree. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat, type ProcessRef } from '../../src/base/host.js';
import { FRAME, REPLY_BIT } from '../../src/executor/protocol.js';
import { until } from '../helpers/until.js';
import { processesOf, Run } from './harness.js';

const ESRCH = 3;
const SIGNAL = { hup: 1, kill: 9, usr1: 10, term: 15, stop: 19 } as const;

/** Processes that the task announced in its log as `pid <n>`. */
function announced(run: Run): ProcessRef[] {
  return [...run.log().matchAll(/^pid (\d+)$/gm)].map((match) => {
    const pid = Number(match[1]);
    return { pid, startTicks: readProcessStat(pid)?.startTicks ?? -1 };
  });
}

/** A tree whose members are hard to find: in a session of its own, orphaned by a double fork, stopped. */
const HARD_TREE = [
  'setsid sh -c \'echo "pid $$"; trap "" TERM HUP; while :; do sleep 1; done\' &',
  '(setsid sh -c \'echo "pid $$"; exec sleep 1000\' &)',
  'sh -c \'echo "pid $$"; kill -STOP $$; sleep 1000\' &',
  'sh -c \'echo "pid $$"; sh -c "echo \\"pid \\$\\$\\"; exec sleep 1000"; :\' &',
].join('\n');

async function grown(run: Run, count: number): Promise<ProcessRef[]> {
  await until(`${count} processes`, () => announced(run).length === count, { lastSeen: () => run.log() });
  const tree = announced(run);
  for (const member of tree) assert.ok(isAlive(member));
  return tree;
}

describe('stop', () => {
  it('a task that obeys ends by its own exit status', async () => {
    await using run = await new Run({
      sh: 'trap "echo bye; exit 3" TERM; echo ready; while :; do sleep 0.01; done',
    }).started();
    await run.logged('ready');
    await run.stop(SIGNAL.term, 60_000);
    const exit = await run.exit();
    assert.deepEqual(
      [exit['result'], exit['code'], exit['stop_signal'], exit['stop_stage']],
      ['exited', '3', '15', 'signal'],
    );
    assert.ok(run.log().endsWith('bye\n'));
  });

  it('G15: a task that ignores it dies at the deadline, with nobody connected', async () => {
    await using run = await new Run({
      sh: 'trap "" TERM; echo ready; while :; do sleep 0.05; done',
    }).started();
    await run.logged('ready');
    const client = await run.client();
    const beforeNs = process.hrtime.bigint();
    await run.stop(SIGNAL.term, 400);
    client.close();
    const exit = await run.exit();
    assert.deepEqual([exit['result'], exit['signal'], exit['stop_stage']], ['signaled', '9', 'kill']);
    assert.equal(exit['leader_oom'], '0');
    const afterMs = Number(BigInt(exit['ended_mono_ns'] ?? 0) - beforeNs) / 1e6;
    assert.ok(afterMs >= 400 && afterMs < 5000, `died after ${afterMs} ms`);
  });

  it('G15: a later stop can only bring the deadline forward', async () => {
    await using run = await new Run({
      sh: 'trap "" TERM; echo ready; while :; do sleep 0.05; done',
    }).started();
    await run.logged('ready');
    await run.stop(SIGNAL.term, 300);
    await run.stop(SIGNAL.term, 3_600_000);
    assert.equal(await run.outcome(), 'signaled 9');
    await using other = await new Run({
      sh: 'trap "" TERM; echo ready; while :; do sleep 0.05; done',
    }).started();
    await other.logged('ready');
    await other.stop(SIGNAL.term, 3_600_000);
    assert.equal(other.status()['state'], 'stopping');
    await other.stop(SIGNAL.term, 50);
    assert.equal(await other.outcome(), 'signaled 9');
  });

  it('signal 0 is SIGKILL at once', async () => {
    await using run = await new Run({ sh: 'trap "" TERM; sleep 1000' }).started();
    await run.stop(0, 3_600_000);
    assert.equal(await run.outcome(), 'signaled 9');
  });

  it('G17: a stopped task gets the signal nevertheless', async () => {
    await using run = await new Run({
      sh: 'trap "exit 5" TERM; echo ready; while :; do sleep 0.01; done',
    }).started();
    await run.logged('ready');
    await (await run.client()).signal(SIGNAL.stop);
    await until('it is stopped', () => readProcessStat(run.workload.pid)?.state === 'T');
    await run.stop(SIGNAL.term, 60_000);
    assert.equal(await run.outcome(), 'exited 5');
  });

  it('G16: nothing of a hard tree survives', async () => {
    await using run = await new Run({
      sh: `${HARD_TREE}\ntrap "" TERM; while :; do sleep 1; done`,
    }).started();
    const tree = await grown(run, 5);
    await run.stop(SIGNAL.term, 100);
    const exit = await run.exit();
    for (const member of tree) assert.ok(!isAlive(member), `pid ${member.pid} is alive`);
    assert.equal(exit['log_complete'], '1');
  });

  it('G16: nothing survives a task whose processes replace themselves all the time', async () => {
    const comet = 'f() { echo x; sleep 0.005; (f &) }; f; f; f; sleep 1000';
    await using run = await new Run({ sh: comet }).started();
    await until('it is under way', () => run.log().length > 200);
    await run.stop(0, 0);
    await run.exit(60_000);
    assert.deepEqual(processesOf(run.runId), []);
  });
});

describe('leftovers', () => {
  it('G18: are killed and counted when the leader ends', async () => {
    await using run = await new Run({ sh: `${HARD_TREE}\nsleep 0.2; exit 6` }).started();
    const tree = await grown(run, 5);
    const exit = await run.exit();
    assert.equal(exit['code'], '6');
    for (const member of tree) assert.ok(!isAlive(member));
    assert.ok(Number(exit['leftovers_killed']) >= 5, `${exit['leftovers_killed']} counted`);
  });

  it('G18: live on when they are to be kept; the log is called incomplete', async () => {
    await using run = await new Run({
      sh: 'sh -c \'echo "pid $$"; exec sleep 1000\' & sleep 0.2; exit 6',
      leftovers: 'keep',
    }).started();
    const [left] = await grown(run, 1);
    const exit = await run.exit();
    assert.deepEqual([exit['code'], exit['leftovers_killed'], exit['log_complete']], ['6', '0', '0']);
    assert.ok(left !== undefined && isAlive(left));
  });

  it('G18: have the time they are given; what ends by itself in it is not killed, and all it says is heard', async () => {
    await using run = await new Run({
      sh: '(setsid sh -c "sleep 0.4; echo bye" &) ; exit 6',
      leftoversMs: 60_000,
    }).started();
    await until('it waits', () => run.status()['state'] === 'stopping');
    const exit = await run.exit();
    assert.deepEqual([exit['code'], exit['leftovers_killed'], exit['log_complete']], ['6', '0', '1']);
    assert.equal(run.log(), 'bye\n');
  });

  it('G18: are killed and counted when their time is over', async () => {
    await using run = await new Run({ sh: `${HARD_TREE}\nsleep 0.2; exit 6`, leftoversMs: 300 }).started();
    const tree = await grown(run, 5);
    const exit = await run.exit();
    for (const member of tree) assert.ok(!isAlive(member));
    assert.ok(Number(exit['leftovers_killed']) >= 5, `${exit['leftovers_killed']} counted`);
    assert.equal(exit['code'], '6');
  });

  it('G18: have no time once a stop was asked for, before the end of the leader or after it', async () => {
    for (const sh of ['sleep 1000 & exit 6', 'trap "exit 6" TERM; sleep 1000 & echo ready; wait']) {
      await using run = await new Run({ sh, leftoversMs: 600_000 }).started();
      if (sh.includes('ready')) await run.logged('ready');
      else await until('it waits', () => run.status()['state'] === 'stopping');
      await run.stop(SIGNAL.term, 600_000);
      const exit = await run.exit();
      assert.deepEqual([exit['code'], exit['leftovers_killed']], ['6', '1']);
    }
  });

  it('that hold no output leave a complete log', async () => {
    await using run = await new Run({
      sh: 'sh -c \'echo "pid $$"; exec sleep 1000 >/dev/null 2>&1\' & sleep 0.2; exit 6',
      leftovers: 'keep',
    }).started();
    await grown(run, 1);
    assert.equal((await run.exit())['log_complete'], '1');
  });

  it('do not survive a stop, even when they are to be kept', async () => {
    await using run = await new Run({
      sh: 'sh -c \'echo "pid $$"; exec sleep 1000\' & exec sleep 1000',
      leftovers: 'keep',
    }).started();
    const [left] = await grown(run, 1);
    await run.stop(SIGNAL.term, 60_000);
    assert.equal(await run.outcome(), 'signaled 15');
    assert.ok(left !== undefined && !isAlive(left));
  });
});

describe('signal', () => {
  it('reaches the leader alone, or the whole tree', async () => {
    await using run = await new Run({
      sh: [
        'sh -c \'trap "echo child" USR1; echo ready; while :; do sleep 0.01; done\' &',
        'trap "echo leader" USR1; echo ready; while :; do sleep 0.01; done',
      ].join('\n'),
    }).started();
    await until('both are ready', () => run.log() === 'ready\nready\n');
    const client = await run.client();
    assert.equal(await client.signal(SIGNAL.usr1), 0);
    await run.logged('leader\n');
    assert.ok(!run.log().includes('child'));
    assert.equal(await client.signal(SIGNAL.usr1, 1), 0);
    await run.logged('child\n');
    await until('the leader again', () => run.log().match(/leader/g)?.length === 2);
  });

  it('a SIGKILL by signal is the result, and no OOM', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    assert.equal(await (await run.client()).signal(SIGNAL.kill), 0);
    assert.equal(await run.outcome(), 'signaled 9');
  });

  it('before the start there is nobody to signal', async () => {
    await using run = await new Run({ gate: true }).started();
    const client = await run.client();
    assert.equal(await client.signal(SIGNAL.hup), ESRCH);
    assert.equal((await client.ask(FRAME.go)).type, FRAME.go | REPLY_BIT);
  });
});
