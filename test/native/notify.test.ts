/** The executor's `notify` command against a real datagram socket. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ServiceManager } from '../helpers/service-manager.js';
import { EXECUTOR } from './harness.js';

async function notify(
  socket: string | undefined,
  say: (input: NodeJS.WritableStream) => void | Promise<void>,
): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const env = socket === undefined ? {} : { NOTIFY_SOCKET: socket };
  const child = spawn(EXECUTOR, ['notify'], { env, stdio: ['pipe', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on('error', () => undefined);
  const closed = once(child, 'close');
  await say(child.stdin);
  child.stdin.end();
  await closed;
  return { code: child.exitCode, stderr };
}

async function inDirectory(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'hf-notify-'));
  try {
    await work(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

for (const kind of ['a path', 'an abstract name']) {
  test(`each message is one datagram, whatever the writes were cut into: ${kind}`, () =>
    inDirectory(async (dir) => {
      const name = kind === 'a path' ? join(dir, 'n') : `@${dir}/n`;
      await using manager = await ServiceManager.listen(name);
      const { code, stderr } = await notify(name, async (input) => {
        input.write('READY=1\nSTATUS=one\0STAT');
        await manager.until('the first', ({ READY }) => READY === '1');
        input.write('US=two\0WATCHDOG=1\0');
      });
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
      await manager.until('the last', ({ WATCHDOG }) => WATCHDOG === '1');
      assert.deepEqual(
        manager.heard.map(({ fields }) => fields),
        [{ READY: '1', STATUS: 'one' }, { STATUS: 'two' }, { WATCHDOG: '1' }],
      );
    }));
}

test('a manager that comes back is told again; each kind of failure is said once', () =>
  inDirectory(async (dir) => {
    const name = join(dir, 'n');
    const { code, stderr } = await notify(name, async (input) => {
      input.write('STATUS=lost\0STATUS=lost\0');
      await using manager = await ServiceManager.listen(name);
      // The first two may still be on their way; the one that counts is said until it is heard.
      const again = setInterval(() => input.write('STATUS=heard\0'), 20);
      await manager
        .until('it is told', ({ STATUS }) => STATUS === 'heard')
        .finally(() => {
          clearInterval(again);
        });
    });
    assert.equal(code, 0);
    assert.ok(stderr.split('No such file').length <= 2, stderr);
  }));

test('without a usable socket name it says so and ends', async () => {
  const long = `/${'x'.repeat(200)}`;
  for (const socket of [undefined, '', 'relative', '@', long]) {
    const { code, stderr } = await notify(socket, () => undefined);
    assert.equal(code, 1, String(socket));
    assert.match(stderr, /^holdfast-executor: NOTIFY_SOCKET: .+\n$/, String(socket));
  }
});

test('signals of a terminal do not end it, its end of file does; a message without end is refused', async () => {
  const name = `@hf-${process.pid}-nobody`;
  const ended = await notify(name, () => undefined);
  assert.deepEqual(ended, { code: 0, stderr: '' });
  const { code, stderr } = await notify(name, (input) => void input.write('x'.repeat(10_000)));
  assert.equal(code, 1);
  assert.match(stderr, /too long/);
});
