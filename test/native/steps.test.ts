/** The writer of the logs is killed at any of its instructions: no byte is lost or there twice. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { EXECUTOR, IS_ROOT, Run, TOLD } from './harness.js';

const SOURCE = fileURLToPath(new URL('../../../test/native/die-at-step.c', import.meta.url));
const CAN_BUILD = spawnSync('gcc', ['--version']).status === 0;
/** All at once, so that each chunk is a full one; or a bit at a time, more and less. The last number is said by somebody else. */
const FULL = 'seq 1 3000000; echo 3000001; echo end';
const UNEVEN =
  'from=1; until [ -e enough ]; do for size in 2 900 40 2500 7 300; do ' +
  'seq $from $((from + size)); from=$((from + size + 1)); sleep 0.01; done; done; echo $from; echo end';

/** @returns the program that is built of it, in the directory of that run */
function dieAtStep({ root }: Run): string {
  const program = join(root, 'die-at-step');
  execFileSync('gcc', ['-std=gnu17', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE]);
  return program;
}

/** Leaves so much of a file system. */
function fill(dir: string, leftBytes: number): void {
  const { bfree, bsize } = statfsSync(dir);
  writeFileSync(join(dir, 'filler'), Buffer.alloc(bfree * bsize - leftBytes));
}

describe('the writer of the logs', { skip: IS_ROOT && CAN_BUILD ? false : 'needs root and gcc' }, () => {
  // From one read to the next it takes so many instructions; with that stride some runs of the suite meet them all.
  for (const [name, script, maxBytes, steps, stride] of [
    ['in one file', FULL, 1e9, 800, 11],
    ['when each chunk is cut between two files', FULL, 50_000, 4400, 61],
    ['when one chunk is long and the next is short', UNEVEN, 1e9, 800, 11],
  ] as const) {
    it(`G29: neither loses nor repeats a byte, killed at any instruction: ${name}`, async (t) => {
      await using base = new Run();
      await using run = new Run({
        cwd: base.root,
        sh: `${script}; exec sleep 1000`,
        log: { maxBytes, maxFiles: 10_000 },
      });
      const program = dieAtStep(base);
      await run.started();
      await run.killExecutor();
      const offset = randomInt(stride);
      t.diagnostic(`from step ${offset} on, each ${stride}th`);
      for (let step = offset; step < steps; step += stride) {
        const reads = 1 + (step % 3);
        const args = [String(reads), String(step), EXECUTOR, 'adopt', run.dir];
        const { status } = spawnSync(program, args, { stdio: 'ignore', timeout: 20_000 });
        assert.equal(status, 0, `read ${reads}, step ${step}`);
      }
      assert.equal((await run.adopt()).status, TOLD.ok);
      writeFileSync(join(base.root, 'enough'), '');
      await run.logged('end\n');
      const lines = run.log().split('\n');
      assert.deepEqual(lines.splice(-2), ['end', '']);
      assert.equal(
        lines.findIndex((line, at) => line !== String(at + 1)),
        -1,
      );
    });
  }

  it('G29: has no room for what is on its way: killed, it loses that, and nothing else comes into its place', async () => {
    await using base = new Run();
    const [small, large] = [join(base.root, 'small'), join(base.root, 'large')];
    for (const dir of [small, large]) mkdirSync(dir);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small]);
    try {
      const waitFor = (file: string): string => `until [ -e ${file} ]; do sleep 0.01; done`;
      await using run = await new Run(
        {
          cwd: base.root,
          sh: `${waitFor('one')}; seq 1 4000; ${waitFor('two')}; echo end; exec sleep 1000`,
        },
        small,
        large,
      ).started();
      await run.killExecutor();
      // One page for its notes, and some for its bytes.
      fill(small, 3 * 4096);
      writeFileSync(join(base.root, 'one'), '');
      const args = ['1', '5', EXECUTOR, 'adopt', run.dir];
      const { status } = spawnSync(dieAtStep(base), args, { stdio: 'ignore', timeout: 20_000 });
      assert.equal(status, 0);
      assert.equal((await run.adopt()).status, TOLD.ok);
      writeFileSync(join(base.root, 'two'), '');
      await run.logged('end\n');
      assert.equal(run.log(), 'end\n');
      await run.stop(constants.signals.SIGKILL, 0);
      await run.exit();
    } finally {
      execFileSync('umount', ['--lazy', small]);
    }
  });
});
