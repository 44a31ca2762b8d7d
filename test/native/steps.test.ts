/** The writer of the logs is killed at any of its instructions: no byte is lost or there twice. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { EXECUTOR, IS_ROOT, Run, TOLD } from './harness.js';

const SOURCE = fileURLToPath(new URL('../../../test/native/die-at-step.c', import.meta.url));
const CAN_BUILD = spawnSync('gcc', ['--version']).status === 0;
const NUMBERS = Array.from({ length: 3_000_000 }, (_, at) => `${at + 1}\n`).join('');
/** So many runs of the suite meet them all. */
const STRIDES = { whole: 11, cut: 61 };

describe('the writer of the logs', { skip: IS_ROOT && CAN_BUILD ? false : 'needs root and gcc' }, () => {
  // From one read to the next it takes so many instructions.
  for (const [name, maxBytes, steps, stride] of [
    ['in one file', 1e9, 800, STRIDES.whole],
    ['when each chunk is cut between two files', 50_000, 4400, STRIDES.cut],
  ] as const) {
    it(`G29: neither loses nor repeats a byte, killed at any instruction: ${name}`, async (t) => {
      await using run = new Run({
        sh: `seq 1 3000000; echo end; exec sleep 1000`,
        log: { maxBytes, maxFiles: 10_000 },
      });
      const program = join(run.root, 'die-at-step');
      execFileSync('gcc', ['-std=gnu17', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE]);
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
      await run.logged('end\n');
      assert.ok(run.log() === `${NUMBERS}end\n`, 'it is not what was written');
    });
  }
});
