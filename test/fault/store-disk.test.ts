/** A disk that takes no writes: intents are given back, facts wait and are written when it recovers, reads go on. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, it } from 'node:test';
import Sqlite from 'better-sqlite3';
import { AgentError } from '../../src/base/errors.js';
import { asStoreError } from '../../src/state/sqlite-sql.js';
import { ChildStore } from '../helpers/child-store.js';
import type { Answer } from '../helpers/store-child.js';
import { StoreOnDisk } from '../helpers/stores.js';
import { until } from '../helpers/until.js';

const fact = (seq: number, bytes = 20_000) => ({ ask: 'commit', seq, bytes, whenRefused: 'keep' }) as const;
const intent = (seq: number, bytes = 20_000) =>
  ({ ask: 'commit', seq, bytes, whenRefused: 'reject' }) as const;

function looked(answer: Answer): { seqs: readonly number[]; kept: number; trouble: string } {
  assert.ok(answer.did === 'looked', JSON.stringify(answer));
  return answer;
}

/** Without root a mount namespace needs a user namespace, which some hosts forbid. */
const NAMESPACES = [
  ['unshare', '-m'],
  ['unshare', '-Urm'],
].find(([command = '', ...args]) => spawnSync(command, [...args, 'true']).status === 0);

/** Attaching takes ptrace, which some hosts allow to parents only. */
const NO_STRACE =
  spawnSync('strace', ['-V']).status === 0 && process.getuid?.() === 0 ? false : 'it takes root and strace';

describe('a store on a disk that refuses writes', () => {
  let disk: StoreOnDisk;
  let child: ChildStore | undefined;
  beforeEach(() => {
    disk = new StoreOnDisk();
  });
  afterEach(async () => {
    await child?.kill();
    chmodSync(disk.dir, 0o700);
    await disk.remove();
  });

  /** From full to empty: what every cause of refusal has in common. Returns the number of events made. */
  async function fillUp(store: ChildStore): Promise<number> {
    assert.equal((await store.ask({ ask: 'open' })).did, 'opened');
    assert.equal((await store.ask({ ask: 'ground' })).did, 'stored');
    let seq = 0;
    let last: Answer;
    do {
      seq += 1;
      last = await store.ask(fact(seq));
    } while (last.did === 'stored');
    assert.equal(last.did, 'kept', JSON.stringify(last));
    const refused = await store.ask(intent(seq + 1));
    assert.ok(refused.did === 'failed' && refused.code === 'store_unavailable' && refused.recoverable);
    assert.equal((await store.ask(fact(seq + 1))).did, 'kept');
    const seen = looked(await store.ask({ ask: 'look' }));
    assert.equal(seen.kept, 2);
    assert.notEqual(seen.trouble, '');
    assert.equal(seen.seqs.length, seq - 1, 'what is stored can still be read');
    return seq + 1;
  }

  async function assertRecovers(store: ChildStore, events: number): Promise<void> {
    const seen = await until('the kept facts are written by themselves', async () => {
      const now = looked(await store.ask({ ask: 'look' }));
      return now.kept === 0 && now;
    });
    assert.equal(seen.trouble, '');
    assert.deepEqual(
      seen.seqs,
      Array.from({ length: events }, (_, n) => n + 1),
    );
    assert.equal((await store.ask(intent(events + 1))).did, 'stored');
  }

  it('catches up when files may grow again', async () => {
    // Beyond the limit a write fails with EFBIG instead of a signal, because the signal is ignored.
    child = new ChildStore(disk.path, ['sh', '-c', `trap '' XFSZ; ulimit -S -f 1024; exec "$@"`, 'sh']);
    const events = await fillUp(child);
    execFileSync('prlimit', ['--pid', String(child.process.pid), '--fsize=unlimited:']);
    await assertRecovers(child, events);
  });

  it(
    'catches up when a full file system has room again, and opens even while it is full',
    { skip: NAMESPACES === undefined ? 'this host allows no mount namespace' : false },
    async () => {
      // The file system exists for the child alone; ballast is what is removed to make room.
      const script = `mount -t tmpfs -o size=1536k holdfast "$0" && head -c 300000 /dev/zero >"$0/ballast" &&
        exec "$@"`;
      const wrapper = [...(NAMESPACES ?? []), 'sh', '-c', script, disk.dir];
      child = new ChildStore(disk.path, wrapper);
      const events = await fillUp(child);
      // What was kept goes with the process; a new one must get at what is stored, full as the disk is.
      assert.equal((await child.ask({ ask: 'close' })).did, 'closed');
      assert.equal((await child.ask({ ask: 'open' })).did, 'opened');
      assert.equal(looked(await child.ask({ ask: 'look' })).seqs.length, events - 2);
      for (const seq of [events - 1, events]) assert.notEqual((await child.ask(fact(seq))).did, 'failed');
      execFileSync('rm', [`/proc/${child.process.pid}/root${disk.dir}/ballast`]);
      await assertRecovers(child, events);
    },
  );

  it('does not call a database damaged that the disk does not give back', () => {
    // SQLite says "malformed" in both cases. A directory stands for a file whose reads fail.
    const malformed = new Sqlite.SqliteError('database disk image is malformed', 'SQLITE_CORRUPT');
    const unread = asStoreError(malformed, disk.dir);
    assert.ok(unread instanceof AgentError && unread.code === 'store_unavailable' && unread.recoverable);
    assert.match(unread.message, /gives back nothing: .*the database itself may be whole/);
    writeFileSync(disk.path, 'noise');
    const damaged = asStoreError(malformed, disk.path);
    assert.ok(damaged instanceof AgentError && damaged.code === 'store_corrupt');
  });

  it(
    'catches up when the disk fails to flush (EIO), and nothing is lost or there twice',
    { skip: NO_STRACE },
    async () => {
      child = new ChildStore(disk.path);
      assert.equal((await child.ask({ ask: 'open' })).did, 'opened');
      assert.equal((await child.ask({ ask: 'ground' })).did, 'stored');
      assert.equal((await child.ask(fact(1))).did, 'stored');
      const inject = 'inject=fsync,fdatasync:error=EIO';
      const pid = String(child.process.pid);
      const strace = spawn('strace', ['-f', '-qq', '-e', 'trace=fsync,fdatasync', '-e', inject, '-p', pid], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      try {
        const traced = () => /^TracerPid:\s+[1-9]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
        await until('the disk fails', traced);
        assert.equal((await child.ask(fact(2))).did, 'kept');
        const refused = await child.ask(intent(3));
        assert.ok(refused.did === 'failed' && refused.code === 'store_unavailable');
        assert.equal((await child.ask(fact(3))).did, 'kept');
        assert.deepEqual(looked(await child.ask({ ask: 'look' })).seqs, [1]);
      } finally {
        const left = once(strace, 'exit');
        strace.kill('SIGINT');
        await left;
      }
      await assertRecovers(child, 3);
    },
  );

  it('says what is wrong when its folder cannot be written', async () => {
    chmodSync(disk.dir, 0o500);
    // Root is stopped by permissions only without this capability.
    const bound = process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-dac_override'] : [];
    child = new ChildStore(disk.path, bound);
    const answer = await child.ask({ ask: 'open' });
    assert.ok(answer.did === 'failed' && answer.code === 'store_unavailable', JSON.stringify(answer));
    assert.match(answer.message, /cannot lock .*state\.db/);
  });
});
