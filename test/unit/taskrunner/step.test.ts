/**
 * The life of a task as step() tells it. Names in capitals or with an underscore are those of the acceptance list: each
 * such test pins the row of that name.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { faultInHistory } from '../../helpers/event-order.js';
import { EXIT_0, EXIT_1, signaled } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';
import { REF, Story } from '../../helpers/story.js';

const DAY_MS = 24 * 3_600_000;
const SETUP = ['Received', 'Task Setup'];
const KILLED = ['Killing', 'Terminated', 'Killed'];
const attempts = (n: number, over = {}) => aTask({ restart: aPolicy({ attempts: n }), ...over });
const kindsOf = (story: Story): string[] => story.effects.map((effect) => effect.kind);

describe('canonical event sequences', () => {
  const table: readonly (readonly [string, () => Story, readonly string[], string])[] = [
    [
      'happy (SimpleRun)',
      () => new Story({ jobType: 'batch' }).up().exits(EXIT_0),
      [...SETUP, 'Started', 'Terminated'],
      'dead',
    ],
    [
      'killed while running (Stop_ExitCode)',
      () => {
        const story = new Story().up();
        story.kill();
        return story.hooks('pre_kill').exits(signaled(15));
      },
      [...SETUP, 'Started', ...KILLED],
      'dead',
    ],
    [
      'killed with a shutdown delay (ShutdownDelay)',
      () => {
        const story = new Story({ task: aTask({ shutdownDelayMs: 1_000 }) }).up();
        story.kill();
        story.hooks('pre_kill').timer();
        return story.exits(signaled(15));
      },
      [...SETUP, 'Started', 'Waiting for Shutdown Delay', ...KILLED],
      'dead',
    ],
    [
      'killed without its shutdown delay (NoShutdownDelay)',
      () => {
        const story = new Story({ task: aTask({ shutdownDelayMs: 1_000 }) }).up();
        story.kill({ skipDelay: true });
        return story.hooks('pre_kill').exits(signaled(15));
      },
      [...SETUP, 'Started', 'Skipping Shutdown Delay', ...KILLED],
      'dead',
    ],
    [
      'the delay is cut short by a second kill',
      () => {
        const story = new Story({ task: aTask({ shutdownDelayMs: 1_000 }) }).up();
        story.kill();
        story.hooks('pre_kill').kill({ skipDelay: true });
        return story.exits(signaled(15));
      },
      [...SETUP, 'Started', 'Waiting for Shutdown Delay', 'Skipping Shutdown Delay', ...KILLED],
      'dead',
    ],
    [
      'killed while it waits for the gate',
      () => {
        const story = new Story().begin();
        story.kill();
        return story;
      },
      ['Received', 'Killed'],
      'dead',
    ],
    [
      'killed in the restart delay',
      () => {
        const story = new Story().up().exits(EXIT_1);
        story.kill();
        return story;
      },
      [...SETUP, 'Started', 'Terminated', 'Restarting', 'Killed'],
      'dead',
    ],
    [
      'Run_RecoverableStartError: one restart, then none',
      () => {
        const story = new Story({ task: attempts(1) }).begin().gate();
        story.tell({ kind: 'say', event: { type: 'Task Setup', message: '' } });
        story.hooks('prestart').startFails(true).timer();
        return story.hooks('prestart').startFails(true);
      },
      [...SETUP, 'Driver Failure', 'Restarting', 'Driver Failure', 'Not Restarting'],
      'dead',
    ],
    [
      'an unrecoverable start error',
      () => new Story().begin().gate().hooks('prestart').startFails(false),
      ['Received', 'Driver Failure', 'Not Restarting'],
      'dead',
    ],
    [
      'RestartTask: asked for, beyond the policy',
      () => {
        const story = new Story({ task: attempts(0) }).up();
        story.tell({ kind: 'restart', reason: 'by hand' });
        story.hooks('pre_kill').exits(signaled(15)).timer();
        return story.hooks('prestart').started();
      },
      [...SETUP, 'Started', 'Restart Signaled', 'Killing', 'Terminated', 'Restarting', 'Started'],
      'running',
    ],
    [
      'TaskFailed_KillTG: the sibling',
      () => {
        const story = new Story().up();
        story.kill({ sibling: 'other' });
        return story.hooks('pre_kill').exits(signaled(15));
      },
      [...SETUP, 'Started', 'Sibling Task Failed', ...KILLED],
      'dead',
    ],
  ];
  for (const [name, tell, expected, phase] of table) {
    it(name, () => {
      const story = tell();
      assert.deepEqual(story.said, expected);
      assert.equal(story.phase, phase);
      assert.equal(faultInHistory(story.events), undefined);
    });
  }

  it('a stopped task reports its real exit (Stop_ExitCode)', () => {
    const story = new Story().up();
    story.kill();
    story.hooks('pre_kill').exits(signaled(15));
    assert.deepEqual(story.state.record.lastExit, signaled(15));
    assert.equal(story.state.record.failed, false);
  });
});

describe('what happens when …', () => {
  it('prestart fails and may be tried again: by the policy', () => {
    const story = new Story({ task: attempts(1) }).begin().gate();
    const failure = { type: 'Task hook failed' as const, hook: 'artifact', error: 'no' };
    for (let i = 0; i < 2; i++) {
      if (i > 0) story.timer();
      story.tell({ kind: 'prestart_failed', event: failure, recoverable: true, cancelled: false });
    }
    assert.deepEqual(story.said.slice(1), [
      'Task hook failed',
      'Restarting',
      'Task hook failed',
      'Not Restarting',
    ]);
    assert.equal(story.state.record.failed, true);
  });

  it('kill comes during prestart: a cancelled hook has not failed', () => {
    const story = new Story().begin().gate();
    story.kill();
    assert.deepEqual(kindsOf(story), ['abort_hooks']);
    const event = { type: 'Task hook failed' as const, hook: 'x', error: 'cancelled' };
    story.tell({ kind: 'prestart_failed', event, recoverable: true, cancelled: true });
    assert.deepEqual(story.said, ['Received', 'Killed']);
    assert.equal(story.state.record.failed, false);
  });

  it('kill comes during prestart and the hook ends well: nothing is started', () => {
    const story = new Story().begin().gate();
    story.kill();
    story.hooks('prestart');
    assert.equal(story.phase, 'dead');
    assert.deepEqual(kindsOf(story), []);
  });

  it('shutdown comes during prestart: nothing is stored', () => {
    const story = new Story().begin().gate();
    const before = story.state.record;
    story.tell({ kind: 'shutdown' });
    assert.deepEqual(kindsOf(story), ['abort_hooks', 'detach', 'done']);
    const event = { type: 'Task hook failed' as const, hook: 'x', error: 'cancelled' };
    story.tell({ kind: 'prestart_failed', event, recoverable: true, cancelled: true });
    assert.equal(story.state.record, before);
  });

  it('kill comes while the driver starts: the workload is stopped as soon as it is there', () => {
    const story = new Story().begin().gate().hooks('prestart');
    story.kill();
    story.started();
    assert.deepEqual(story.effects, [{ kind: 'run_hooks', phase: 'pre_kill', attempt: 1 }]);
    assert.equal(story.phase, 'stopping');
    story.hooks('pre_kill');
    assert.equal(kindsOf(story)[0], 'stop');
  });

  it('kill comes while the driver starts, which fails: not restarted', () => {
    const story = new Story().begin().gate().hooks('prestart');
    story.kill();
    story.startFails(true);
    assert.deepEqual(story.said, ['Received', 'Driver Failure', 'Killed']);
  });

  it('the task ends by itself in its shutdown delay: killed, not failed', () => {
    const story = new Story({ task: attempts(0, { shutdownDelayMs: 1_000 }) }).up();
    story.kill();
    story.hooks('pre_kill').exits(EXIT_1);
    assert.equal(story.said.at(-1), 'Killed');
    assert.equal(story.state.record.failed, false);
    story.timer();
    assert.deepEqual(story.effects, [], 'the delay’s timer is forgotten');
  });

  it('kill and restart are both wanted: kill wins, whichever came first', () => {
    for (const killFirst of [true, false]) {
      const story = new Story().up();
      if (killFirst) story.kill();
      const refused = story.tell({ kind: 'restart', reason: 'by hand' }).refused;
      assert.equal(refused !== undefined, killFirst);
      if (!killFirst) story.kill();
      story.hooks('pre_kill').exits(signaled(15));
      assert.equal(story.said.at(-1), 'Killed');
      assert.equal(story.phase, 'dead');
    }
  });

  it('what was asked for once is not an excuse for the next end', () => {
    const story = new Story({ task: attempts(0) }).up();
    story.tell({ kind: 'restart', reason: 'by hand' });
    story.hooks('pre_kill').exits(signaled(15)).timer();
    story.hooks('prestart').started().exits(EXIT_1);
    assert.equal(story.said.at(-1), 'Not Restarting');
  });

  it('settings changed in place are used at once: they are read when they are used', () => {
    const story = new Story().up();
    const task = aTask({ killTimeoutMs: 100_000, killSignal: 'SIGQUIT', shutdownDelayMs: 0 });
    story.tell({ kind: 'update', task, jobType: 'batch' });
    story.kill();
    story.hooks('pre_kill');
    const { runId } = story;
    assert.deepEqual(story.effects, [{ kind: 'stop', runId, signal: 'SIGQUIT', graceMs: 30_000 }]);
    assert.equal(story.state.jobType, 'batch');
  });

  it('a task without a kill signal gets the driver’s', () => {
    const story = new Story({ task: aTask({ killSignal: undefined }) }).up();
    story.kill();
    story.hooks('pre_kill');
    assert.ok(story.effects.some((effect) => effect.kind === 'stop' && effect.signal === 'SIGINT'));
  });

  it('signal: said before it is sent; refused when nothing runs (RestartSignalTask_NotRunning)', () => {
    const story = new Story().begin().gate();
    for (const kind of ['signal', 'restart'] as const) {
      const before = story.state.record;
      const { refused } = story.tell({ kind, signal: 'SIGHUP', reason: '' });
      assert.match(refused ?? '', /not running/);
      assert.equal(story.state.record, before);
    }
    story.hooks('prestart').started();
    story.tell({ kind: 'signal', signal: 'SIGHUP', reason: 'reload' });
    assert.equal(story.said.at(-1), 'Signaling');
    assert.deepEqual(kindsOf(story), ['signal']);
  });

  it('requests to a leaving agent are refused, not swallowed', () => {
    const story = new Story().up();
    story.tell({ kind: 'shutdown' });
    assert.match(story.tell({ kind: 'restart', reason: '' }).refused ?? '', /leaving/);
    assert.match(story.tell({ kind: 'signal', signal: 'SIGHUP', reason: '' }).refused ?? '', /leaving/);
  });

  it('kills fail: 5, 20, 80, 120 s, then unkillable with a reaper that says no more', () => {
    const story = new Story().up();
    story.kill();
    story.hooks('pre_kill');
    const delays: number[] = [];
    for (let i = 0; i < 7; i++) {
      story.tell({ kind: 'stop_failed', runId: story.runId, error: 'still there' });
      const [timer] = story.effects;
      assert.equal(timer?.kind, 'set_timer');
      delays.push(timer.delayMs);
      assert.equal(story.phase, i < 4 ? 'stopping' : 'unkillable');
      const { phaseDetail } = story.state.record;
      if (i < 4) assert.ok(phaseDetail.endsWith(`kill attempt ${i + 1} failed, trying again: still there`));
      else assert.equal(phaseDetail, 'still there; tried again every 120s');
      story.timer();
      assert.deepEqual(kindsOf(story), ['stop']);
    }
    assert.deepEqual(delays, [5_000, 20_000, 80_000, 120_000, 120_000, 120_000, 120_000]);
    assert.equal(story.said.filter((type) => type === 'Kill Failed').length, 5);
    assert.equal(story.said.filter((type) => type === 'Killing').length, 1);
    story.exits(signaled(9));
    assert.equal(story.said.at(-1), 'Killed');
  });

  it('a ladder of signals: each at its time, the deadline stays where it was', () => {
    const stopSignals = [
      { signal: 'SIGTERM', waitMs: 3_000 },
      { signal: 'SIGQUIT', waitMs: 2_000 },
    ];
    const story = new Story({ task: aTask({ stopSignals, killTimeoutMs: 5_000 }) }).up();
    story.kill();
    story.hooks('pre_kill');
    const first = [
      { kind: 'stop', runId: story.runId, signal: 'SIGTERM', graceMs: 5_000 },
      { kind: 'set_timer', id: story.state.timer, delayMs: 3_000 },
    ];
    assert.deepEqual(story.effects, first);
    story.pass(3_000).timer();
    assert.deepEqual(story.effects, [
      { kind: 'stop', runId: story.runId, signal: 'SIGQUIT', graceMs: 2_000 },
    ]);
    story.exits(signaled(3));
    assert.deepEqual(story.said, [...SETUP, 'Started', 'Killing', 'Signaling', 'Terminated', 'Killed']);
    assert.equal(story.state.record.stop, undefined);
  });

  it('the store refuses the intent: nothing is started, and it is tried again', () => {
    const story = new Story().begin().gate().hooks('prestart');
    assert.deepEqual(kindsOf(story), ['start']);
    story.tell({ kind: 'not_stored', error: 'disk full' });
    assert.deepEqual(story.effects, [{ kind: 'set_timer', id: story.state.timer, delayMs: 1_000 }]);
    assert.equal(story.state.record.runId, undefined);
    assert.equal(story.state.record.attempts, 0);
    assert.match(story.state.record.phaseDetail, /disk full/);
    story.timer();
    assert.deepEqual(kindsOf(story), ['start']);
    assert.equal(story.state.record.attempts, 1);
  });

  it('finish: stop hooks once, then complete, and not a word after it', () => {
    const story = new Story({ jobType: 'batch' }).up().exits();
    story.tell({ kind: 'finish' });
    assert.deepEqual(kindsOf(story), ['run_hooks']);
    story.tell({ kind: 'finish' });
    assert.deepEqual(kindsOf(story), []);
    story.hooks('stop');
    assert.deepEqual(kindsOf(story), ['done']);
    const { record } = story.state;
    story.tell({ kind: 'say', event: { type: 'Driver', message: 'late' } });
    story.kill();
    assert.equal(story.state.record, record);
  });

  it('a slow pre_kill hook of one run does not answer for the next', () => {
    const story = new Story().up();
    story.tell({ kind: 'restart', reason: 'by hand' });
    const late = { kind: 'hooks_done', phase: 'pre_kill', attempt: 1 } as const;
    story.exits(EXIT_1).timer();
    story.hooks('prestart').started().kill();
    story.tell(late);
    assert.deepEqual(story.effects, []);
    story.hooks('pre_kill');
    assert.equal(kindsOf(story)[0], 'stop');
  });

  it('a timer counts only in the mode that set it', () => {
    const story = new Story().up().exits(EXIT_1);
    const backoff = story.state.timer;
    story.tell({ kind: 'restart', reason: 'now' });
    assert.deepEqual(kindsOf(story), ['run_hooks'], 'the rest of the delay is skipped');
    story.hooks('prestart');
    story.tell({ kind: 'start_uncertain', runId: story.runId, error: 'no answer' });
    assert.deepEqual(kindsOf(story), ['recover']);
    story.tell({ kind: 'timer', id: backoff });
    assert.deepEqual(kindsOf(story), [], 'and does not recover a second time');
  });

  it('what a run left is released with the step that says how it ended', () => {
    const story = new Story().up();
    const { runId } = story;
    story.tell({ kind: 'exited', runId, report: story.report(EXIT_1) });
    assert.deepEqual(story.effects, [
      { kind: 'release', runId },
      { kind: 'run_hooks', phase: 'exited', attempt: 1 },
    ]);
    assert.deepEqual(story.results.at(-1)?.runChanges, [
      { kind: 'outcome', runId, outcome: { kind: 'ended', report: story.report(EXIT_1) } },
    ]);
  });
});

describe('restored', () => {
  const interrupted = (story: Story): Story => {
    story.again();
    story.gate();
    return story;
  };

  it('Restore_Running: re-attached without a word, and ends normally', () => {
    const story = interrupted(new Story({ jobType: 'batch' }).up());
    assert.equal(story.state.mode.at, 'recovering');
    const { runId } = story;
    story.tell({ kind: 'recovered_running', runId, ref: REF, startedAtMs: 5 });
    assert.deepEqual(kindsOf(story), ['run_hooks']);
    story.exits();
    assert.deepEqual(story.said, [...SETUP, 'Started', 'Terminated']);
  });

  it('crash between start and handle: Started is said when it is found', () => {
    const story = interrupted(new Story().begin().gate().hooks('prestart'));
    story.tell({ kind: 'recovered_running', runId: story.runId, ref: REF, startedAtMs: 5 });
    assert.deepEqual(story.said, ['Received', 'Started']);
    assert.equal(story.phase, 'running');
  });

  it('crash between start and handle, and it has ended: both are said', () => {
    const story = interrupted(new Story({ jobType: 'batch' }).begin().gate().hooks('prestart'));
    story.exits();
    assert.deepEqual(story.said, ['Received', 'Started', 'Terminated']);
  });

  it('an end that nobody saw the beginning of has no Started', () => {
    const story = interrupted(new Story().begin().gate().hooks('prestart'));
    const result = { kind: 'unknown', reason: 'executor_lost', detail: '' } as const;
    const report = { ...story.report(result), startedAtMs: undefined };
    story.tell({ kind: 'exited', runId: story.runId, report });
    assert.deepEqual(story.said, ['Received', 'Terminated']);
    assert.equal(faultInHistory(story.events), undefined);
  });

  for (const kind of ['recovered_never_started', 'recovered_start_failed'] as const) {
    it(`a run that is known to have started did not vanish without an end (${kind})`, () => {
      const story = interrupted(new Story().up());
      const runId = story.runId;
      story.tell(
        kind === 'recovered_never_started'
          ? { kind, runId, detail: 'no trace' }
          : { kind, runId, error: 'no trace', recoverable: false },
      );
      story.hooks('exited');
      assert.deepEqual(story.said.slice(2), ['Started', 'Terminated', 'Restarting']);
      assert.equal(story.state.record.lastExit?.kind, 'unknown');
    });
  }

  it('a start that is found to have failed is judged as the driver judges it', () => {
    const found = (recoverable: boolean): Story => {
      const story = interrupted(new Story({ task: attempts(1) }).begin().gate().hooks('prestart'));
      story.tell({ kind: 'recovered_start_failed', runId: story.runId, error: 'ENOENT', recoverable });
      return story;
    };
    assert.deepEqual(found(true).said.slice(-2), ['Driver Failure', 'Restarting']);
    assert.deepEqual(found(false).said.slice(-2), ['Driver Failure', 'Not Restarting']);
  });

  it('exit while the daemon was down: the true exit, then the policy', () => {
    const story = interrupted(new Story().up());
    story.exits({ kind: 'exited', code: 7, oomKilled: false });
    assert.deepEqual(story.said.slice(2), ['Started', 'Terminated', 'Restarting']);
    assert.equal(story.state.record.lastExit?.kind, 'exited');
  });

  for (const gateFirst of [true, false]) {
    it(`an intent that was never acted upon is made again (gate ${gateFirst ? 'before' : 'after'} the answer)`, () => {
      const story = new Story().begin().gate().hooks('prestart');
      const { runId } = story;
      story.again();
      if (gateFirst) story.gate();
      story.tell({ kind: 'recovered_never_started', runId, detail: 'no trace' });
      if (!gateFirst) story.gate();
      assert.equal(story.state.mode.at, 'prestart');
      story.hooks('prestart').started();
      assert.equal(story.state.record.attempts, 2);
      assert.equal(story.state.record.restarts, 0, 'not a restart');
    });
  }

  it('unreachable: said once, tried again at growing intervals, nothing else is started', () => {
    const story = interrupted(new Story().up());
    const delays: number[] = [];
    for (let i = 0; i < 9; i++) {
      story.tell({ kind: 'unreachable', runId: story.runId, detail: 'no answer' });
      const [timer] = story.effects;
      assert.equal(timer?.kind, 'set_timer');
      delays.push(timer.delayMs);
      story.timer();
      assert.deepEqual(story.effects, [{ kind: 'recover', runId: story.runId }]);
    }
    assert.deepEqual(delays, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    assert.equal(story.said.filter((type) => type === 'Failed Restoring Task').length, 1);
    assert.equal(story.phase, 'running');
  });

  it('Restore_RunningTerminal and Restore_Kill: what was being killed is killed', () => {
    for (const killedBefore of [true, false]) {
      const story = new Story().up();
      if (killedBefore) story.kill();
      story.again();
      if (!killedBefore) story.kill();
      story.gate();
      story.tell({ kind: 'recovered_running', runId: story.runId, ref: REF, startedAtMs: 5 });
      story.hooks('pre_kill').exits(signaled(15));
      assert.deepEqual(story.said, [...SETUP, 'Started', ...KILLED]);
    }
  });

  describe('in the middle of a stop', () => {
    const found = (story: Story): Story => {
      interrupted(story);
      story.tell({ kind: 'recovered_running', runId: story.runId, ref: REF, startedAtMs: 5 });
      return story;
    };
    const stopped = (over = {}): Story => {
      const story = new Story({ task: aTask({ killTimeoutMs: 10_000, ...over }) }).up();
      story.kill();
      return story.hooks('pre_kill');
    };

    it('the rest of the shutdown delay is waited for, and nothing is said twice', () => {
      const story = found(stopped({ shutdownDelayMs: 8_000 }).pass(5_000));
      assert.deepEqual(story.effects, [{ kind: 'set_timer', id: story.state.timer, delayMs: 3_000 }]);
      story.timer();
      story.exits(signaled(15));
      assert.deepEqual(story.said, [...SETUP, 'Started', 'Waiting for Shutdown Delay', ...KILLED]);
    });

    it('the deadline of the signal counts on', () => {
      const story = found(stopped().pass(7_000));
      assert.deepEqual(story.effects, [
        { kind: 'stop', runId: story.runId, signal: 'SIGTERM', graceMs: 3_000 },
      ]);
      story.exits(signaled(2));
      assert.deepEqual(story.said, [...SETUP, 'Started', ...KILLED]);
    });

    it('tries that failed count on: an unkillable task stays one', () => {
      const story = stopped();
      for (let i = 0; i < 5; i++) {
        story.tell({ kind: 'stop_failed', runId: story.runId, error: 'still there' });
        if (i < 4) story.timer();
      }
      assert.equal(story.phase, 'unkillable');
      found(story);
      assert.equal(story.phase, 'unkillable');
      assert.deepEqual(kindsOf(story), ['stop']);
      story.tell({ kind: 'stop_failed', runId: story.runId, error: 'still there' });
      assert.equal(story.said.filter((type) => type === 'Kill Failed').length, 5);
      assert.deepEqual(story.effects, [{ kind: 'set_timer', id: story.state.timer, delayMs: 120_000 }]);
    });
  });

  it('a restart asked for survives the agent', () => {
    const story = new Story({ task: attempts(0) }).up();
    story.tell({ kind: 'restart', reason: 'by hand' });
    interrupted(story);
    story.tell({ kind: 'recovered_running', runId: story.runId, ref: REF, startedAtMs: 5 });
    story.hooks('pre_kill').exits(signaled(15));
    assert.equal(story.said.at(-1), 'Restarting');
    assert.equal(story.phase, 'backoff');
  });

  it('an end that was stored but not decided upon: the hooks again, then the decision', () => {
    const story = new Story({ jobType: 'batch' }).up();
    story.tell({ kind: 'exited', runId: story.runId, report: story.report(EXIT_0) });
    interrupted(story);
    assert.equal(story.state.mode.at, 'exited');
    story.hooks('exited');
    assert.equal(story.phase, 'dead');
    assert.deepEqual(story.said, [...SETUP, 'Started', 'Terminated']);
  });

  it('Restore_Dead: stays dead until the alloc ends; complete stays complete (Restore_CompletedBatch)', () => {
    const story = interrupted(new Story({ jobType: 'batch' }).up().exits());
    assert.equal(story.state.mode.at, 'dead');
    story.tell({ kind: 'finish' });
    story.hooks('stop');
    story.again();
    assert.equal(story.state.mode.at, 'complete');
    assert.deepEqual(kindsOf(story), ['done']);
  });

  describe('in the restart delay', () => {
    const delayed = (): Story =>
      new Story({ task: aTask({ restart: aPolicy({ delayMs: 60_000 }) }) }).up().exits(EXIT_1);
    const left = (story: Story): number => {
      story.again();
      const [timer] = story.effects;
      assert.equal(timer?.kind, 'set_timer');
      return timer.delayMs;
    };

    it('the rest counts on, whatever the wall clock does', () => {
      const story = delayed().pass(20_000);
      story.wallMs -= DAY_MS;
      assert.equal(left(story), 40_000);
    });

    it('nothing is left when it is over', () => {
      assert.equal(left(delayed().pass(90_000)), 0);
    });

    it('after a reboot the wall clock counts, but a step of it makes no delay longer than it was', () => {
      for (const [stepMs, expected] of [
        [20_000, 40_000],
        [DAY_MS, 0],
        [-DAY_MS, 60_000],
      ] as const) {
        const story = delayed();
        story.bootId = 'boot-2';
        story.monoMs = 7;
        story.wallMs += stepMs;
        assert.equal(left(story), expected);
      }
    });

    it('a task that was killed does not start', () => {
      const story = delayed();
      story.state = { ...story.state, record: { ...story.state.record, killReason: 'stopped' } };
      story.again();
      assert.equal(story.said.at(-1), 'Killed');
    });
  });
});
