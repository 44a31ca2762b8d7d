import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { SpareDirs } from '../../../src/base/spare-dirs.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { until } from '../../helpers/until.js';

const QUIET_MS = 20;
/** Another file system than that of temporary files, on most hosts. */
const ELSEWHERE = '/dev/shm';

describe('spare directories', { timeout: 20_000 }, () => {
  let dir = '';
  let stock = '';
  let clock = new FakeClock();
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'hf-spare-'));
    stock = join(dir, 'spare');
    clock = new FakeClock();
  });
  afterEach(() => {
    rmSync(dir, { recursive: true, force: true });
  });
  const inodes = (): number[] => readdirSync(stock).map((name) => statSync(join(stock, name)).ino);
  const filled = (count: number): Promise<unknown> =>
    until(
      `${count} are there`,
      async () => {
        await clock.advance(QUIET_MS);
        return readdirSync(stock).length === count;
      },
      { timeoutMs: 5_000, lastSeen: () => readdirSync(stock).length },
    );

  it('are made beforehand, and moved to where one is needed', async () => {
    const furnish = (path: string): void => {
      mkdirSync(join(path, 'inner'), { recursive: true });
    };
    await using spares = await SpareDirs.open(stock, clock, furnish);
    await filled(8);
    const made = inodes();
    spares.make(join(dir, 'one'));
    spares.make(join(dir, 'two'));
    for (const name of ['one', 'two']) {
      const { ino, mode } = statSync(join(dir, name));
      assert.ok(made.includes(ino), 'it was made when it was needed');
      assert.equal(mode & 0o777, 0o700);
      assert.deepEqual(readdirSync(join(dir, name)), ['inner']);
    }
    assert.equal(readdirSync(stock).length, 6);
    await filled(8);
  });

  it('are not made while some are being taken, and twice as many when they did not suffice', async () => {
    await using spares = await SpareDirs.open(stock, clock);
    await filled(8);
    for (let number = 0; number < 9; number += 1) {
      spares.make(join(dir, String(number)));
      await clock.advance(QUIET_MS - 5);
      assert.equal(readdirSync(stock).length, Math.max(0, 7 - number));
    }
    await filled(16);
  });

  it('lie where the file system finds room at once', async (test) => {
    await (await SpareDirs.open(stock, clock))[Symbol.asyncDispose]();
    const type = spawnSync('stat', ['-f', '-c', '%T', dir], { encoding: 'utf8' }).stdout;
    const asked = spawnSync('lsattr', ['-d', stock], { encoding: 'utf8' });
    if (!type.startsWith('ext') || asked.status !== 0) {
      test.skip('only ext4 is told so, and lsattr tells of it');
      return;
    }
    assert.match(asked.stdout.split(' ')[0] ?? '', /T/);
  });

  it('take the place of nothing, and fail as mkdir does', async () => {
    await using spares = await SpareDirs.open(stock, clock);
    await filled(8);
    const path = join(dir, 'there');
    mkdirSync(path);
    const before = statSync(path).ino;
    assert.throws(
      () => {
        spares.make(path);
      },
      { code: 'EEXIST', path },
    );
    assert.equal(statSync(path).ino, before);
    const lost = join(dir, 'no', 'parent');
    assert.throws(
      () => {
        spares.make(lost);
      },
      { code: 'ENOENT', path: lost },
    );
  });

  it('are made the usual way where they cannot be moved to, and none is lost', async (test) => {
    if (!existsSync(ELSEWHERE) || statSync(ELSEWHERE).dev === statSync(dir).dev) {
      test.skip(`${ELSEWHERE} is no other file system`);
      return;
    }
    await using spares = await SpareDirs.open(stock, clock, (path) => {
      writeFileSync(join(path, 'inner'), '');
    });
    await filled(8);
    const parent = mkdtempSync(join(ELSEWHERE, 'hf-spare-'));
    try {
      for (let number = 0; number < 20; number += 1) {
        spares.make(join(parent, String(number)));
        assert.deepEqual(readdirSync(join(parent, String(number))), ['inner']);
        await clock.advance(3 * QUIET_MS);
      }
      assert.equal(readdirSync(stock).length, 8);
    } finally {
      rmSync(parent, { recursive: true });
    }
  });

  it('that could be made by half only are made whole later', async () => {
    let isFull = true;
    await using spares = await SpareDirs.open(stock, clock, (path) => {
      mkdirSync(join(path, 'one'), { recursive: true });
      if (isFull) throw new Error('no space left');
      mkdirSync(join(path, 'two'), { recursive: true });
    });
    for (let times = 0; times < 3; times += 1) {
      assert.throws(() => {
        spares.make(join(dir, 'wanted'));
      }, /no space left/);
      rmSync(join(dir, 'wanted'), { recursive: true });
      await clock.advance(3 * QUIET_MS);
    }
    // One for those who ask, one that is being filled in.
    assert.ok(readdirSync(stock).length <= 2);
    isFull = false;
    spares.make(join(dir, 'wanted'));
    assert.deepEqual(readdirSync(join(dir, 'wanted')), ['one', 'two']);
  });

  it('are made when they are needed where there can be no stock', async () => {
    writeFileSync(stock, '');
    await using spares = await SpareDirs.open(stock, clock);
    spares.make(join(dir, 'one'));
    await clock.advance(10 * QUIET_MS);
    assert.equal(statSync(join(dir, 'one')).mode & 0o777, 0o700);
  });

  it('that an agent left when it was killed are used by the next one, whole', async () => {
    mkdirSync(join(stock, '7'), { recursive: true });
    mkdirSync(join(stock, '30', 'inner'), { recursive: true });
    writeFileSync(join(stock, 'mine'), '');
    writeFileSync(join(stock, '5'), '');
    const left = ['7', '30'].map((name) => statSync(join(stock, name)).ino);
    await using spares = await SpareDirs.open(stock, clock, (path) => {
      mkdirSync(join(path, 'inner'), { recursive: true });
    });
    await filled(10);
    assert.ok(left.every((ino) => inodes().includes(ino)));
    for (let number = 0; number < 8; number += 1) {
      spares.make(join(dir, String(number)));
      assert.deepEqual(readdirSync(join(dir, String(number))), ['inner']);
    }
    assert.deepEqual(readdirSync(stock), ['5', 'mine']);
  });

  it('are let alone once the stock is closed', async () => {
    await (await SpareDirs.open(stock, clock))[Symbol.asyncDispose]();
    await clock.advance(10 * QUIET_MS);
    assert.deepEqual(readdirSync(stock), []);
  });
});
