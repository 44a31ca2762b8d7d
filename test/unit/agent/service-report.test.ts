/** What the service manager is told, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceReport, watchdogEveryMs } from '../../../src/agent/service-report.js';
import { statusLine } from '../../../src/agent/status-line.js';
import { FakeClock } from '../../helpers/fake-clock.js';

type Fields = Readonly<Record<string, string | number>>;

function rig(watchdogMs?: number) {
  const clock = new FakeClock();
  const said: Fields[] = [];
  let listener = (): void => undefined;
  const agent = { status: '1 task running', well: true };
  const report = new ServiceReport({
    clock,
    notifier: { isHeard: true, send: (fields) => said.push(fields), close: () => Promise.resolve() },
    watchdogMs,
  });
  const ready = (): void => {
    report.ready({
      status: () => agent.status,
      onChanged: (changed) => {
        listener = changed;
        return {
          [Symbol.dispose]: () => {
            listener = () => undefined;
          },
        };
      },
      probe: () => {
        if (!agent.well) throw new Error('the store is stuck');
      },
    });
  };
  const change = (status: string): void => {
    agent.status = status;
    listener();
  };
  const take = (): Fields[] => said.splice(0);
  return { clock, report, ready, change, take, agent };
}

test('the status is told at most once a second, the newest wins, and the same is not told twice', async () => {
  const { clock, ready, change, take } = rig();
  ready();
  assert.deepEqual(take(), [{ READY: 1, STATUS: '1 task running' }]);
  change('2 tasks running');
  change('3 tasks running');
  await clock.advance(999);
  assert.deepEqual(take(), []);
  await clock.advance(1);
  assert.deepEqual(take(), [{ STATUS: '3 tasks running' }]);
  change('3 tasks running');
  await clock.advance(5_000);
  assert.deepEqual(take(), []);
  change('no tasks');
  await clock.advance(0);
  assert.deepEqual(take(), [{ STATUS: 'no tasks' }]);
});

test('the watchdog is fed on time, and not while the store does not answer', async () => {
  const { clock, ready, take, agent } = rig(500);
  ready();
  assert.deepEqual(take().slice(1), [{ WATCHDOG: 1 }]);
  await clock.advance(1_000);
  assert.deepEqual(take(), [{ WATCHDOG: 1 }, { WATCHDOG: 1 }]);
  agent.well = false;
  await clock.advance(2_000);
  assert.deepEqual(take(), []);
  agent.well = true;
  await clock.advance(500);
  assert.deepEqual(take(), [{ WATCHDOG: 1 }]);
});

test('a reload says when it began; one that fails says why until the status changes', () => {
  const { clock, report, ready, take } = rig();
  ready();
  take();
  report.reloading();
  report.reloaded('config file:\n bad');
  report.reloading();
  report.reloaded(undefined);
  assert.deepEqual(take(), [
    { RELOADING: 1, MONOTONIC_USEC: clock.monoMs() * 1000 },
    { READY: 1, STATUS: 'reload failed: config file:; bad' },
    { RELOADING: 1, MONOTONIC_USEC: clock.monoMs() * 1000 },
    { READY: 1 },
  ]);
});

test('while it leaves, the watchdog is fed although the store is closed; afterwards nothing is said', async () => {
  const { clock, report, ready, change, take, agent } = rig(500);
  ready();
  take();
  report.stopping();
  agent.well = false;
  change('9 tasks running');
  await clock.advance(1_000);
  assert.deepEqual(take(), [
    { STOPPING: 1, STATUS: 'leaving; tasks keep running' },
    { WATCHDOG: 1 },
    { WATCHDOG: 1 },
  ]);
  await report.close();
  await clock.advance(5_000);
  assert.deepEqual(take(), []);
  assert.deepEqual(clock.pendingMs(), []);
});

test('the watchdog is fed at half its time, and only by the process that it is meant for', () => {
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '30000000' }, 7), 15_000);
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' }, 7), 15_000);
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' }, 7), undefined);
  for (const rubbish of ['', '0', '-5', 'soon', 'Infinity']) {
    assert.equal(watchdogEveryMs({ WATCHDOG_USEC: rubbish }, 7), undefined, rubbish);
  }
  assert.equal(watchdogEveryMs({}, 7), undefined);
});

test('the status line counts tasks by what they do; what is over does not count', () => {
  assert.equal(statusLine([]), 'no tasks');
  assert.equal(statusLine(['complete', 'dead', 'exited']), 'no tasks');
  assert.equal(statusLine(['running']), '1 task running');
  assert.equal(statusLine(['backoff', 'running', 'running', 'complete']), '2 tasks running, 1 backing off');
  assert.equal(
    statusLine(['stopping', 'unkillable', 'waiting', 'prestart', 'starting']),
    '3 tasks starting, 2 stopping',
  );
});
