/** The store that fails on purpose keeps the promises of one whose disk does. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isRecoverable } from '../../../src/base/errors.js';
import { openMemoryStore } from '../../../src/state/memory-store.js';
import { FailingStore } from '../../helpers/failing-store.js';
import { addEvent, putAlloc, putJob, putTask } from '../../helpers/records.js';

describe('FailingStore', () => {
  it('gives back, keeps, and writes what it kept before what comes later', async () => {
    const store = new FailingStore(openMemoryStore(), { failCommits: (n) => n >= 2 && n <= 4 });
    await store.commit([putJob(), putAlloc(), putTask()]);
    await assert.rejects(store.commit([addEvent(9)]), isRecoverable);
    assert.equal(await store.commit([addEvent(1)], { whenRefused: 'keep' }), 'kept');
    assert.equal(await store.commit([addEvent(2)], { whenRefused: 'keep' }), 'kept');
    assert.equal(store.keptChanges(), 2);
    assert.equal(store.trouble()?.keptChanges, 2);
    assert.deepEqual(store.listTaskEvents({}), []);
    assert.equal(await store.commit([addEvent(3)]), 'stored');
    assert.equal(store.keptChanges(), 0);
    const seqs = store.listTaskEvents({}).map((row) => row.seq);
    assert.deepEqual(seqs, [1, 2, 3]);
    assert.equal(store.commits, 5);
    await store.close();
  });
});
