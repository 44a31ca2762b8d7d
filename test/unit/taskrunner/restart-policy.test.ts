/** What follows an attempt that ended: the table of the acceptance list (TestClient_RestartTracker_…), and its rules. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import type { JobType, RestartPolicy } from '../../../src/jobspec/types.js';
import type { Moment, RestartWindow } from '../../../src/state/store.js';
import {
  decideRestart,
  elapsedMs,
  afterSuccess,
  type AttemptEnd,
  type RestartDecision,
} from '../../../src/taskrunner/restart-policy.js';
import { EXIT_0, EXIT_1, signaled } from '../../helpers/scripted-driver.js';
import { aPolicy } from '../../helpers/specs.js';

const DAY_MS = 24 * 3_600_000;
const failed: AttemptEnd = { kind: 'exit', result: EXIT_1, ranForMs: 10 };
const succeeded: AttemptEnd = { kind: 'exit', result: EXIT_0, ranForMs: 10 };
const recoverable: AttemptEnd = { kind: 'start_error', recoverable: true };
const unrecoverable: AttemptEnd = { kind: 'start_error', recoverable: false };

function at(monoMs: number, over: Partial<Moment> = {}): Moment {
  return { monoMs, wallMs: 1_700_000_000_000 + monoMs, bootId: 'boot-1', ...over };
}

/** Decides about one end after the other, each at its moment; `roll` is what chance gives. */
function history(
  policy: RestartPolicy,
  type: JobType,
  ends: readonly { readonly end: AttemptEnd; readonly at: Moment }[],
  roll = 0,
): RestartDecision[] {
  let window: RestartWindow | undefined;
  return ends.map(({ end, at: moment }) => {
    const decision = decideRestart(policy, afterSuccess(type, 'main'), window, end, { at: moment, roll });
    window = decision.window;
    return decision;
  });
}

const everySecond = (end: AttemptEnd, times: number): { end: AttemptEnd; at: Moment }[] =>
  Array.from({ length: times }, (_, i) => ({ end, at: at(1_000 * i) }));
const kinds = (decisions: readonly RestartDecision[]): string[] => decisions.map(({ kind }) => kind);

