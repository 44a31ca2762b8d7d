/** Waiting under abort signals. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { LazyAbort, onAbort, orAborted } from '../../../src/base/abort.js';
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

describe('LazyAbort', () => {
  it('tells who listens and who has its signal, whenever they asked, and with the same reason', () => {
    const told: string[] = [];
    const reason = new Error('enough');
    const abort = new LazyAbort();
    const { signal } = abort;
    const gone = abort.onAbort(() => told.push('gone'));
    abort.onAbort(() => told.push('listener'));
    signal.addEventListener('abort', () => told.push('signal'));
    gone[Symbol.dispose]();
    assert.deepEqual([abort.aborted, signal.aborted, told], [false, false, []]);
    abort.abort(reason);
    abort.abort(new Error('again'));
    assert.deepEqual([abort.aborted, signal.aborted, told], [true, true, ['signal', 'listener']]);
    assert.equal(abort.reason, reason);
    assert.equal(signal.reason, reason);
  });

  it('has a signal and a reason also for who asks when it is over, and tells them soon', async () => {
    const abort = new LazyAbort();
    abort.abort();
    assert.equal(abort.signal.aborted, true);
    assert.ok(abort.reason instanceof DOMException);
    assert.equal(abort.reason.name, 'AbortError');
    let [late, removed] = [0, 0];
    onAbort(abort, () => (late += 1));
    onAbort(abort, () => (removed += 1))[Symbol.dispose]();
    assert.equal(late, 0);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([late, removed], [1, 0]);
  });

  it('ends a wait', async () => {
    const abort = new LazyAbort();
    const waiting = orAborted(new Promise(() => undefined), [abort]);
    abort.abort();
    assert.deepEqual(await waiting, { kind: 'aborted', by: abort });
  });
});
