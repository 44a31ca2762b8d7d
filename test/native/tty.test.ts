/** A terminal of the task's own: what the task sees of it, what becomes of its output, and who survives whom. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat, type ProcessRef } from '../../src/base/host.js';
import { until } from '../helpers/until.js';
import { IS_ROOT, processesOf, Run, TOLD } from './harness.js';
import { Held } from './hold.js';

const SIZE = { columns: 80, rows: 24 };
const SIGKILL = 9;
const SIGTERM = 15;
const NO_STRACE = IS_ROOT && spawnSync('strace', ['-V']).status === 0 ? false : 'needs root and strace';

/** The process that holds the other end of the task's terminal. */
function holderOf(run: Run): ProcessRef {
  const { tty_pid, tty_start } = run.status();
  return { pid: Number(tty_pid), startTicks: Number(tty_start) };
}

function tty(sh: string, size = SIZE): Run {
  return new Run({ sh, terminal: size });
}

async function isGone(ref: ProcessRef): Promise<void> {
  await until('the holder is gone', () => !isAlive(ref));
}

describe('a terminal of the task', () => {
  it('is its standard input and output, controls it, and has the size that was asked for', async () => {
    const script = [
      'for fd in 0 1 2; do test -t $fd || echo "$fd is none"; done',
      'stty size; stty size </dev/tty; echo err >&2; echo direct >/dev/tty',
      'tty; ps -o tpgid= -p $$; echo $$',
    ].join('; ');
    await using run = await tty(script, { columns: 132, rows: 43 }).started();
    const exit = await run.exit();
    const lines = run.log().split('\n');
    assert.deepEqual(lines.slice(0, 4), ['43 132', '43 132', 'err', 'direct']);
    assert.match(lines[4] ?? '', /^\/dev\/pts\/\d+$/);
    assert.equal(lines[5]?.trim(), lines[6], 'the task is in the foreground of its terminal');
    assert.equal(run.log('stderr'), '');
    assert.deepEqual(
      [exit['code'], exit['log_complete'], exit['stderr_bytes'], exit['stdout_bytes']],
      ['0', '1', '0', String(run.log().length)],
    );
  });

  it('interrupts who is in its foreground, when it is told Ctrl-C', async () => {
    // TIOCSTI is forbidden on many hosts: the signal that the terminal would send, to the group it would send it to.
    const script =
      'sh -c \'trap "echo interrupted; exit 7" INT; echo ready; while :; do sleep 0.05; done\'; exit $?';
    await using run = await tty(script).started();
    await run.logged('ready');
    const foreground = Number(
      readFileSync(`/proc/${run.workload.pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[5],
    );
    assert.equal(foreground, run.workload.pid);
    process.kill(-foreground, 'SIGINT');
    const exit = await run.exit();
    assert.match(run.log(), /interrupted/);
    assert.ok(exit['signal'] === '2' || exit['code'] === '7', JSON.stringify(exit));
  });

  it('adds nothing to what the task writes', async () => {
    await using run = await tty('printf "a\\nb\\r\\nc\\tno end"').started();
    await run.exit();
    assert.equal(run.log(), 'a\nb\r\nc\tno end');
  });

  it('loses nothing of a task that writes 1 MB and exits, thirty times', async () => {
    for (let round = 0; round < 30; round++) {
      await using run = await tty('head -c 1000000 /dev/zero | tr "\\0" x').started();
      const exit = await run.exit();
      assert.deepEqual(
        [exit['log_complete'], exit['stdout_bytes'], exit['stdout_dropped']],
        ['1', '1000000', '0'],
        `round ${round}`,
      );
    }
  });

  it(
    'loses nothing of a task that is over before its holder has come to hold',
    { skip: NO_STRACE },
    async () => {
      await using run = tty('echo one; echo two');
      // Without -f: of the two, it is the holder.
      const slowly = [
        'strace',
        '-qq',
        '-o',
        join(run.root, 'trace'),
        '-e',
        'inject=prctl:delay_enter=500000',
      ];
      using held = new Held(run, slowly);
      await held.go();
      assert.equal((await run.exit())['log_complete'], '1');
      assert.equal(run.log(), 'one\ntwo\n');
    },
  );

  it('leaves no process, and works without a log', async () => {
    await using run = await new Run({
      sh: 'stty size; sleep 0.1; exit 3',
      terminal: SIZE,
      log: 'none',
    }).started();
    const holder = holderOf(run);
    const exit = await run.exit();
    assert.deepEqual([exit['code'], exit['log_complete']], ['3', '1']);
    await isGone(holder);
  });

  it('is not the business of its holder to look like an executor', async () => {
    await using run = await tty('sleep 60').started();
    const { pid } = holderOf(run);
    // It is on its own way when the executor is ready.
    await until('it has its name', () => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'holdfast-tty\n');
    assert.equal(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ''), 'holdfast-tty: main');
    assert.ok(!processesOf(run.runId).includes(pid));
    // Nobody but root may look into it: it is not dumpable.
    if (IS_ROOT) {
      const open = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
      assert.ok(!open.some((path) => path.endsWith('/lock')), open.join(' '));
    }
    // The executor is not in the terminal's session: the death of a task's last link to it would hang up on it.
    const [, , , session] =
      readFileSync(`/proc/${run.executor.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    assert.equal(session, String(run.executor.pid));
    await run.stop(SIGTERM, 5000);
    assert.equal(await run.outcome(), 'signaled 15');
    await isGone({ pid, startTicks: holderOf(run).startTicks });
  });

  it('is refused when its size is none', async () => {
    await using run = new Run({ sh: 'true', terminal: { columns: 0, rows: 24 } });
    const { status, stderr } = await run.start();
    assert.equal(status, TOLD.noSetup);
    assert.match(stderr, /a terminal has columns and rows/);
  });

  it('is told of when the program is not there', async () => {
    await using run = new Run({ argv: ['/nowhere'], path: '/nowhere', terminal: SIZE });
    assert.equal((await run.start()).status, TOLD.startFailed);
    assert.equal(await run.outcome(), 'start_failed exec 2');
  });
});

describe('the end of a task with a terminal', () => {
  it('by force takes all that it started', async () => {
    await using run = await tty('trap "" TERM HUP INT; sleep 61 & sleep 62').started();
    const holder = holderOf(run);
    await run.stop(SIGTERM, 200);
    assert.equal(await run.outcome(), 'signaled 9');
    assert.deepEqual(processesOf(run.runId), []);
    await isGone(holder);
  });

  it('leaves what is to be kept, which then has no terminal', async () => {
    await using run = await new Run({
      sh: 'trap "" HUP; (while :; do sleep 0.1; done) & echo kept',
      terminal: SIZE,
      leftovers: 'keep',
    }).started();
    const holder = holderOf(run);
    const exit = await run.exit();
    assert.deepEqual([exit['code'], run.log()], ['0', 'kept\n']);
    await isGone(holder);
    assert.notDeepEqual(processesOf(run.runId), []);
  });

  it('hangs up on the task when the holder is killed, and says that output may be lost', async () => {
    await using run = await tty('sleep 60').started();
    process.kill(holderOf(run).pid, 'SIGKILL');
    const exit = await run.exit();
    assert.deepEqual([exit['result'], exit['signal'], exit['log_complete']], ['signaled', '1', '0']);
  });
});

describe('a terminal when the executor is killed', () => {
  const chatty = 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo "line $i"; done; read -r never';

  it('goes on: the next executor misses no byte', async () => {
    await using run = await tty(chatty).started();
    await run.logged('line 20\n');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    await run.logged('line 2000\n');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    const holder = holderOf(run);
    await run.stop(SIGTERM, 2000);
    const exit = await run.exit();
    const expected = Array.from({ length: 2000 }, (_, i) => `line ${i + 1}\n`).join('');
    assert.equal(run.log(), expected);
    assert.deepEqual([exit['adopted'], exit['log_complete']], ['1', '1']);
    await isGone(holder);
  });

  it('does not hang up on a task that is stopped just then', async () => {
    await using run = await tty('echo ready; while :; do sleep 0.05; done').started();
    await run.logged('ready');
    process.kill(run.workload.pid, 'SIGSTOP');
    await until('it stands', () => readProcessStat(run.workload.pid)?.state === 'T');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    assert.ok(isAlive(run.workload));
    process.kill(run.workload.pid, 'SIGCONT');
    await run.stop(0, 0);
    assert.equal((await run.exit())['signal'], String(SIGKILL));
  });

  it('ends with the task when nobody takes over', async () => {
    await using run = await tty('echo ready; read -r never').started();
    await run.logged('ready');
    const holder = holderOf(run);
    await run.killExecutor();
    process.kill(run.workload.pid, 'SIGKILL');
    await isGone(holder);
  });

  it('belongs to the whole tree: one that takes over finds the background jobs, and not the holder', async () => {
    await using run = await tty('sh -ic "sleep 61 & echo started; wait"; echo never').started();
    await run.logged('started');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    await run.stop(0, 0);
    const exit = await run.exit();
    assert.deepEqual([exit['signal'], exit['log_complete']], ['9', '1']);
    assert.deepEqual(processesOf(run.runId), []);
  });
});
