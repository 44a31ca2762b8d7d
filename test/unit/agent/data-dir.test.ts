import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { DataDir } from '../../../src/agent/data-dir.js';
import { AgentError } from '../../../src/base/errors.js';

describe('the data directory', { timeout: 10_000 }, () => {
  let dir = '';
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'hf-data-dir-'));
  });
  afterEach(() => {
    rmSync(dir, { recursive: true, force: true });
  });

  it('is made with all above it, and made again without a word', async () => {
    const made = new DataDir(join(dir, 'a', 'b'));
    await made.make();
    await made.make();
    assert.equal(statSync(made.path).mode & 0o777, 0o711);
    assert.equal(statSync(made.runDir).mode & 0o777, 0o700);
  });

  it('that belongs to another user is refused by that name', async () => {
    const isRoot = process.geteuid?.() === 0;
    // Its own owner may set its mode, nobody else. Root becomes nobody for that; the thread pool follows.
    if (isRoot) process.seteuid?.(65534);
    try {
      await assert.rejects(new DataDir(isRoot ? dir : '/usr').make(), {
        code: 'bad_request',
        message: /it belongs to another user; give another one with --data-dir$/,
      });
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  it('says what to do when it cannot be one', async () => {
    const file = join(dir, 'file');
    writeFileSync(file, '');
    // In /proc nobody can make a directory, and the error is the one of a missing parent.
    for (const path of [file, join(file, 'below'), '/proc/holdfast-data']) {
      await assert.rejects(new DataDir(path).make(), (error) => {
        assert.ok(error instanceof AgentError);
        assert.equal(error.code, 'bad_request');
        assert.match(
          error.message,
          /^cannot use .* as data directory: .*; give another one with --data-dir$/,
        );
        return true;
      });
    }
  });
});
