import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { taskStatus } from '../../../src/cli/render/task-status.js';
import { decideVerdict } from '../../../src/cli/render/verdict.js';
import type { PsRow } from '../../../src/cli/render/ps.js';
import {
  alloc,
  backoffRow,
  exited,
  failedRow,
  NOW_MS,
  row,
  runningRow,
  signaled,
  taskEvent,
  taskState,
} from './samples.js';

function text(view: PsRow): string {
  return taskStatus(view, NOW_MS).text;
}

describe('the status of a task', () => {
  const running = alloc('7a1c');
  const stopped = alloc('7a1c', { DesiredStatus: 'stop', ClientStatus: 'complete' });
  const table: readonly (readonly [string, PsRow])[] = [
    ['running', runningRow()],
    ['backoff, retry in 12s (2/3 used; exited 3)', backoffRow()],
    ['failed: killed by SIGKILL (OOM killed)', failedRow()],
    ['starting', row({ alloc: running, state: taskState('starting') })],
    [
      'waiting: for the prestart task',
      row({ alloc: running, state: taskState('waiting', {}, { PhaseDetail: 'for the prestart task' }) }),
    ],
    [
      'stopping: job stopped',
      row({ alloc: running, state: taskState('stopping', {}, { PhaseDetail: 'job stopped' }) }),
    ],
    [
      'unkillable: pid 7 in state D',
      row({ alloc: running, state: taskState('unkillable', {}, { PhaseDetail: 'pid 7 in state D' }) }),
    ],
    [
      'running: cannot be reached, trying again: no answer',
      row({
        alloc: running,
        state: taskState('running', {}, { PhaseDetail: 'cannot be reached, trying again: no answer' }),
      }),
    ],
    ['complete', row({ alloc: running, state: taskState('complete', {}, { LastExit: exited(0) }) })],
    [
      'stopped',
      row({ alloc: stopped, state: taskState('complete', {}, { LastExit: signaled(2, 'SIGINT') }) }),
    ],
    [
      'stopped: task "db" of the group failed',
      row({
        alloc: running,
        state: taskState(
          'complete',
          {},
          { LastExit: signaled(2, 'SIGINT'), KillReason: 'task "db" of the group failed' },
        ),
      }),
    ],
    [
      'lost: host went away',
      row({ alloc: alloc('7a1c', { ClientStatus: 'lost', ClientDescription: 'host went away' }) }),
    ],
    ['pending', row({ alloc: alloc('7a1c', { ClientStatus: 'pending' }) })],
  ];
  for (const [expected, view] of table) {
    it(expected, () => {
      assert.equal(text(view), expected);
    });
  }

  it('does not call well what is out of reach', () => {
    const state = taskState('running', {}, { PhaseDetail: 'cannot be reached, trying again: no answer' });
    const { tone, trouble } = taskStatus(row({ alloc: running, state }), NOW_MS);
    assert.deepEqual({ tone, trouble }, { tone: 'warn', trouble: 'retrying' });
  });

  it('says in delay mode that the restarts of the interval are used up', () => {
    const over = backoffRow();
    assert.equal(
      text({ ...over, restartsAllowed: 1 }),
      'backoff, retry in 12s (all 1 restarts of its interval used; exited 3)',
    );
  });

  it('names what kept a task from starting when there is no exit', () => {
    const setup = taskEvent({
      Type: 'Template',
      FailsTask: true,
      DisplayMessage: 'user "app" is unknown',
    });
    const state = taskState('dead', { Failed: true, Events: [setup] });
    assert.equal(text(row({ alloc: running, state })), 'failed: user "app" is unknown');
  });

  it('names what kept the last attempt from starting, not an older exit', () => {
    const events = [
      taskEvent({ Type: 'Terminated', DisplayMessage: 'Task exited 3' }),
      taskEvent({ Type: 'Driver Failure', DriverError: 'x', DisplayMessage: 'cannot run /opt/x: ENOENT' }),
      taskEvent({ Type: 'Not Restarting', FailsTask: true, DisplayMessage: 'Policy allows no restarts' }),
    ];
    const own = { LastExit: exited(3) };
    const state = taskState('dead', { Failed: true, Events: events }, own);
    assert.equal(text(row({ alloc: running, state })), 'failed: cannot run /opt/x: ENOENT');
    const ranLast = taskState('dead', { Failed: true, Events: events.toReversed() }, own);
    assert.equal(text(row({ alloc: running, state: ranLast })), 'failed: exited 3');
  });

  it('names the hook, or the config, that kept it from starting, and not that policy allows no more', () => {
    const at = (...events: readonly Parameters<typeof taskEvent>[0][]): string => {
      const own = events.some(({ Type }) => Type === 'Terminated') ? { LastExit: exited(3) } : {};
      const state = taskState('dead', { Failed: true, Events: events.map(taskEvent) }, own);
      return text(row({ alloc: running, state }));
    };
    const over = { Type: 'Not Restarting', FailsTask: true, DisplayMessage: 'Policy allows no restarts' };
    const hook = { Type: 'Task hook failed', DisplayMessage: 'volumes: no host volume "x"' };
    const invalid = { Type: 'Failed Validation', ValidationError: 'x', DisplayMessage: '`cap_add`: no' };
    const ended = { Type: 'Terminated', DisplayMessage: 'Task exited 3' };
    const again = { Type: 'Restarting', DisplayMessage: 'Task restarting in 1s' };
    assert.equal(at(hook, over), 'failed: volumes: no host volume "x"');
    assert.equal(at(invalid, over), 'failed: `cap_add`: no');
    assert.equal(at(ended, again, hook, over), 'failed: volumes: no host volume "x"');
    // One that cleans up after a run is no reason of its end, nor after the last.
    assert.equal(at({ Type: 'Started' }, hook, ended, hook, over), 'failed: exited 3');
    assert.equal(at(ended, again, invalid, over, hook), 'failed: `cap_add`: no');
  });

  it('names why a task was ended as failed, not the signal that ended it', () => {
    const own = { LastExit: signaled(2, 'SIGINT'), KillReason: 'template local/x: line 1: bad' };
    const state = taskState('dead', { Failed: true }, own);
    assert.equal(text(row({ alloc: running, state })), 'failed: template local/x: line 1: bad');
  });

  it('never says that a retry is due in 0 seconds before it is', () => {
    const state = taskState('backoff', {}, { NextStart: new Date(NOW_MS + 1).toISOString() });
    assert.match(text(row({ alloc: running, state })), /retry in 1s/);
  });
});

describe('a verdict', () => {
  it('is that of the worst task', () => {
    const word = (...rows: PsRow[]): string => decideVerdict(rows, NOW_MS).word;
    assert.equal(word(runningRow()), 'running');
    assert.equal(word(runningRow(), backoffRow()), 'backoff');
    assert.equal(word(backoffRow(), failedRow(), runningRow()), 'failed');
    const over = row({ alloc: alloc('7a1c'), state: taskState('complete', {}, { LastExit: exited(0) }) });
    assert.equal(word(over), 'complete');
    assert.equal(word(over, runningRow()), 'running');
  });
});
