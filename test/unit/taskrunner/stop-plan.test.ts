/** Which signals a stop sends, and when: the cases of `stop_signals`, and what holds for all of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import type { StopSignal } from '../../../src/jobspec/types.js';
import { planStop, rungAt } from '../../../src/taskrunner/stop-plan.js';
import { aTask } from '../../helpers/specs.js';

const AGENT = { defaultKillSignal: 'SIGINT', maxKillTimeoutMs: 30_000 };
const ladder = (...stopSignals: readonly StopSignal[]) => stopSignals;

describe('planStop', () => {
  const table: readonly (readonly [string, Parameters<typeof aTask>[0], number, number, string])[] = [
    ['no signal of its own', { killSignal: undefined }, 30_000, 5_000, 'SIGINT@0'],
    ['a kill signal', { killSignal: 'SIGTERM' }, 30_000, 5_000, 'SIGTERM@0'],
    [
      'the agent caps the grace',
      { killSignal: undefined, killTimeoutMs: 60_000 },
      30_000,
      30_000,
      'SIGINT@0',
    ],
    [
      'a ladder with its own times',
      {
        killTimeoutMs: 20_000,
        stopSignals: ladder({ signal: 'SIGTERM', waitMs: 15_000 }, { signal: 'SIGINT', waitMs: 5_000 }),
      },
      30_000,
      20_000,
      'SIGTERM@0 SIGINT@15000',
    ],
    [
      'those without a time share what is left',
      {
        killTimeoutMs: 20_000,
        stopSignals: ladder(
          { signal: 'SIGTERM', waitMs: 10_000 },
          { signal: 'SIGINT', waitMs: undefined },
          { signal: 'SIGQUIT', waitMs: undefined },
        ),
      },
      30_000,
      20_000,
      'SIGTERM@0 SIGINT@10000 SIGQUIT@15000',
    ],
    [
      'a cap shortens all of it in proportion',
      {
        killTimeoutMs: 40_000,
        stopSignals: ladder({ signal: 'SIGTERM', waitMs: 20_000 }, { signal: 'SIGINT', waitMs: 20_000 }),
      },
      10_000,
      10_000,
      'SIGTERM@0 SIGINT@5000',
    ],
    [
      'no time at all: the last signal, then SIGKILL',
      {
        killTimeoutMs: 0,
        stopSignals: ladder(
          { signal: 'SIGTERM', waitMs: undefined },
          { signal: 'SIGINT', waitMs: undefined },
        ),
      },
      30_000,
      0,
      'SIGTERM@0 SIGINT@0',
    ],
  ];
  for (const [name, task, maxKillTimeoutMs, graceMs, rungs] of table) {
    it(name, () => {
      const plan = planStop(aTask(task), { ...AGENT, maxKillTimeoutMs });
      assert.equal(plan.graceMs, graceMs);
      assert.equal(plan.rungs.map(({ signal, afterMs }) => `${signal}@${afterMs}`).join(' '), rungs);
    });
  }

  it('rungs come in order within the grace, and each is found at its time', () => {
    const waits = fc.array(fc.option(fc.nat(10_000), { nil: undefined }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(waits, fc.nat(100_000), fc.nat(60_000), (times, extraMs, maxKillTimeoutMs) => {
        const named = times.reduce((sum: number, waitMs) => sum + (waitMs ?? 0), 0);
        const stopSignals = times.map((waitMs, index) => ({ signal: `SIGRTMIN+${index}`, waitMs }));
        const task = aTask({ stopSignals, killTimeoutMs: named + extraMs });
        const plan = planStop(task, { ...AGENT, maxKillTimeoutMs });
        assert.ok(plan.graceMs <= maxKillTimeoutMs);
        let lastMs = 0;
        for (const [index, rung] of plan.rungs.entries()) {
          assert.ok(rung.afterMs >= lastMs && rung.afterMs <= plan.graceMs + 1);
          lastMs = rung.afterMs;
          const at = rungAt(plan, rung.afterMs);
          assert.ok(at.index >= index);
          assert.equal(plan.rungs[at.index]?.afterMs, rung.afterMs);
          assert.ok(at.nextInMs === undefined || at.nextInMs > 0);
        }
        assert.equal(rungAt(plan, Number.MAX_SAFE_INTEGER).nextInMs, undefined);
      }),
    );
  });
});
