/** `holdfast-executor enter` alone: a command in a running workload. */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { spawn as spawnPty } from 'node-pty';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { parseCgroupMounts } from '../../src/executor/cgroup-roots.js';
import { bytesMoved, until, untilAtRest } from '../helpers/until.js';
import { EXECUTOR, IS_ROOT, Run, parseLines, processesOf, type Values } from './harness.js';

let sessions = 0;

/** A command in a run, by pipes. */
class Session {
  readonly child: ChildProcess;
  readonly #report: string;
  stdout = '';
  stderr = '';

  /** @param through a program that becomes what its further arguments say */
  constructor(run: Run, argv: readonly string[], through: readonly string[] = []) {
    const id = `t${(sessions += 1)}`;
    this.#report = join(run.dir, `session-${id}`);
    writeFileSync(this.#report, '');
    const [program = EXECUTOR, ...args] = [
      ...through,
      EXECUTOR,
      'enter',
      id,
      'pipes',
      String(process.pid),
      ...argv,
    ];
    this.child = spawn(program, args, {
      cwd: run.dir,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (data: Buffer) => (this.stdout += data.toString()));
    this.child.stderr?.on('data', (data: Buffer) => (this.stderr += data.toString()));
    this.child.stdin?.on('error', () => undefined);
  }

  async end(): Promise<Values> {
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'close');
    return parseLines(readFileSync(this.#report, 'utf8'));
  }

  async says(text: string): Promise<void> {
    await until(`the session says ${text}`, () => this.stdout.includes(text), {
      lastSeen: () => this.stdout + this.stderr,
    });
  }
}

function sh(run: Run, text: string): Session {
  return new Session(run, ['sh', '-c', text]);
}

async function sleeper(): Promise<Run> {
  return await new Run({
    sh: 'exec sleep 1000',
    env: { PATH: '/usr/bin:/bin', COLOUR: 'red' },
    cwd: '/usr',
  }).started();
}

describe('enter', { timeout: 120_000 }, () => {
  it('G32: runs a command with the environment, directory and streams of its own', async () => {
    await using run = await sleeper();
    const session = sh(run, 'echo $COLOUR $PWD; echo oops >&2; cat; exit 43');
    session.child.stdin?.end('typed\n');
    assert.deepEqual(await session.end(), { holdfast_session: '1', result: 'exited', code: '43' });
    assert.equal(session.child.exitCode, 43);
    assert.equal(session.stdout, 'red /usr\ntyped\n');
    assert.equal(session.stderr, 'oops\n');
    assert.ok(isAlive(run.workload));
  });

  it('lets the command open its streams anew', async () => {
    await using run = await sleeper();
    const session = sh(run, 'echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin');
    session.child.stdin?.end('in\n');
    await session.end();
    assert.deepEqual([session.stdout, session.stderr], ['out\nin\n', 'err\n']);
  });

  it('tells a signal from a code', async () => {
    await using run = await sleeper();
    const killed = sh(run, 'kill -9 $$');
    assert.deepEqual(await killed.end(), { holdfast_session: '1', result: 'signaled', signal: '9' });
    assert.equal(killed.child.signalCode, 'SIGKILL');
    assert.deepEqual(await sh(run, 'exit 137').end(), {
      holdfast_session: '1',
      result: 'exited',
      code: '137',
    });
  });

  it('says where it stopped', async () => {
    await using run = await sleeper();
    const none = await new Session(run, ['no-such-program']).end();
    assert.deepEqual([none['result'], none['stage'], none['errno']], ['failed', 'exec', '2']);
    const refused = await new Session(run, ['/etc/passwd']).end();
    assert.deepEqual([refused['stage'], refused['errno']], ['exec', '13']);
  });

  it('joins no process but the one on record', async () => {
    await using run = await sleeper();
    const path = join(run.dir, 'status');
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace(/^pid_start=.*$/m, 'pid_start=1'));
    const end = await sh(run, 'echo wrong').end();
    assert.deepEqual([end['result'], end['stage'], end['errno']], ['failed', 'identity', '3']);
    writeFileSync(path, text);
  });

  it('leaves nothing behind when its command has ended', async () => {
    await using run = await sleeper();
    const session = sh(run, 'setsid sleep 1001 >/dev/null 2>&1 & (sleep 1002 &) ; echo $!');
    await session.end();
    const left = processesOf(run.runId).length;
    assert.equal(left, 0, 'the sleeper has another environment; nothing else may be there');
    assert.equal(readProcessStat(Number(session.stdout)), undefined);
  });

  it('gives all output to a slow reader, and the end after it', async () => {
    await using run = await sleeper();
    const session = sh(run, 'head -c 3000000 /dev/zero; echo the end');
    session.child.stdout?.pause();
    await untilAtRest('what it passes on', () => bytesMoved(session.child.pid ?? 0));
    assert.equal(session.child.exitCode, null);
    session.child.stdout?.resume();
    await session.end();
    assert.equal(session.stdout.length, 3_000_000 + 'the end\n'.length);
  });

  it('G32: ends with its workload', async () => {
    await using run = await sleeper();
    const session = sh(run, 'trap "" TERM HUP; echo $$; sleep 1000');
    await session.says('\n');
    const pid = Number(session.stdout);
    await run.stop(15, 0);
    const end = await session.end();
    assert.equal(end['ended_by'], 'task');
    assert.equal(readProcessStat(pid), undefined);
    await run.exit();
  });

  it('ends when asked: a hangup, then SIGKILL to all of it', async () => {
    await using run = await sleeper();
    const polite = sh(run, 'trap "echo bye; exit 7" HUP; echo up; while :; do sleep 0.05; done');
    await polite.says('up');
    polite.child.kill('SIGTERM');
    assert.equal((await polite.end())['code'], '7');
    assert.match(polite.stdout, /bye/);
    const rude = sh(run, 'trap "" HUP TERM; sleep 1003 & echo $!; wait');
    await rude.says('\n');
    rude.child.kill('SIGTERM');
    assert.equal((await rude.end())['signal'], '9');
    assert.equal(readProcessStat(Number(rude.stdout)), undefined);
    assert.ok(isAlive(run.workload));
  });

  it('is no executor in the eyes of whoever looks for one', async () => {
    await using run = await sleeper();
    const session = sh(run, 'echo up; sleep 1000');
    await session.says('up');
    const command = readFileSync(`/proc/${session.child.pid ?? 0}/cmdline`, 'latin1');
    assert.equal(command.replaceAll('\0', ''), 'holdfast-executor: session');
    session.child.kill('SIGTERM');
    await session.end();
  });

  it('takes the user and the limits of the workload', { skip: !IS_ROOT && 'needs root' }, async () => {
    await using run = new Run({ sh: 'ulimit -n 77; exec sleep 1000', user: 'nobody' });
    await run.started();
    await until('the workload has its limit', () =>
      readFileSync(`/proc/${run.workload.pid}/limits`, 'utf8').includes(' 77 '),
    );
    const session = sh(run, 'id -un; ulimit -n; echo again > /dev/stdout');
    await session.end();
    assert.equal(session.stdout, 'nobody\n77\nagain\n');
  });

  it(
    'is in the cgroup of the workload, in a group of its own',
    { skip: !IS_ROOT && 'needs root' },
    async () => {
      const { unified } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
      if (unified === undefined) return;
      const mark = process.env['HOLDFAST_TEST_RUN'] ?? 'holdfast-test';
      const cgroup = join(unified, `${mark}-enter-${process.pid}`);
      const killed = `${cgroup}-killed`;
      mkdirSync(cgroup);
      try {
        await using run = await new Run({ sh: 'exec sleep 1000', cgroup }).started();
        const session = sh(run, 'cat /proc/self/cgroup; setsid sleep 1004 & echo up; sleep 1000');
        await session.says('up');
        assert.match(session.stdout, new RegExp(`^0::/${mark}-enter-${process.pid}/session-t\\d+$`, 'm'));
        session.child.kill('SIGTERM');
        await session.end();
        assert.deepEqual(readFileSync(join(cgroup, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean), [
          String(run.workload.pid),
        ]);
        // Who has been in a group that was killed can have no child born in one that was not: the kernel kills it.
        mkdirSync(killed);
        writeFileSync(join(killed, 'cgroup.kill'), '1');
        const through = ['sh', '-c', `echo 0 >${killed}/cgroup.procs && exec "$@"`, 'sh'];
        const marked = new Session(run, ['sh', '-c', 'cat /proc/self/cgroup; exit 7'], through);
        assert.deepEqual(await marked.end(), { holdfast_session: '1', result: 'exited', code: '7' });
        assert.match(marked.stdout, new RegExp(`^0::/${mark}-enter-${process.pid}/session-t\\d+$`, 'm'));
        const held = sh(run, 'echo up; sleep 1000');
        await held.says('up');
        writeFileSync(join(cgroup, 'cgroup.kill'), '1');
        assert.equal((await held.end())['ended_by'], 'task');
        await run.exit();
      } finally {
        for (const dir of [killed, cgroup])
          await until('the cgroup can be removed', () => {
            try {
              rmdirSync(dir);
            } catch {
              return !existsSync(dir);
            }
            return true;
          });
      }
    },
  );

  it('G32: on a terminal: size, control keys, and its end with the terminal', async () => {
    await using run = await sleeper();
    writeFileSync(join(run.dir, 'session-tty'), '');
    const args = ['enter', 'tty', 'tty', String(process.pid), 'sh'];
    const pty = spawnPty(EXECUTOR, args, { cwd: run.dir, cols: 100, rows: 40 });
    let text = '';
    pty.onData((data) => (text += data));
    const ended = new Promise<{ exitCode: number; signal?: number | undefined }>((resolve) =>
      pty.onExit(resolve),
    );
    const says = (what: RegExp): Promise<unknown> =>
      until(`the terminal says ${what.source}`, () => what.test(text), { lastSeen: () => text });
    pty.write('stty size; tty; echo TERM=$TERM; ps -o stat= -p $$\n');
    await says(/40 100\r\n\/dev\/pts\/\d+\r\nTERM=xterm\r\n/);
    // It says so itself: the echo of the terminal comes before the shell has read the line, and ^C would take it away.
    pty.write('sh -c "echo up; exec sleep 1005"\n');
    await says(/[\n ]up\r\n/);
    pty.write('\x03');
    pty.write('echo after $?\n');
    await says(/after 130/);
    pty.resize(55, 22);
    pty.write('stty size; sleep 1006 & exit 9\n');
    // Before the last one that holds the terminal leaves, it waits until all was read.
    await says(/22 55\r\n[^]*\x1b\]holdfast;tty\x07/);
    process.kill(pty.pid, 'SIGUSR1');
    assert.equal((await ended).exitCode, 9);
    assert.equal(processesOf(run.runId).length, 0);
  });
});
