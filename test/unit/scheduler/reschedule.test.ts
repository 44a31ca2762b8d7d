/** When a failed alloc gets a successor: the delays of each function, the bound on attempts, and the rule behind them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import type { ReschedulePolicy } from '../../../src/jobspec/types.js';
import { decideReschedule, withEvent } from '../../../src/scheduler/reschedule.js';
import type { Moment, RescheduleEvent } from '../../../src/state/store.js';

const policy = (over: Partial<ReschedulePolicy>): ReschedulePolicy => ({
  attempts: 0,
  intervalMs: 0,
  delayMs: 10,
  delayFunction: 'constant',
  maxDelayMs: 100,
  unlimited: true,
  ...over,
});
const at = (ms: number): Moment => ({ wallMs: 1e12 + ms, monoMs: ms, bootId: 'b' });

/** The delays of a place whose allocs fail as soon as they are made. */
function delays(of: ReschedulePolicy, most: number): (number | string)[] {
  let events: readonly RescheduleEvent[] = [];
  let nowMs = 0;
  const found: (number | string)[] = [];
  while (found.length < most) {
    const decision = decideReschedule(of, events, at(nowMs));
    if (decision.kind === 'never') return [...found, decision.kind];
    found.push(decision.delayMs);
    nowMs += decision.delayMs;
    events = withEvent(of, events, { at: at(nowMs), previousAllocId: 'a', delayMs: decision.delayMs });
  }
  return found;
}

describe('rescheduling', () => {
  const TABLE: readonly (readonly [string, Partial<ReschedulePolicy>, readonly (number | string)[]])[] = [
    ['constant', {}, [10, 10, 10, 10]],
    ['exponential', { delayFunction: 'exponential' }, [10, 20, 40, 80, 100, 100]],
    ['fibonacci', { delayFunction: 'fibonacci' }, [10, 10, 20, 30, 50, 80, 100]],
    ['two attempts', { unlimited: false, attempts: 2, intervalMs: 1e6 }, [10, 10, 'never']],
    ['none', { unlimited: false }, ['never']],
    [
      'attempts that the interval forgets',
      { unlimited: false, attempts: 2, intervalMs: 10 },
      [10, 10, 10, 10],
    ],
  ];
  for (const [name, over, expected] of TABLE) {
    it(name, () => {
      assert.deepEqual(delays(policy(over), expected.length), expected);
    });
  }

  it('begins again after a run that was longer than the bound', () => {
    const exponential = policy({ delayFunction: 'exponential' });
    const last = { at: at(0), previousAllocId: 'a', delayMs: 100 };
    assert.deepEqual(decideReschedule(exponential, [last], at(100)), { kind: 'after', delayMs: 100 });
    assert.deepEqual(decideReschedule(exponential, [last], at(101)), { kind: 'after', delayMs: 10 });
  });

  it('never waits less than delay or more than max_delay, and keeps a bounded memory', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('exponential' as const, 'fibonacci' as const),
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 50, max: 5_000 }),
        (delayFunction, delayMs, maxDelayMs) => {
          const found = delays(policy({ delayFunction, delayMs, maxDelayMs }), 30);
          for (const [n, delay] of found.entries()) {
            assert.ok(Number(delay) >= delayMs && Number(delay) <= maxDelayMs);
            assert.ok(n === 0 || Number(delay) >= Number(found[n - 1]));
          }
        },
      ),
    );
  });
});
