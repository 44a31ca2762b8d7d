/** Run directories as a power cut leaves them: files without their bytes, of a boot that is over. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { systemClock } from '../../../src/base/clock.js';
import { sweepRunDirs } from '../../../src/executor/sweep.js';

const RUN = 'ab'.repeat(16);

describe('sweeping run directories', () => {
  let runsDir = '';
  let runDir = '';
  beforeEach(() => {
    runsDir = mkdtempSync(join(tmpdir(), 'hf-sweep-'));
    runDir = join(runsDir, RUN.slice(0, 2), RUN);
    mkdirSync(runDir, { recursive: true });
    for (const name of ['lock', 'spec', 'status']) writeFileSync(join(runDir, name), '');
  });
  afterEach(() => {
    rmSync(runsDir, { recursive: true, force: true });
  });

  const sweep = (bootOf: string | undefined) =>
    sweepRunDirs({ clock: systemClock, bootId: 'now', bootOf: () => bootOf, runsDir }, () => false);

  it('one of another boot goes, although nothing in it can be read', async () => {
    assert.deepEqual(await sweep('before'), { removed: 1, alive: [] });
    assert.ok(!existsSync(runDir));
  });

  it('one of this boot, or of one that nobody knows, stays: something of it may be alive', async () => {
    for (const boot of ['now', undefined]) {
      assert.deepEqual(await sweep(boot), { removed: 0, alive: [runDir] });
      assert.ok(existsSync(join(runDir, 'status')));
    }
  });
});
