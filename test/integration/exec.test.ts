/** `holdfast exec` and its websocket, against a real agent: what people type, what programs send, and what goes wrong. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { readdirSync, readlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { after, before, describe, it } from 'node:test';
import { spawn as spawnPty } from 'node-pty';
import WebSocket from 'ws';
import type { AllocResourceUsage, AllocUsageHistory, ExecInput, ExecOutput } from '../../src/api/wire.js';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { RealAgent, type Said } from '../helpers/real-agent.js';
import { bytesMoved, until, untilAtRest } from '../helpers/until.js';

const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

const JOB = {
  ID: 'box',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'g',
      Tasks: [
        {
          Name: 'main',
          Driver: 'raw_exec',
          Config: { command: 'sleep', args: ['1000'] },
          Env: { COLOUR: 'red' },
        },
        { Name: 'side', Driver: 'raw_exec', Config: { command: 'sleep', args: ['1000'] } },
        { Name: 'mock', Driver: 'mock_driver', Config: { run_for: '1000s' } },
      ],
    },
  ],
};

/** One websocket, and all that it said. */
class Peer {
  readonly socket: WebSocket;
  readonly messages: ExecOutput[] = [];
  closed: { readonly code: number; readonly reason: string } | undefined;

  constructor(agent: RealAgent, allocId: string, query: Readonly<Record<string, string>>) {
    const path = `/v1/client/allocation/${allocId}/exec?${new URLSearchParams(query).toString()}`;
    this.socket = new WebSocket(`ws://localhost${path}`, { createConnection: () => connect(agent.socket) });
    this.socket.on('message', (data: Buffer) =>
      this.messages.push(JSON.parse(data.toString()) as ExecOutput),
    );
    this.socket.on('error', () => undefined);
    this.socket.on('close', (code, reason) => (this.closed = { code, reason: reason.toString() }));
  }

  text(stream: 'stdout' | 'stderr' = 'stdout'): string {
    return this.messages.map((each) => Buffer.from(each[stream]?.data ?? '', 'base64').toString()).join('');
  }

  async send(...inputs: readonly ExecInput[]): Promise<void> {
    if (this.socket.readyState === WebSocket.CONNECTING) await once(this.socket, 'open');
    for (const input of inputs) this.socket.send(JSON.stringify(input));
  }

  async says(what: RegExp): Promise<void> {
    await until(`it says ${what.source}`, () => what.test(this.text()), { lastSeen: () => this.messages });
  }

  async end(): Promise<{ readonly code: number; readonly reason: string }> {
    return await until('the socket is closed', () => this.closed, { lastSeen: () => this.messages });
  }
}

function data(text: string): ExecInput {
  return { stdin: { data: Buffer.from(text).toString('base64') } };
}

