import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { editDistance, nearest } from '../../../src/jobspec/nearest.js';

describe('nearest', () => {
  it('finds what was meant', () => {
    const keys = ['driver', 'config', 'env', 'user', 'kill_timeout', 'kill_signal', 'meta'];
    const meant: readonly (readonly [string, string | undefined])[] = [
      ['drvier', 'driver'],
      ['kill-timeout', 'kill_timeout'],
      ['KillTimeout', 'kill_timeout'],
      ['kil_singal', 'kill_signal'],
      ['ebv', 'env'],
      ['usr', 'user'],
      ['volume', undefined],
      ['x', undefined],
      ['x'.repeat(10_000), undefined],
    ];
    for (const [word, expected] of meant) assert.equal(nearest(word, keys), expected, word);
  });
});

describe('editDistance', () => {
  it('counts a swap of neighbours as one', () => {
    assert.equal(editDistance('drvier', 'driver'), 1);
    assert.equal(editDistance('', 'abc'), 3);
    assert.equal(editDistance('kitten', 'sitting'), 3);
  });

  it('is symmetric, 0 only for equal words, and bounded by the longer one', () => {
    const word = fc.string({ maxLength: 12 });
    fc.assert(
      fc.property(word, word, (a, b) => {
        const distance = editDistance(a, b);
        assert.equal(distance, editDistance(b, a));
        assert.equal(distance === 0, a === b);
        assert.ok(distance <= Math.max(a.length, b.length));
      }),
    );
  });
});
