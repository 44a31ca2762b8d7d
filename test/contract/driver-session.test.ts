/** Commands in a running task: what drivers that stand on the executor promise, with cgroups and without. */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { isAgentError } from '../helpers/agent-error.js';
import type { DriverHandle } from '../../src/drivers/driver.js';
import type { ExecResult } from '../../src/drivers/sessions.js';
import type { Session, SessionRequest } from '../../src/executor/session.js';
import { DriverWorld } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const worlds = [await DriverWorld.open(), await DriverWorld.open({ cgroups: false })];

describe('commands in a task', { timeout: 120_000 }, () => {
  for (const world of worlds) suite(world);
});

function suite(world: DriverWorld): void {
  const sleeper = async (): Promise<DriverHandle> => {
    const config = await world.task({
      config: { command: 'sleep', args: ['1000'] },
      env: { PATH: '/usr/bin:/bin', COLOUR: 'red' },
    });
    return world.keep(await world.driver().start(config, world.emit));
  };
  const exec = (handle: DriverHandle, text: string, timeoutMs = 30_000): Promise<ExecResult> => {
    assert.ok(handle.exec !== undefined);
    return handle.exec('sh', ['-c', text], { timeoutMs });
  };
  const open = (handle: DriverHandle, request: SessionRequest): Promise<Session> => {
    assert.ok(handle.openSession !== undefined);
    return handle.openSession(request);
  };
  const end = async (handle: DriverHandle): Promise<void> => {
    await handle.stop({ signal: 15, graceMs: 5_000 });
    await handle.wait();
    await handle.release();
  };

  describe(`with cgroups ${world.deps.cgroups.mode}`, () => {
    after(() => world.close());

    it('gives code and output, both streams as they come', async () => {
      const handle = await sleeper();
      assert.deepEqual(await exec(handle, 'echo $COLOUR; echo oops >&2; cat; exit 43'), {
        exitCode: 43,
        output: 'red\noops\n',
      });
      assert.deepEqual(await exec(handle, 'kill -TERM $$'), { exitCode: 143, signal: 15, output: '' });
      const long = await exec(handle, 'head -c 3000000 /dev/zero | tr "\\0" x; echo the end');
      assert.equal(long.output.length, 16 * 1024);
      assert.match(long.output, /x\nthe end\n$|xthe end\n$/);
      await end(handle);
    });

    it('ends what takes too long, and what is not wanted any more', async () => {
      const handle = await sleeper();
      await assert.rejects(exec(handle, 'trap "" HUP TERM; sleep 900 & wait', 100), isAgentError('timeout'));
      const aborting = new AbortController();
      const work = handle.exec?.('sleep', ['900'], { timeoutMs: 30_000, signal: aborting.signal });
      assert.ok(work !== undefined);
      aborting.abort();
      await assert.rejects(work, isAgentError('cancelled'));
      assert.equal((await handle.usage())?.processes, 1);
      await end(handle);
    });

    it('says why there is no command', async () => {
      const handle = await sleeper();
      await assert.rejects(
        handle.exec?.('no-such-program', [], { timeoutMs: 5_000 }) ?? Promise.resolve(),
        (error: Error) => isAgentError('start_failed')(error) && error.message.includes('no-such-program'),
      );
      await end(handle);
      await assert.rejects(exec(handle, 'true'), isAgentError('not_running'));
    });

    it('ends with the task', async () => {
      const handle = await sleeper();
      const work = assert.rejects(exec(handle, 'sleep 900'), isAgentError('not_running'));
      await end(handle);
      await work;
    });

    it('on a terminal: input, size, several at once, and a reader that takes its time', async () => {
      const handle = await sleeper();
      const seen: string[] = ['', ''];
      const at = (which: number) => ({
        argv: ['sh'],
        terminal: { columns: 90 + which, rows: 30 },
        onOutput: async (stream: string, data: Buffer) => {
          assert.equal(stream, 'stdout');
          // The slowness itself, not a wait for something.
          if (which === 1) await new Promise((resolve) => setTimeout(resolve, 2));
          seen[which] = `${seen[which] ?? ''}${data.toString('latin1')}`;
        },
      });
      const both = [await open(handle, at(0)), await open(handle, at(1))];
      const says = (which: number, what: RegExp): Promise<unknown> =>
        until(`${which} says ${what.source}`, () => what.test(seen[which] ?? ''), { lastSeen: () => seen });
      for (const [which, session] of both.entries()) {
        await session.write(Buffer.from('stty size\n'));
        await says(which, new RegExp(`30 ${90 + which}`));
        session.resize({ columns: 50, rows: 20 });
        await session.write(Buffer.from('stty size; seq 1 3000; echo the "end"; exit 5\n'));
      }
      for (const session of both) {
        assert.deepEqual(await session.ended, { kind: 'exited', code: 5, taskEnded: false });
      }
      for (const which of [0, 1])
        assert.match(seen[which] ?? '', /20 50\r\n1\r\n2\r\n[^]*\r\n3000\r\nthe end\r\n/);
      await end(handle);
    });

    it('on a terminal: Ctrl-D when there is no more input, a hangup when it is to end', async () => {
      const handle = await sleeper();
      let text = '';
      const request = (argv: readonly string[]): SessionRequest => ({
        argv,
        terminal: { columns: 80, rows: 24 },
        onOutput: (_stream, data) => {
          text += data.toString();
          return Promise.resolve();
        },
      });
      const cat = await open(handle, request(['cat']));
      await cat.write(Buffer.from('line\n'));
      await until('cat answers', () => /line\r\nline\r\n/.test(text), { lastSeen: () => text });
      cat.closeInput();
      assert.deepEqual(await cat.ended, { kind: 'exited', code: 0, taskEnded: false });
      const hung = await open(handle, request(['sh', '-c', 'echo up; sleep 900']));
      await until('it is up', () => text.includes('up'), { lastSeen: () => text });
      hung.end();
      const { kind } = await hung.ended;
      assert.equal(kind, 'signaled');
      await cat.write(Buffer.from('into the void'));
      await end(handle);
    });
  });
}