describe('exec', { timeout: 180_000 }, () => {
  let agent: RealAgent;
  let allocId = '';

  before(async () => {
    agent = await RealAgent.start();
    await agent.register(JOB);
    const tasks = await agent.untilTasks(
      'box',
      'all run',
      (all) => all.length === 3 && all.every(({ state }) => state.State === 'running'),
    );
    allocId = tasks[0]?.allocId ?? '';
  });
  after(async () => {
    await agent.close();
  });

  const sh = (text: string, more: Readonly<Record<string, string>> = {}): Peer =>
    new Peer(agent, allocId, { task: 'main', command: JSON.stringify(['sh', '-c', text]), ...more });

  describe('as a websocket', () => {
    it('speaks as Nomad does', async () => {
      const peer = sh('echo $COLOUR; echo oops >&2; cat; exit 43');
      await peer.send({}, data('typed\n'), { stdin: { close: true } });
      assert.equal((await peer.end()).code, 1000);
      assert.equal(peer.text(), 'red\ntyped\n');
      assert.equal(peer.text('stderr'), 'oops\n');
      const [stdoutClose, stderrClose, exit] = peer.messages.slice(-3);
      assert.deepEqual(stdoutClose, { stdout: { close: true } });
      assert.deepEqual(stderrClose, { stderr: { close: true } });
      assert.deepEqual(exit, { exited: true, result: { exit_code: 43 } });
    });

    it('has terminals with a size', async () => {
      const peer = new Peer(agent, allocId, { task: 'main', command: '["sh"]', tty: 'true' });
      await peer.send({ tty_size: { height: 33, width: 99 } }, data('stty size\n'));
      await peer.says(/33 99\r\n/);
      await peer.send({ tty_size: { height: 44, width: 88 } }, data('stty size; exit 3\n'));
      assert.equal((await peer.end()).code, 1000);
      assert.match(peer.text(), /44 88\r\n/);
      assert.doesNotMatch(peer.text(), /holdfast;/);
      assert.deepEqual(peer.messages.at(-1), { exited: true, result: { exit_code: 3 } });
    });

    it('tells signals, and commands that are not there, as a shell does', async () => {
      const killed = sh('kill -9 $$');
      await killed.end();
      assert.deepEqual(killed.messages.at(-1), { exited: true, result: { exit_code: 137, signal: 9 } });
      const none = new Peer(agent, allocId, { task: 'main', command: '["no-such-program"]' });
      await none.end();
      assert.match(none.text('stderr'), /(no program|cannot run) "no-such-program"/);
      assert.deepEqual(none.messages.at(-1), { exited: true, result: { exit_code: 127 } });
    });

    it('refuses in words', async () => {
      const table: readonly (readonly [Record<string, string>, string, RegExp])[] = [
        [{ task: 'main' }, 'bad_request', /command: a JSON list/],
        [{ task: 'main', command: '[]' }, 'bad_request', /command: a JSON list/],
        [{ task: 'main', command: '["a\\u0000b"]' }, 'bad_request', /command: a JSON list/],
        [{ command: '["true"]' }, 'bad_request', /choose one of/],
        [{ task: 'nobody', command: '["true"]' }, 'not_found', /has no task "nobody"/],
        [{ task: 'mock', command: '["true"]' }, 'bad_request', /mock_driver cannot run commands/],
      ];
      for (const [query, code, reason] of table) {
        const peer = new Peer(agent, allocId, query);
        const end = await peer.end();
        assert.equal(end.code, 1008);
        assert.match(end.reason, reason);
        assert.equal(peer.messages.at(-1)?.error?.Code, code);
      }
      const missing = await new Peer(agent, '00000000-0000-0000-0000-000000000000', {
        command: '["true"]',
      }).end();
      assert.equal(missing.code, 1008);
    });

    it('ends a session whose caller talks rubbish', async () => {
      for (const text of ['no json', '{"stdin":{"data":7}}', '{"tty_size":{"height":0,"width":5}}']) {
        const peer = sh('sleep 900');
        await peer.send({});
        peer.socket.send(text);
        assert.equal((await peer.end()).code, 1008);
      }
      const large = sh('sleep 900');
      await large.send(data('x'.repeat(3 * 1024 * 1024)));
      assert.equal((await large.end()).code, 1009);
    });

    it('ends what it began when the caller goes away', async () => {
      const peer = sh('trap "" HUP TERM; sleep 901 & echo $$ $!; wait');
      await peer.says(/\d+ \d+\n/);
      const pids = peer.text().trim().split(' ').map(Number);
      peer.socket.terminate();
      await until('its processes are gone', () => pids.every((pid) => readProcessStat(pid) === undefined));
    });

    it('holds both ends up when the other is slow, and loses nothing', async () => {
      const peer = sh('head -c 20000000 /dev/zero | tr "\\0" x; read line; echo "$line"');
      await peer.send({});
      peer.socket.pause();
      await untilAtRest('what the agent passes on', () => bytesMoved(agent.pid));
      const resident = Number(/VmRSS:\s+(\d+)/.exec(await readProc(agent.pid))?.[1]);
      assert.ok(resident < 400_000, `the agent holds ${resident} KiB`);
      peer.socket.resume();
      await peer.send(data('the end\n'));
      await peer.end();
      assert.equal(peer.text().length, 20_000_000 + 'the end\n'.length);

      const deaf = sh('sleep 2; wc -c');
      const chunk = data('y'.repeat(60_000));
      for (let i = 0; i < 100; i += 1) await deaf.send(chunk);
      await deaf.send({ stdin: { close: true } });
      await deaf.end();
      assert.equal(deaf.text().trim(), '6000000');
    });

    it('is on record: who, what', async () => {
      const peer = sh('exit 0 # for the record');
      await peer.end();
      const said = (await agent.events('box')).filter(({ Type }) => Type === 'Exec').at(-1);
      assert.deepEqual(said?.Details, { command: 'sh -c exit 0 # for the record', by: 'the unix socket' });
      assert.match(agent.log(), /a session has begun/);
    });

    it('is counted with its task', async () => {
      const peer = sh('echo up; sleep 902');
      await peer.says(/up/);
      const stats = (await agent.get(`/v1/client/allocation/${allocId}/stats`)) as AllocResourceUsage;
      const main = stats.Tasks['main']?.Holdfast;
      assert.ok(main !== undefined && main.Processes >= 2);
      // The first question has an answer, where somebody counts for a task that is young.
      if (main.Source === 'cgroup') assert.equal(typeof main.CPUPercent, 'number');
      const kept = await until(
        'a sample is kept',
        async () => {
          const past = (await agent.get(`/v1/holdfast/allocation/${allocId}/usage`)) as AllocUsageHistory;
          return past.Tasks['main']?.at(-1);
        },
        { timeoutMs: 30_000, everyMs: 500 },
      );
      assert.ok(kept.Holdfast.MemoryBytes > 0);
      peer.socket.terminate();
    });
  });

  describe('in a task of the driver exec', () => {
    const skip = process.getuid?.() !== 0 && 'a root of its own needs root';

    it('is as isolated as the task itself', { skip }, async () => {
      await agent.register({
        ID: 'iso',
        Type: 'service',
        TaskGroups: [
          {
            Name: 'g',
            Tasks: [{ Name: 'main', Driver: 'exec', Config: { command: '/bin/sleep', args: ['1000'] } }],
          },
        ],
      });
      const [task] = await agent.untilTasks('iso', 'runs', (all) =>
        all.some(({ state }) => state.State === 'running'),
      );
      const { workload } = agent.processesOfRun(
        (await agent.runs(task?.allocId ?? '', 'main'))[0]?.RunID ?? '',
      );
      const said = await agent.cli([
        'exec',
        'iso',
        '--',
        'sh',
        '-c',
        'grep -E "^(Uid|Gid|Groups|Cap|NoNew|Seccomp:)" /proc/self/status; readlink /proc/self/ns/*',
      ]);
      assert.equal(said.code, 0, said.stderr);
      const theirs = (await readProc(workload.pid))
        .split('\n')
        .filter((line) => /^(Uid|Gid|Groups|Cap|NoNew|Seccomp:)/.test(line));
      const spaces = readdirSync(`/proc/${workload.pid}/ns`).map((name) =>
        readlinkSync(`/proc/${workload.pid}/ns/${name}`),
      );
      const lines = said.stdout.trim().split('\n');
      const trimmed = (all: readonly string[]): string[] => all.map((line) => line.trim()).sort();
      assert.deepEqual(trimmed(lines), trimmed([...theirs, ...spaces]));
      const refused = await agent.cli(['exec', 'iso', '--', 'sh', '-c', 'echo $$ > /etc/x']);
      assert.notEqual(refused.code, 0);
      await agent.request('DELETE', '/v1/job/iso?purge=true');
    });
  });

  describe('as a command', () => {
    const exec = (...args: string[]): Promise<Said> => agent.cli(['exec', ...args]);

    it('gives the code, the streams, the input', async () => {
      assert.deepEqual(
        await exec('--task', 'main', 'box', '--', 'sh', '-c', 'echo $COLOUR; echo no >&2; exit 7'),
        {
          code: 7,
          stdout: 'red\n',
          stderr: 'no\n',
        },
      );
      const child = spawn(process.execPath, [CLI, 'exec', '-i', 'box/g/main', '--', 'wc', '-c'], {
        env: agent.env,
      });
      let stdout = '';
      child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
      child.stdin.end('x'.repeat(3_000_000));
      await once(child, 'close');
      assert.deepEqual([child.exitCode, stdout.trim()], [0, '3000000']);
      assert.equal((await exec(`${allocId.slice(0, 8)}/main`, '--', 'sh', '-c', 'kill -TERM $$')).code, 143);
    });

    it('says what is wrong, and ends with the code for it', async () => {
      const table: readonly (readonly [readonly string[], number, RegExp])[] = [
        [['box', '--', 'true'], 2, /has 3 running tasks: name one of [0-9a-f]{8}\/main, /],
        [['box/g/main'], 2, /give COMMAND: /],
        [['nothing', '--', 'true'], 4, /no job or alloc "nothing"/],
        [['--task', 'nobody', 'box', '--', 'true'], 4, /has no task "nobody"/],
        [['box/g/mock', '--', 'true'], 2, /mock_driver cannot run commands/],
        [['box/g/main', '--', 'no-such-program'], 127, /(no program|cannot run) "no-such-program"/],
      ];
      for (const [args, code, said] of table) {
        const ended = await exec(...args);
        assert.match(ended.stderr, said);
        assert.equal(ended.code, code, args.join(' '));
      }
    });

    it('on a terminal: raw, resized, and put back; also when the daemon is killed in the middle', async () => {
      // A shell around it, so that the terminal itself can be asked afterwards.
      const script = `stty -a | grep -o -- '-\\?icanon'; "$NODE" "$CLI" exec box/g/main -- sh; echo "code $?"; stty -a | grep -o -- '-\\?icanon'; echo done`;
      const pty = spawnPty('/bin/sh', ['-c', script], {
        cols: 80,
        rows: 24,
        env: { ...(agent.env as Record<string, string>), NODE: process.execPath, CLI, TERM: 'xterm' },
      });
      let text = '';
      pty.onData((chunk) => (text += chunk));
      const says = (what: RegExp): Promise<unknown> =>
        until(`the terminal says ${what.source}`, () => what.test(text), {
          timeoutMs: 30_000,
          lastSeen: () => text,
        });
      await says(/icanon\r\n[^]*[$#] $/);
      pty.write('stty size\r');
      await says(/24 80/);
      pty.resize(70, 20);
      await until(
        'the size has changed',
        () => {
          pty.write('stty size\r');
          return /20 70/.test(text);
        },
        { everyMs: 200 },
      );
      pty.write('sleep 903\r');
      await says(/sleep 903\r\n/);
      pty.write('\x03');
      pty.write('echo code was $?\r');
      await says(/code was 130/);
      pty.write('echo $$; tty\r');
      await says(/(\d+)\r\n\/dev\/pts\/\d+/);
      const shell = Number(/(\d+)\r\n\/dev\/pts\/\d+/.exec(text)?.[1]);
      await agent.kill();
      await says(/code 5\r\nicanon\r\ndone/);
      assert.match(text, /lost the daemon .* tasks keep running/);
      await until('the session ended with its agent', () => readProcessStat(shell) === undefined);
      await agent.start();
      const [run] = await agent.runs(allocId, 'main');
      assert.ok(run !== undefined && isAlive(agent.processesOfRun(run.RunID).workload), 'the task goes on');
    });

    it('ends with its task, and says so', async () => {
      const child = spawn(
        process.execPath,
        [CLI, 'exec', 'box/g/side', '--', 'sh', '-c', 'echo up; sleep 904'],
        {
          env: agent.env,
        },
      );
      let said = '';
      child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
      child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
      await until('it is up', () => said.includes('up'), { lastSeen: () => said });
      await agent.request('PUT', `/v1/client/allocation/${allocId}/restart`, { TaskName: 'side' });
      await once(child, 'close');
      assert.equal(child.exitCode, 3);
      assert.match(said, /the task has ended, and the session with it/);
    });
  });
});

async function readProc(pid: number): Promise<string> {
  const { readFile } = await import('node:fs/promises');
  return await readFile(`/proc/${pid}/status`, 'utf8');
}
