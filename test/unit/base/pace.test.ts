import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Pace } from '../../../src/base/pace.js';

const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

describe('Pace', () => {
  it('lets so many through in a turn of the event loop, in order, and the others in later turns', async () => {
    const pace = new Pace(3);
    const through: number[] = [];
    for (let number = 0; number < 8; number += 1) void pace.turn().then(() => through.push(number));
    await Promise.resolve();
    assert.deepEqual(through, [0, 1, 2]);
    await nextTurn();
    assert.deepEqual(through, [0, 1, 2, 3, 4, 5]);
    await nextTurn();
    assert.deepEqual(through, [0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('holds nobody up when there is no crowd', async () => {
    const pace = new Pace(1);
    for (let times = 0; times < 3; times += 1) {
      let isThrough = false;
      void pace.turn().then(() => (isThrough = true));
      await Promise.resolve();
      assert.ok(isThrough);
      await nextTurn();
    }
  });

  it('lets what can wait through after the crowd, and not later than after twenty turns', async () => {
    const pace = new Pace(1);
    const through: string[] = [];
    void pace.turn().then(() => through.push('first'));
    void pace.after().then(() => through.push('after'));
    const crowd = (count: number): void => {
      for (let times = 0; times < count; times += 1) void pace.turn().then(() => through.push('crowd'));
    };
    crowd(2);
    while (!through.includes('after')) await nextTurn();
    assert.deepEqual(through, ['first', 'crowd', 'crowd', 'after']);
    through.length = 0;
    void pace.turn();
    void pace.after().then(() => through.push('after'));
    crowd(100);
    while (!through.includes('after')) await nextTurn();
    assert.ok(through.length >= 19 && through.length <= 22, String(through.length));
  });

  it('lets other work have its turn between those that go on', async () => {
    const pace = new Pace(1);
    const seen: string[] = [];
    const crowd = Promise.all(['a', 'b', 'c'].map((name) => pace.turn().then(() => seen.push(name))));
    const others = (async () => {
      for (let times = 0; times < 2; times += 1) {
        await nextTurn();
        seen.push('other');
      }
    })();
    await Promise.all([crowd, others]);
    assert.ok(seen.indexOf('other') < seen.indexOf('c'), seen.join(' '));
  });
});
