/**
 * What holds for a task whatever happens to it, in whatever order, however late or stale: random walks over step(), with
 * restarts of the agent in between.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from '../../helpers/properties.js';
import type { RunnerEvent } from '../../../src/taskrunner/machine.js';
import { faultInHistory } from '../../helpers/event-order.js';
import { EXIT_0, EXIT_1, signaled } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';
import { REF, Story } from '../../helpers/story.js';

/** One thing that may happen; `stale` makes it about a run, attempt or timer that is not the one in hand. */
type Happening = (story: Story, stale: boolean) => RunnerEvent | 'agent restarted' | 'time passes';

const runOf = (story: Story, stale: boolean): string => (stale ? 'run-of-old' : story.runId);
const drivers: Happening[] = [
  (s, stale) => ({ kind: 'started', runId: runOf(s, stale), ref: REF, startedAtMs: s.wallMs }),
  (s, stale) => ({ kind: 'started', runId: runOf(s, stale), ref: REF, startedAtMs: s.wallMs }),
  (s, stale) => ({
    kind: 'start_failed',
    runId: runOf(s, stale),
    event: { type: 'Driver Failure', error: '' },
    error: '',
    recoverable: !stale,
  }),
  (s, stale) => ({ kind: 'start_uncertain', runId: runOf(s, stale), error: '' }),
  (s, stale) => ({ kind: 'recovered_running', runId: runOf(s, stale), ref: REF, startedAtMs: s.wallMs }),
  (s, stale) => ({ kind: 'recovered_running', runId: runOf(s, stale), ref: REF, startedAtMs: s.wallMs }),
  (s, stale) => ({ kind: 'recovered_start_failed', runId: runOf(s, stale), error: '', recoverable: !stale }),
  (s, stale) => ({ kind: 'recovered_never_started', runId: runOf(s, stale), detail: '' }),
  (s, stale) => ({ kind: 'unreachable', runId: runOf(s, stale), detail: '' }),
  (s, stale) => ({ kind: 'exited', runId: runOf(s, stale), report: s.report(EXIT_0) }),
  (s, stale) => ({ kind: 'exited', runId: runOf(s, stale), report: s.report(EXIT_1) }),
  (s, stale) => ({ kind: 'exited', runId: runOf(s, stale), report: s.report(signaled(9)) }),
  (s, stale) => ({ kind: 'stop_failed', runId: runOf(s, stale), error: '' }),
];
const inside: Happening[] = [
  () => ({ kind: 'gate_open' }),
  ...(['prestart', 'prestart', 'prestart', 'poststart', 'pre_kill', 'exited', 'stop'] as const).map(
    (phase): Happening =>
      (s, stale) => ({ kind: 'hooks_done', phase, attempt: s.state.record.attempts - (stale ? 1 : 0) }),
  ),
  (_s, stale) => ({
    kind: 'prestart_failed',
    event: { type: 'Task hook failed', hook: 'h', error: '' },
    recoverable: !stale,
    cancelled: false,
  }),
  // Answers at once: the shell lets nothing come between an intent and its refusal.
  () => ({ kind: 'not_stored', error: '' }),
  (s, stale) => ({ kind: 'timer', id: s.state.timer - (stale ? 1 : 0) }),
  (s, stale) => ({ kind: 'timer', id: s.state.timer - (stale ? 1 : 0) }),
  () => 'time passes',
];
const asked: Happening[] = [
  (_s, stale) => ({
    kind: 'kill',
    reason: 'stopped',
    skipDelay: stale,
    because: stale ? { type: 'Sibling Task Failed', sibling: 'x' } : undefined,
  }),
  () => ({ kind: 'restart', reason: 'by hand' }),
  () => ({ kind: 'restart', reason: 'a check', byPolicy: true }),
  (_, stale) => ({ kind: 'renew', generation: stale ? 1 : 2, reason: 'as asked' }),
  () => ({ kind: 'signal', signal: 'SIGHUP', reason: '' }),
  () => ({ kind: 'finish' }),
  () => ({ kind: 'update', task: aTask({ shutdownDelayMs: 5 }), jobType: 'batch' }),
  () => ({ kind: 'say', event: { type: 'Driver', message: '' } }),
  () => ({ kind: 'shutdown' }),
  () => 'agent restarted',
];