describe('restart policy', () => {
  for (const [name, end] of [
    ['ModeDelay', failed],
    ['StartError_Recoverable_Delay', recoverable],
  ] as const) {
    it(`${name}: the delay within the policy, then until the interval ends, for ever`, () => {
      const decisions = history(aPolicy({ mode: 'delay' }), 'service', everySecond(end, 6), 0.999);
      for (const [i, decision] of decisions.entries()) {
        assert.equal(decision.kind, 'restart');
        if (i < 3) assert.ok(decision.afterMs >= 1_000 && decision.afterMs < 1_250, `${decision.afterMs}`);
        else assert.ok(decision.afterMs > 1_000 && decision.afterMs <= 300_000, `${decision.afterMs}`);
      }
    });
  }

  for (const [name, end] of [
    ['ModeFail', failed],
    ['StartError_Recoverable_Fail', recoverable],
  ] as const) {
    it(`${name}: as many restarts as there are attempts, then none`, () => {
      const decisions = history(aPolicy(), 'service', everySecond(end, 4));
      assert.deepEqual(kinds(decisions), ['restart', 'restart', 'restart', 'give_up']);
    });
  }

  it('StartError_Unrecoverable: never again, whatever the policy', () => {
    const [decision] = history(aPolicy({ mode: 'delay' }), 'service', everySecond(unrecoverable, 1));
    assert.equal(decision?.kind, 'give_up');
    assert.match(decision.reason, /unrecoverable/);
  });

  it('NoRestartOnSuccess: a batch task that exits 0 is complete', () => {
    for (const type of ['batch', 'sysbatch'] as const)
      assert.deepEqual(kinds(history(aPolicy(), type, everySecond(succeeded, 1))), ['complete']);
  });

  it('Lifecycle: a service or system task that exits 0 is restarted, and all are when they fail', () => {
    for (const type of ['service', 'system', 'batch', 'sysbatch'] as const) {
      const onSuccess: string | undefined = kinds(history(aPolicy(), type, everySecond(succeeded, 1)))[0];
      assert.equal(onSuccess, afterSuccess(type, 'main'));
      assert.deepEqual(kinds(history(aPolicy(), type, everySecond(failed, 1))), ['restart']);
    }
  });

  it('Lifecycle: sidecars run on in every type of job, what runs once does not', () => {
    for (const type of ['service', 'system', 'batch', 'sysbatch'] as const) {
      for (const role of ['prestart_sidecar', 'poststart_sidecar'] as const)
        assert.equal(afterSuccess(type, role), 'restart');
      for (const role of ['prestart', 'poststart', 'poststop'] as const)
        assert.equal(afterSuccess(type, role), 'complete');
    }
    assert.deepEqual(
      (['service', 'system', 'batch', 'sysbatch'] as const).map((type) => afterSuccess(type, 'main')),
      ['restart', 'restart', 'complete', 'complete'],
    );
  });

  const zeroAttempts: readonly (readonly [JobType, AttemptEnd, string])[] = [
    ['service', failed, 'give_up'],
    ['service', succeeded, 'give_up'],
    ['service', recoverable, 'give_up'],
    ['batch', succeeded, 'complete'],
    ['batch', failed, 'give_up'],
  ];
  for (const [type, end, kind] of zeroAttempts) {
    it(`ZeroAttempts: ${type}, ${JSON.stringify(end)}: ${kind}`, () => {
      assert.deepEqual(kinds(history(aPolicy({ attempts: 0 }), type, everySecond(end, 1))), [kind]);
    });
  }

  it('a run that did its work uses no restart', () => {
    const at = { wallMs: 0, monoMs: 0, bootId: 'b' };
    const before = { opened: at, used: 1 };
    for (const window of [undefined, before]) {
      const now = { at: { ...at, monoMs: 5, wallMs: 5 }, roll: 0 };
      const decision = decideRestart(aPolicy(), 'complete', window, succeeded, now);
      assert.deepEqual(decision, { kind: 'complete', window });
    }
  });

  it('only code 0 without a signal is a success', () => {
    for (const result of [
      EXIT_1,
      signaled(15),
      { kind: 'unknown', reason: 'executor_lost', detail: '' },
    ] as const) {
      assert.deepEqual(
        kinds(history(aPolicy(), 'batch', everySecond({ kind: 'exit', result, ranForMs: 1 }, 1))),
        ['restart'],
      );
    }
  });

  it('a delay grows by its factor up to its maximum', () => {
    const policy = aPolicy({ attempts: 6, factor: 3, maxDelayMs: 20_000 });
    const delays = history(policy, 'service', everySecond(failed, 6)).map((d) =>
      d.kind === 'restart' ? d.afterMs : -1,
    );
    assert.deepEqual(delays, [1_000, 3_000, 9_000, 20_000, 20_000, 20_000]);
  });

  it('a delay that grows without bound stays a number of milliseconds', () => {
    const policy = aPolicy({ attempts: 5_000, factor: 10, intervalMs: 10 * 365 * DAY_MS });
    const delays = history(policy, 'service', everySecond(failed, 400)).map((d) =>
      d.kind === 'restart' ? d.afterMs : -1,
    );
    assert.ok(delays.every((ms) => Number.isFinite(ms) && ms > 0));
  });

  it('a run that lasted reset_after clears the count', () => {
    const policy = aPolicy({ attempts: 1, resetAfterMs: 60_000 });
    const long: AttemptEnd = { kind: 'exit', result: EXIT_1, ranForMs: 60_000 };
    const ends = [failed, long, failed].map((end, i) => ({ end, at: at(1_000 * i) }));
    assert.deepEqual(kinds(history(policy, 'service', ends)), ['restart', 'restart', 'give_up']);
  });

  it('an attempt released exactly at the end of the interval is counted in the next one', () => {
    const policy = aPolicy({ attempts: 1, mode: 'delay' });
    const ends = [0, 1_000, 300_000, 301_000].map((ms) => ({ end: failed, at: at(ms) }));
    const reasons = history(policy, 'service', ends).map((d) => (d.kind === 'restart' ? d.afterMs : -1));
    assert.deepEqual(reasons, [1_000, 299_000, 1_000, 299_000]);
  });

  describe('the window', () => {
    const policy = aPolicy({ attempts: 1 });
    const second = (moment: Moment): string | undefined =>
      kinds(
        history(policy, 'service', [
          { end: failed, at: at(1_000) },
          { end: failed, at: moment },
        ]),
      )[1];

    it('survives a restart of the agent: the record holds it', () => {
      const window: RestartWindow = { opened: at(1_000), used: 1 };
      const now = { at: at(5_000), roll: 0 };
      assert.equal(decideRestart(policy, 'restart', window, failed, now).kind, 'give_up');
    });

    for (const stepMs of [-DAY_MS, DAY_MS]) {
      it(`does not notice a step of the wall clock by ${stepMs} ms`, () => {
        const stepped = (monoMs: number): Moment => at(monoMs, { wallMs: at(monoMs).wallMs + stepMs });
        assert.equal(second(stepped(2_000)), 'give_up');
        assert.equal(second(stepped(301_000)), 'restart');
      });
    }

    it('counts on by the wall clock after a reboot', () => {
      const later = (ms: number): Moment => ({ monoMs: 5, wallMs: at(1_000).wallMs + ms, bootId: 'boot-2' });
      assert.equal(second(later(299_999)), 'give_up');
      assert.equal(second(later(300_000)), 'restart');
    });

    it('goes over to the clock of the new boot, where the wall clock is not asked again', () => {
      const wide = aPolicy({ attempts: 5 });
      // A day back across the reboot: nothing of the window seems to have passed.
      const booted: Moment = { monoMs: 5_000, wallMs: at(0).wallMs - DAY_MS, bootId: 'boot-2' };
      const inHalf = { ...booted, monoMs: 155_000, wallMs: booted.wallMs + 150_000 };
      const inFull = { ...booted, monoMs: 305_000, wallMs: booted.wallMs + 300_000 };
      const decisions = history(
        wide,
        'service',
        [at(0), booted, inHalf, inFull].map((moment) => ({ end: failed, at: moment })),
      );
      assert.deepEqual(
        decisions.map(({ window }) => window?.used),
        [1, 2, 3, 1],
      );
    });

    it('is never negative', () => {
      assert.equal(elapsedMs(at(10), at(5)), 0);
      assert.equal(elapsedMs(at(10), { ...at(5), bootId: 'boot-2', wallMs: 0 }), 0);
    });
  });
});

