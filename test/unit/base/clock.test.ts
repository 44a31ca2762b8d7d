/** The real clock, as far as it can be tested without waiting long; and the fake one that stands in for it. */
import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { sleep, systemClock } from '../../../src/base/clock.js';
import { FakeClock } from '../../helpers/fake-clock.js';

const DAY_MS = 24 * 3_600_000;

describe('system clock', () => {
  it('makes a long timer of several: setTimeout fires at once beyond 2^31 ms', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      let fired = 0;
      systemClock.setTimer(60 * DAY_MS, () => (fired += 1));
      for (let day = 0; day < 59; day++) mock.timers.tick(DAY_MS);
      assert.equal(fired, 0);
      for (let day = 0; day < 3; day++) mock.timers.tick(DAY_MS);
      assert.equal(fired, 1);
    } finally {
      mock.timers.reset();
    }
  });

  it('cancels a long timer also in a later slice', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      let fired = 0;
      const timer = systemClock.setTimer(60 * DAY_MS, () => (fired += 1));
      for (let day = 0; day < 40; day++) mock.timers.tick(DAY_MS);
      timer[Symbol.dispose]();
      timer[Symbol.dispose]();
      for (let day = 0; day < 40; day++) mock.timers.tick(DAY_MS);
      assert.equal(fired, 0);
    } finally {
      mock.timers.reset();
    }
  });

  it('fires once, not before its time, and takes a negative delay as none', async () => {
    for (const delayMs of [-5, 0, 3]) {
      const before = systemClock.monoMs();
      await new Promise<void>((resolve) => {
        systemClock.setTimer(delayMs, resolve);
      });
      // setTimeout counts in whole milliseconds: it may be a part of one early.
      assert.ok(systemClock.monoMs() - before >= delayMs - 1);
    }
  });

  it('rolls anew each time, also within one moment', () => {
    const rolls = Array.from({ length: 100 }, () => systemClock.roll());
    assert.equal(new Set(rolls).size, rolls.length);
    assert.ok(rolls.every((roll) => roll >= 0 && roll < 1));
  });

  it('never goes back', () => {
    let last = systemClock.monoMs();
    for (let i = 0; i < 1_000; i++) {
      const now = systemClock.monoMs();
      assert.ok(now >= last);
      last = now;
    }
    const roll = systemClock.roll();
    assert.ok(roll >= 0 && roll < 1);
  });
});

describe('sleep', () => {
  it('ends when the time has come, or when the signal aborts, and leaves no timer', async () => {
    const clock = new FakeClock();
    const abort = new AbortController();
    const first = sleep(clock, 1_000);
    const second = sleep(clock, 5_000, abort.signal);
    await clock.advance(1_000);
    await first;
    abort.abort();
    await second;
    await sleep(clock, 5_000, abort.signal);
    assert.deepEqual(clock.pendingMs(), []);
  });
});

describe('fake clock', () => {
  it('visits due times in order, ties by creation, and lets promises settle between', async () => {
    const clock = new FakeClock();
    const order: string[] = [];
    clock.setTimer(10, () => order.push('10 first'));
    clock.setTimer(5, () => {
      void Promise.resolve().then(() => {
        order.push('5, then what it promised');
        clock.setTimer(5, () => order.push('10 last'));
      });
    });
    clock.setTimer(10, () => order.push('10 second'));
    await clock.advance(10);
    assert.deepEqual(order, ['5, then what it promised', '10 first', '10 second', '10 last']);
  });

  it('keeps monotonic time when the wall clock is set', async () => {
    const clock = new FakeClock({ monoMs: 5, wallMs: 1_000 });
    clock.stepWall(-DAY_MS);
    await clock.advance(10);
    assert.equal(clock.monoMs(), 15);
    assert.equal(clock.wallMs(), 1_010 - DAY_MS);
  });
});
