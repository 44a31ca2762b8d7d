/** Closing what was opened. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Scope } from '../../../src/base/scope.js';

describe('scope', () => {
  it('closes in reverse order, each once, however often it is asked', async () => {
    const closed: string[] = [];
    const scope = new Scope();
    scope.add('a', () => void closed.push('a'));
    scope.add('b', async () => {
      await Promise.resolve();
      closed.push('b');
    });
    await Promise.all([scope.close(), scope.close()]);
    assert.deepEqual(closed, ['b', 'a']);
  });

  it('closes the others when one fails, then says which', async () => {
    const closed: string[] = [];
    const scope = new Scope();
    scope.add('a', () => void closed.push('a'));
    scope.add('b', () => {
      throw new Error('stuck');
    });
    await assert.rejects(scope.close(), (error: unknown) => {
      assert.ok(error instanceof AggregateError);
      assert.match(String(error.errors[0]), /closing b failed/);
      return true;
    });
    assert.deepEqual(closed, ['a']);
  });

  it('closes at once what it is given too late', async () => {
    const scope = new Scope();
    await scope.close();
    let closed = false;
    scope.add('late', () => {
      closed = true;
    });
    assert.ok(closed);
  });

  it('works with await using, and owns disposables of both kinds', async () => {
    const closed: string[] = [];
    {
      await using scope = new Scope();
      scope.own('sync', { [Symbol.dispose]: () => void closed.push('sync') });
      scope.own('async', {
        [Symbol.asyncDispose]: () => {
          closed.push('async');
          return Promise.resolve();
        },
      });
    }
    assert.deepEqual(closed, ['async', 'sync']);
  });
});
