/** A run directory is removed, and nothing that only looks as if it were in it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { removeRunDir } from '../../../src/executor/run-dir.js';

const MODULE = new URL('../../../src/executor/run-dir.js', import.meta.url).href;

describe('removal of a run directory', () => {
  let root: string;
  let runDir: string;
  let precious: string;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'hf-run-dir-'));
    runDir = join(root, 'run');
    precious = join(root, 'precious');
    mkdirSync(runDir);
    mkdirSync(precious);
    writeFileSync(join(precious, 'data'), 'kept');
  });
  afterEach(() => {
    rmSync(root, { recursive: true, force: true });
  });

  it('takes files, and directories with what is in them; not being there is fine', async () => {
    for (const name of ['spec', 'lock', 'status']) writeFileSync(join(runDir, name), name);
    mkdirSync(join(runDir, 'sub', 'below'), { recursive: true });
    writeFileSync(join(runDir, 'sub', 'below', 'file'), '');
    await removeRunDir(runDir);
    assert.ok(!existsSync(runDir));
    await removeRunDir(runDir);
  });

  it('takes a link in it, and in its place, and lets alone where they lead', async () => {
    symlinkSync(precious, join(runDir, 'link'));
    await removeRunDir(runDir);
    assert.ok(!existsSync(runDir));
    symlinkSync(precious, runDir);
    await removeRunDir(runDir);
    assert.deepEqual(readdirSync(root), ['precious']);
    assert.deepEqual(readdirSync(precious), ['data']);
  });

  for (const place of ['run', 'run/sub']) {
    it(`stops at something that is mounted on ${place}, and takes nothing of that`, (t) => {
      mkdirSync(join(runDir, 'sub'));
      // In a mount namespace of its own, which ends with it.
      const script = `mount --bind "$1" "$2" && exec "$3" --input-type=module -e "$4"`;
      const remove = `import { removeRunDir } from '${MODULE}'; await removeRunDir(${JSON.stringify(runDir)}).catch((e) => console.log(e.code));`;
      const args = ['-Urm', 'sh', '-c', script, 'sh', precious, join(root, place), process.execPath, remove];
      const done = spawnSync('unshare', args, { encoding: 'utf8' });
      assert.deepEqual(readdirSync(precious), ['data']);
      if (/unshare|mount/.test(done.stderr)) {
        t.diagnostic(`nothing can be mounted here: ${done.stderr}`);
        return;
      }
      assert.equal(done.stdout, 'EBUSY\n', done.stderr);
    });
  }
});
