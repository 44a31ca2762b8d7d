import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { removeDirectory } from '../../../src/base/remove.js';

describe('removeDirectory', () => {
  let place = '';
  let dir = '';

  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), 'hf-remove-'));
    dir = join(place, 'dir');
    mkdirSync(join(dir, 'a/b/c'), { recursive: true });
    for (const name of ['1', 'a/2', 'a/b/c/3']) writeFileSync(join(dir, name), name);
  });

  afterEach(() => {
    rmSync(place, { recursive: true });
  });

  it('removes all of it, and nothing that a link in it leads to', async () => {
    mkdirSync(join(place, 'other'));
    writeFileSync(join(place, 'other/kept'), 'kept');
    symlinkSync(join(place, 'other'), join(dir, 'a/link'));
    symlinkSync(join(place, 'nowhere'), join(dir, 'dangling'));
    await removeDirectory(dir);
    assert.equal(existsSync(dir), false);
    assert.equal(readFileSync(join(place, 'other/kept'), 'utf8'), 'kept');
  });

  it('does not mind when it is not there, or when somebody else takes something away', async () => {
    const removing = removeDirectory(dir);
    unlinkSync(join(dir, 'a/b/c/3'));
    await removing;
    assert.equal(existsSync(dir), false);
    await removeDirectory(dir);
  });

  it('copes with what comes into it meanwhile', async () => {
    const removing = removeDirectory(dir);
    for (let i = 0; i < 20; i++) writeFileSync(join(dir, 'a', `new-${i}`), '');
    await removing;
    assert.equal(existsSync(dir), false);
  });
});
