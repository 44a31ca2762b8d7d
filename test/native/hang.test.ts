/** A log disk that does not answer holds up the executor's writer, and nothing else. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { FRAME, REPLY_BIT } from '../../src/executor/protocol.js';
import { canHaveHangingDisk, HangingDisk, hangs } from '../helpers/hanging-disk.js';
import { until } from '../helpers/until.js';
import { Run, TOLD } from './harness.js';

const SIGNAL = { term: 15 } as const;
/** A disk is waited for for a second, and that is found out within another. */
const LONGEST_WAIT_MS = 4000;
/** What the writer may have in its hands. */
const CHUNK_BYTES = 65_536;

/** Checks that all of `text` is in a log but what the one gap in it says is missing. The marker begins a line of its own. @returns what is missing */
function gapOf(log: string, text: string): number {
  const [, kept = '', count] =
    /^first\n([^[]*)\[holdfast: (\d+) bytes dropped: the disk did not answer\]\n/.exec(log) ?? [];
  const dropped = Number(count);
  const written = text.slice(0, text.length - dropped);
  assert.ok(kept === written || kept === `${written}\n`, `${kept.length} and ${count} of ${text.length}`);
  return dropped;
}

describe('a log disk that does not answer', { timeout: 120_000 }, () => {
  const skip = !canHaveHangingDisk() && 'needs root, loop devices, mkfs.ext4 and fsfreeze';
  const waitFor = (file: string): string => `while [ ! -e ${file} ]; do sleep 0.01; done`;
  const numbers = Array.from({ length: 60_000 }, (_, at) => `${at + 1}\n`).join('');

  it(
    'G30: holds up neither the task nor an answer; what was dropped is counted, and said once it answers',
    { skip },
    async () => {
      await using base = new Run();
      await using disk = new HangingDisk(join(base.root, 'image'), join(base.root, 'disk'));
      await using run = new Run(
        {
          cwd: base.root,
          sh: `echo first; ${waitFor('one')}; seq 1 60000; echo no >&2; : > written; ${waitFor('two')}; echo last; exit 9`,
        },
        base.root,
        disk.dir,
      );
      await run.started();
      await until('the first line is there', () => run.log() === 'first\n');
      const client = await run.client();
      disk.freeze();
      writeFileSync(join(base.root, 'one'), '');
      const fromMs = performance.now();
      await until('the task has written all', () => existsSync(join(base.root, 'written')));
      assert.ok(performance.now() - fromMs < LONGEST_WAIT_MS, 'it was held up');
      const wrote = 'first\n'.length + numbers.length;
      const status = await until('all was taken', async () => {
        const text = await client.statusText();
        return Number(text['stdout_bytes']) === wrote && Number(text['stderr_dropped']) === 3
          ? text
          : undefined;
      });
      assert.ok(hangs(run.executor.pid), 'the disk does not hang');
      assert.ok(Number(status['stdout_dropped']) >= numbers.length - CHUNK_BYTES);
      disk.thaw();
      await run.logged('bytes dropped');
      writeFileSync(join(base.root, 'two'), '');
      const exit = await run.exit();
      assert.deepEqual([exit['code'], exit['log_complete']], ['9', '1']);
      assert.equal(Number(exit['stdout_bytes']), wrote + 'last\n'.length);
      assert.ok(run.log().endsWith(']\nlast\n'));
      assert.equal(gapOf(run.log(), numbers), Number(exit['stdout_dropped']));
      assert.equal(run.log('stderr'), '[holdfast: 3 bytes dropped: the disk did not answer]\n');
    },
  );

  it('G30: what a quiet task writes meanwhile is kept, also what it says last', { skip }, async () => {
    await using base = new Run();
    await using disk = new HangingDisk(join(base.root, 'image'), join(base.root, 'disk'));
    await using run = new Run(
      {
        cwd: base.root,
        sh: `echo first; ${waitFor('one')}; for n in $(seq 1 40); do echo $n; sleep 0.1; done; : > written; echo last`,
      },
      base.root,
      disk.dir,
    );
    await run.started();
    await until('the first line is there', () => run.log() === 'first\n');
    disk.freeze();
    writeFileSync(join(base.root, 'one'), '');
    await until('the task has written all', () => existsSync(join(base.root, 'written')));
    assert.ok(hangs(run.executor.pid), 'the disk does not hang');
    // It has ended, and the disk does not answer for longer than one that drops would be given.
    await until('it has ended', () => !isAlive(run.workload));
    const endedMs = performance.now();
    await until('a while has passed', () => performance.now() - endedMs > 3_000);
    disk.thaw();
    const exit = await run.exit();
    assert.deepEqual([exit['code'], exit['stdout_dropped'], exit['log_complete']], ['0', '0', '1']);
    const lines = Array.from({ length: 40 }, (_, at) => `${at + 1}\n`).join('');
    assert.equal(run.log(), `first\n${lines}last\n`);
  });

  it(
    'G30: a stop ends in time, its record is durable and its waiters are told before it answers',
    { skip },
    async () => {
      await using base = new Run();
      await using disk = new HangingDisk(join(base.root, 'image'), join(base.root, 'disk'));
      await using run = new Run(
        { cwd: base.root, sh: 'echo first; while :; do echo line; done' },
        base.root,
        disk.dir,
      );
      await run.started();
      await until('the first line is there', () => run.log().startsWith('first\n'));
      const client = await run.client();
      disk.freeze();
      await until('it drops', async () => Number((await client.statusText())['stdout_dropped']) > 0);
      const wait = client.send(FRAME.wait);
      await run.stop(SIGNAL.term, 60_000);
      const exit = await run.exit(LONGEST_WAIT_MS * 2);
      assert.deepEqual([exit['signal'], exit['stop_stage'], exit['log_complete']], ['15', 'signal', '0']);
      assert.equal((await client.reply(wait))?.type, FRAME.wait | REPLY_BIT);
      await until('the connection is closed', () => client.closed);
      const { pid } = run.executor;
      await until('only a thread is left of it', () => readProcessStat(pid)?.state === 'Z');
      disk.thaw();
      await until('it is gone', () => readProcessStat(pid) === undefined);
      const written = run.log();
      assert.ok(/^first\n(line\n)*(l|li|lin|line)?$/.test(written));
      assert.ok(written.length >= Number(exit['stdout_bytes']) - Number(exit['stdout_dropped']));
    },
  );

  it('G30: is no reason not to take over, nor then to hold up the task', { skip }, async () => {
    await using base = new Run();
    await using disk = new HangingDisk(join(base.root, 'image'), join(base.root, 'disk'));
    await using run = new Run(
      { cwd: base.root, sh: `echo first; ${waitFor('one')}; seq 1 60000; : > written; exec sleep 1000` },
      base.root,
      disk.dir,
    );
    await run.started();
    await until('the first line is there', () => run.log() === 'first\n');
    disk.freeze();
    await run.killExecutor();
    assert.deepEqual(await run.adopt(), { status: TOLD.ok, stderr: '' });
    writeFileSync(join(base.root, 'one'), '');
    await until('the task has written all', () => existsSync(join(base.root, 'written')));
    const client = await run.client();
    const status = await until('all was taken', async () => {
      const text = await client.statusText();
      return Number(text['stdout_bytes']) === numbers.length ? text : undefined;
    });
    assert.ok(Number(status['stdout_dropped']) >= numbers.length - CHUNK_BYTES);
    disk.thaw();
    await run.logged('did not answer]\n');
    assert.equal(gapOf(run.log(), numbers), Number(status['stdout_dropped']));
  });
});