describe('restart policy, as a rule', () => {
  const arbPolicy = fc.record({
    attempts: fc.integer({ min: 0, max: 6 }),
    intervalMs: fc.integer({ min: 1, max: 600_000 }),
    delayMs: fc.integer({ min: 0, max: 100_000 }),
    mode: fc.constantFrom('fail' as const, 'delay' as const),
    factor: fc.double({ min: 1, max: 4, noNaN: true }),
    maxDelayMs: fc.option(fc.integer({ min: 0, max: 200_000 }), { nil: undefined }),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    resetAfterMs: fc.constant(undefined),
  });
  /** Time from one end to the next, beyond the delay that was decided; and the step of the wall clock in between. */
  const arbGaps = fc.array(
    fc.record({
      ranForMs: fc.integer({ min: 0, max: 400_000 }),
      wallStepMs: fc.constantFrom(0, 0, DAY_MS, -DAY_MS),
      end: fc.constantFrom(failed, recoverable, succeeded),
    }),
    { maxLength: 40 },
  );
  const arbRoll = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

  it('restarts at most `attempts` times within any interval by the delay of the policy', () => {
    fc.assert(
      fc.property(arbPolicy, arbGaps, arbRoll, (policy, gaps, roll) => {
        let window: RestartWindow | undefined;
        let monoMs = 0;
        let wallMs = 1_700_000_000_000;
        const restarts: { readonly openedAtMs: number }[] = [];
        for (const { ranForMs, wallStepMs, end } of gaps) {
          monoMs += ranForMs;
          wallMs += ranForMs + wallStepMs;
          const now = { at: { monoMs, wallMs, bootId: 'b' }, roll };
          const decision = decideRestart(policy, 'restart', window, end, now);
          window = decision.window;
          if (decision.kind !== 'restart') break;
          assert.ok(decision.afterMs >= 0 && Number.isFinite(decision.afterMs));
          const openedAtMs = decision.window.opened.monoMs;
          assert.ok(monoMs - openedAtMs < policy.intervalMs, 'the window is the one of now');
          if (decision.window.used > policy.attempts) {
            assert.equal(policy.mode, 'delay');
            assert.ok(monoMs + decision.afterMs >= openedAtMs + policy.intervalMs, 'not before it ends');
          } else {
            restarts.push({ openedAtMs });
            const most = Math.min(
              policy.delayMs * policy.factor ** (decision.window.used - 1),
              policy.maxDelayMs ?? Number.POSITIVE_INFINITY,
            );
            assert.ok(
              decision.afterMs >= most - 1e-6 && decision.afterMs <= most * (1 + policy.jitter) + 1e-6,
            );
          }
          monoMs += decision.afterMs;
          wallMs += decision.afterMs;
        }
        for (const { openedAtMs } of restarts) {
          const inWindow = restarts.filter((other) => other.openedAtMs === openedAtMs);
          assert.ok(inWindow.length <= policy.attempts);
        }
      }),
    );
  });

  it('does not depend on the wall clock within one boot', () => {
    fc.assert(
      fc.property(
        arbPolicy,
        fc.integer({ min: 0, max: 10 }),
        fc.integer(),
        arbRoll,
        (policy, used, stepMs, roll) => {
          const window: RestartWindow = { opened: at(0), used };
          const decide = (wallMs: number): unknown => {
            const decision = decideRestart(policy, 'restart', window, failed, {
              at: at(1_000, { wallMs }),
              roll,
            });
            return decision.kind === 'restart' ? [decision.afterMs, decision.window.used] : decision.kind;
          };
          assert.deepEqual(decide(at(1_000).wallMs + stepMs), decide(at(1_000).wallMs));
        },
      ),
    );
  });
});