function take(story: Story, happening: Happening, stale: boolean): void {
  const event = happening(story, stale);
  if (event === 'time passes') {
    story.pass(stale ? 400_000 : 1_000);
    return;
  }
  if (typeof event === 'object' && event.kind === 'not_stored' && !justIntended(story)) return;
  const before = story.state;
  const result = event === 'agent restarted' ? story.again() : story.tell(event);
  const { record } = result.state;

  const starts = result.effects.filter((effect) => effect.kind === 'start');
  const intents = result.runChanges.filter((change) => change.kind === 'intend');
  assert.deepEqual(
    starts.map(({ runId }) => runId),
    intents.map(({ runId }) => runId),
    'a run is started only with its intent',
  );
  for (const { runId } of starts) {
    assert.equal(starts.length, 1);
    assert.equal(before.record.runId, undefined, 'never two runs');
    assert.equal(record.runId, runId);
    assert.equal(before.record.killReason, undefined, 'a killed task is never started');
    assert.deepEqual(result.events, [], 'nothing is said in a step that the store may refuse');
  }
  const released = result.effects.filter((effect) => effect.kind === 'release').map(({ runId }) => runId);
  const outcomes = result.runChanges.filter((change) => change.kind === 'outcome').map(({ runId }) => runId);
  assert.deepEqual(released, outcomes, 'released with its outcome, never without');
  if (record.runId !== before.record.runId && before.record.runId !== undefined)
    assert.ok(outcomes.includes(before.record.runId) || event === 'agent restarted' || isRefusal(event));

  for (const [place, { seq }] of result.events.entries())
    assert.equal(seq, before.record.lastEventSeq + 1 + place, 'numbered without a gap');
  assert.equal(record.lastEventSeq, before.record.lastEventSeq + result.events.length);
  if (before.record.phase === 'complete') assert.deepEqual(result.events, [], 'nothing after the end');
  if (before.mode.at === 'left' && event !== 'agent restarted') assert.deepEqual(result.effects, []);
  assert.equal(record.state === 'dead', ['dead', 'complete'].includes(record.phase));
  assert.equal(record.recentEvents.length, Math.min(10, record.lastEventSeq));
  assert.equal(record.eventsDropped, Math.max(0, record.lastEventSeq - 10));
}

function isRefusal(event: RunnerEvent | string): boolean {
  return typeof event === 'object' && event.kind === 'not_stored';
}

function justIntended(story: Story): boolean {
  return story.effects.some((effect) => effect.kind === 'start');
}

it('a task’s life keeps its promises over any history', () => {
  const arbHappening = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...drivers) },
    { weight: 4, arbitrary: fc.constantFrom(...inside) },
    { weight: 1, arbitrary: fc.constantFrom(...asked) },
  );
  const arbSteps = fc.array(fc.tuple(arbHappening, fc.integer({ min: 0, max: 4 })), {
    maxLength: 150,
    size: 'max',
  });
  const arbTask = fc.record({
    attempts: fc.constantFrom(0, 1, 3),
    mode: fc.constantFrom('fail' as const, 'delay' as const),
    shutdownDelayMs: fc.constantFrom(0, 1_000),
  });
  const reached = new Set<string>();
  fc.assert(
    fc.property(arbTask, arbSteps, ({ attempts, mode, shutdownDelayMs }, steps) => {
      const story = new Story({ task: aTask({ shutdownDelayMs, restart: aPolicy({ attempts, mode }) }) });
      story.begin();
      for (const [happening, freshness] of steps) {
        take(story, happening, freshness === 0);
        reached.add(story.state.mode.at);
      }
      assert.equal(faultInHistory(story.events), undefined);
      const count = (type: string): number => story.said.filter((said) => said === type).length;
      const runs = new Set(
        story.results.flatMap(({ runChanges }) =>
          runChanges.flatMap((change) => (change.kind === 'started' ? change.runId : [])),
        ),
      );
      assert.ok(count('Started') >= runs.size, 'each run that started is said to have');
      assert.ok(count('Terminated') <= count('Started'));
      assert.ok(count('Terminated') >= count('Started') - 1);
    }),
    { numRuns: 2_000, includeErrorInReport: true },
  );
  const modes =
    'waiting prestart store_wait starting recovering running stopping exited backoff dead finishing';
  for (const mode of [...modes.split(' '), 'complete', 'left'])
    assert.ok(reached.has(mode), `reaches ${mode}`);
});
