/** A process that writes is killed at random moments: what it was told is stored is there, and numbers go on. */
import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { ChildStore } from '../helpers/child-store.js';
import { StoreOnDisk } from '../helpers/stores.js';

describe('a store whose process is killed while it writes', () => {
  const disk = new StoreOnDisk();
  let child: ChildStore | undefined;
  afterEach(async () => {
    await child?.kill();
    await disk.remove();
  });

  it('has every commit that was acknowledged, whole, and never uses an index again', async () => {
    let newestIndex = 0;
    for (let round = 1; round <= 6; round++) {
      child = new ChildStore(disk.path);
      assert.equal((await child.ask({ ask: 'open' })).did, 'opened');
      assert.equal((await child.ask({ ask: 'ground' })).did, 'stored');
      child.send({ ask: 'write_for_ever' });
      const first = await child.answer();
      assert.ok(first?.did === 'stored', JSON.stringify(first));
      // Not a wait for anything: the moment of death shall be arbitrary.
      await wait(Math.random() * 60);
      await child.kill();
      let acknowledged = 1;
      for (let answer = await child.answer(); answer !== undefined; answer = await child.answer()) {
        if (answer.did === 'stored') acknowledged = answer.seq ?? 0;
      }
      const store = disk.open();
      const seqs = store.listTaskEvents({}).map(({ seq }) => seq);
      assert.ok(seqs.length >= acknowledged, `${seqs.length} events, ${acknowledged} acknowledged`);
      assert.deepEqual(
        seqs,
        Array.from(seqs, (_, n) => n + 1),
      );
      assert.equal(store.getTask('a1', 'server')?.lastEventSeq, seqs.length, 'a commit is whole');
      const feed = store.readFeed(newestIndex, 100_000).map(({ index }) => index);
      assert.deepEqual(
        feed,
        Array.from(feed, (_, n) => newestIndex + n + 1),
      );
      newestIndex = store.index();
      assert.equal(newestIndex, feed.at(-1));
      await store.commit([{ kind: 'delete_alloc', allocId: 'a1' }]);
      newestIndex += 1;
      await store.close();
    }
  });
});
