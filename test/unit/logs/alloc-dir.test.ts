/** Files of an alloc are reached without ever leaving its directory, whatever a task does to it meanwhile. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { findBelow, listFound, openFound, refuseSecrets } from '../../../src/logs/alloc-dir.js';
import { AgentError } from '../../../src/base/errors.js';

let dir: string;
let root: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'hf-alloc-'));
  root = join(dir, 'alloc-1');
  mkdirSync(join(root, 'web', 'local', 'deep'), { recursive: true });
  mkdirSync(join(root, 'web', 'secrets'));
  mkdirSync(join(root, 'alloc', 'secrets'), { recursive: true });
  writeFileSync(join(root, 'web', 'local', 'a.txt'), 'inside');
  writeFileSync(join(root, 'web', 'local', 'deep', 'b.txt'), 'deep');
  writeFileSync(join(root, 'web', 'secrets', 'key'), 'of the task');
  writeFileSync(join(root, 'alloc', 'secrets', 'shared'), 'not secret');
  mkdirSync(join(dir, 'outside'));
  writeFileSync(join(dir, 'outside', 'a.txt'), 'OUTSIDE');
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

async function read(path: string): Promise<string> {
  await using found = await findBelow(root, path);
  refuseSecrets(found);
  await using handle = await openFound(found);
  return await handle.readFile('utf8');
}

function openBelow(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(dir) ? [target] : [];
    } catch {
      return [];
    }
  });
}

describe('the directory of an alloc', () => {
  it('is read by plain paths and by links that stay within it', async () => {
    const local = join(root, 'web', 'local');
    symlinkSync('deep', join(local, 'current'));
    symlinkSync('../local/./current/b.txt', join(local, 'far'));
    symlinkSync(join(root, 'web', 'local', 'a.txt'), join(local, 'absolute'));
    symlinkSync('deep/../a.txt', join(local, 'up'));
    for (const [path, text] of [
      ['/web/local/a.txt', 'inside'],
      ['web//local/./deep/../a.txt', 'inside'],
      ['web/local/current/b.txt', 'deep'],
      ['web/local/far', 'deep'],
      ['web/local/absolute', 'inside'],
      ['web/local/up', 'inside'],
      ['web/local/current/../a.txt', 'inside'],
    ] as const) {
      assert.equal(await read(path), text, path);
    }
    await using link = await findBelow(root, 'web/local/current');
    assert.deepEqual(link.trail, ['web', 'local', 'deep']);
    assert.deepEqual(
      (await listFound(link)).map(({ name }) => name),
      ['b.txt'],
    );
  });

  it('is never left, and only regular files are read', async () => {
    const local = join(root, 'web', 'local');
    symlinkSync('../../../outside', join(local, 'out'));
    symlinkSync('/etc', join(local, 'etc'));
    symlinkSync(`${root}-neighbour/x`, join(local, 'neighbour'));
    symlinkSync('loop', join(local, 'loop'));
    symlinkSync('../secrets/key', join(local, 'key'));
    symlinkSync('/proc/self/root/etc/passwd', join(local, 'magic'));
    execFileSync('mkfifo', [join(local, 'fifo')]);
    const cases = [
      ['..', 'not_permitted'],
      ['/../outside/a.txt', 'not_permitted'],
      ['web/../../outside/a.txt', 'not_permitted'],
      ['web/local/out/a.txt', 'not_permitted'],
      ['web/local/etc/passwd', 'not_permitted'],
      ['web/local/neighbour', 'not_permitted'],
      ['web/local/magic', 'not_permitted'],
      ['web/local/loop', 'bad_request'],
      ['web/secrets/key', 'not_permitted'],
      ['web/local/key', 'not_permitted'],
      ['web/local/fifo', 'bad_request'],
      ['web/local', 'bad_request'],
      ['web/local/a.txt/..', 'not_found'],
      ['web/local/a.txt/x', 'not_found'],
      ['web/nothing', 'not_found'],
      ['web/\0', 'bad_request'],
      [`web/${'x'.repeat(300)}`, 'not_found'],
      ['x/'.repeat(3000), 'bad_request'],
    ] as const;
    for (const [path, code] of cases) await assert.rejects(read(path), { code }, path);
    assert.equal(await read('alloc/secrets/shared'), 'not secret');
    assert.deepEqual(openBelow(), [], 'nothing is left open');
  });

  it('answers any path with a file of its own or an AgentError', async () => {
    const local = join(root, 'web', 'local');
    symlinkSync('../../../outside', join(local, 'out'));
    symlinkSync('..', join(local, 'back'));
    const part = fc.constantFrom(
      '..',
      '.',
      '',
      'web',
      'local',
      'out',
      'back',
      'a.txt',
      'deep',
      'b.txt',
      'alloc-1',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 12 }), async (parts) => {
        const text = await read(parts.join('/')).catch((error: unknown) => {
          assert.ok(error instanceof AgentError, String(error));
          return '';
        });
        assert.ok(['', 'inside', 'deep'].includes(text), `${parts.join('/')} gave ${text}`);
      }),
    );
    assert.deepEqual(openBelow(), []);
  });

  it('is not left while a task swaps a directory and a symlink as fast as it can', async () => {
    const swap = `
      const { mkdirSync, renameSync, symlinkSync, writeFileSync } = require('node:fs');
      const at = ${JSON.stringify(join(root, 'web'))};
      symlinkSync('../../outside', at + '/link');
      mkdirSync(at + '/dir');
      writeFileSync(at + '/dir/a.txt', 'inside');
      process.stdout.write('ready');
      for (;;) {
        renameSync(at + '/dir', at + '/x');
        renameSync(at + '/x', at + '/dir');
        renameSync(at + '/link', at + '/x');
        renameSync(at + '/x', at + '/link');
      }`;
    const racer = spawn(process.execPath, ['-e', swap], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await once(racer.stdout, 'data');
      const seen = new Map<string, number>();
      const until = performance.now() + 1500;
      while (performance.now() < until) {
        const said = await read('web/x/a.txt').catch((error: unknown) => {
          assert.ok(error instanceof AgentError, String(error));
          return error.code;
        });
        seen.set(said, (seen.get(said) ?? 0) + 1);
      }
      assert.equal(seen.get('OUTSIDE'), undefined);
      for (const said of ['inside', 'not_permitted', 'not_found']) {
        assert.ok((seen.get(said) ?? 0) > 0, `the race was not run: ${JSON.stringify([...seen])}`);
      }
    } finally {
      racer.kill('SIGKILL');
      await once(racer, 'close');
    }
    assert.deepEqual(openBelow(), []);
  });
});
