/** Waiting under abort signals. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { orAborted } from '../../../src/base/abort.js';
import { Deferred } from '../../../src/base/deferred.js';

describe('orAborted', () => {
  it('gives the value, or the signal that aborted first', async () => {
    const [kill, shutdown] = [new AbortController(), new AbortController()];
    const signals = [kill.signal, shutdown.signal];
    assert.deepEqual(await orAborted(Promise.resolve(1), signals), { kind: 'value', value: 1 });
    const waiting = orAborted(new Promise(() => undefined), signals);
    shutdown.abort();
    assert.deepEqual(await waiting, { kind: 'aborted', by: shutdown.signal });
    assert.deepEqual(await orAborted(new Promise(() => undefined), signals), {
      kind: 'aborted',
      by: shutdown.signal,
    });
  });

  it('leaves no listener behind, however it ends', async () => {
    const { signal } = new AbortController();
    for (let i = 0; i < 50; i++) await orAborted(Promise.resolve(i), [signal]);
    const work = new Deferred<number>();
    const waiting = orAborted(work.promise, [signal]);
    work.reject(new Error('no'));
    await assert.rejects(waiting, /no/);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });
});
