/** One writer, whatever happens to it: real processes race for a store, die with it, and leave false traces. */
import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { afterEach, describe, it } from 'node:test';
import { AgentError } from '../../src/base/errors.js';
import { readBootId, readProcessStat } from '../../src/base/host.js';
import { ChildStore } from '../helpers/child-store.js';
import { StoreOnDisk } from '../helpers/stores.js';

describe('the lock of a store', () => {
  const disks: StoreOnDisk[] = [];
  const children: ChildStore[] = [];
  const newDisk = (): StoreOnDisk => {
    const disk = new StoreOnDisk();
    disks.push(disk);
    return disk;
  };
  const newChild = (path: string): ChildStore => {
    const child = new ChildStore(path);
    children.push(child);
    return child;
  };
  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
    await Promise.all(disks.splice(0).map((disk) => disk.remove()));
  });

  it('lets one of ten that race have the store, and names it to the others', async () => {
    const disk = newDisk();
    const racers = Array.from({ length: 10 }, () => newChild(disk.path));
    const answers = await Promise.all(racers.map((racer) => racer.ask({ ask: 'open' })));
    const winners = racers.filter((_, n) => answers[n]?.did === 'opened');
    assert.equal(winners.length, 1, JSON.stringify(answers));
    const pid = winners[0]?.process.pid ?? 0;
    for (const answer of answers) {
      if (answer.did !== 'failed') continue;
      assert.equal(answer.code, 'store_locked');
      assert.match(answer.message, new RegExp(`pid ${pid}\\b.*stop it first`));
    }
  });

  it('goes with a process that is killed', async () => {
    const disk = newDisk();
    const first = newChild(disk.path);
    assert.equal((await first.ask({ ask: 'open' })).did, 'opened');
    assert.equal((await first.ask({ ask: 'ground' })).did, 'stored');
    await first.kill();
    assert.ok(existsSync(`${disk.path}.owner`), 'it had no time to clear up');
    const store = disk.open();
    assert.equal(store.listJobs().length, 1);
  });

  it('is not fooled by what a dead owner, an earlier boot or a reused pid left', async () => {
    const disk = newDisk();
    const self = { pid: process.pid, startTicks: readProcessStat(process.pid)?.startTicks ?? 0 };
    const traces = [
      { ...self, bootId: readBootId() },
      { ...self, bootId: 'of an earlier boot' },
      { ...self, startTicks: 1, bootId: readBootId() },
      'rubbish',
    ];
    for (const trace of traces) {
      writeFileSync(`${disk.path}.owner`, JSON.stringify(trace));
      await disk.open().close();
    }
  });

  it('holds within one process too, and is free again after closing', async () => {
    const disk = newDisk();
    const store = disk.open();
    const locked = (error: unknown): boolean =>
      error instanceof AgentError &&
      error.code === 'store_locked' &&
      error.message.includes(`pid ${process.pid}`);
    assert.throws(() => disk.open(), locked);
    const child = newChild(disk.path);
    const answer = await child.ask({ ask: 'open' });
    assert.ok(answer.did === 'failed' && answer.code === 'store_locked', 'a failed try has not dropped it');
    await store.close();
    assert.ok(!existsSync(`${disk.path}.owner`));
    assert.equal((await child.ask({ ask: 'open' })).did, 'opened');
  });

  it('leaves files that only their owner can read', () => {
    const disk = newDisk();
    disk.open();
    for (const suffix of ['', '-wal', '-shm', '.lock', '.owner']) {
      assert.equal(statSync(disk.path + suffix).mode & 0o777, 0o600, suffix);
    }
  });
});
