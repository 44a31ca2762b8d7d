/**
 * One alloc over real task runners and a real store in memory, on a host that is scripted. Names in capitals are rows of
 * the acceptance list.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import type { TaskHook } from '../../../src/taskrunner/hooks/hook.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_0, EXIT_1, signaled } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

const NEVER = aPolicy({ attempts: 0 });
const KILLED = ['Killing', 'Terminated', 'Killed'];

const codeIs = (code: string) => (error: unknown) => error instanceof AgentError && error.code === code;

describe('alloc runner', () => {
  it('SimpleRun: a batch alloc ends complete', async () => {
    const scene = await Scene.up([aTask()], { type: 'batch' });
    assert.equal(scene.status, 'running');
    scene.rig.world.exit(scene.workload(), EXIT_0);
    await scene.rig.pass(0);
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('TaskFailed_KillTG: a failed task ends its sibling, and the alloc has failed', async () => {
    const tasks = [aTask({ name: 'main', restart: NEVER }), aTask({ name: 'side' })];
    const scene = await Scene.up(tasks);
    scene.rig.world.exit(scene.workload('main'), EXIT_1);
    await scene.rig.pass(0);
    assert.equal(scene.status, 'failed');
    assert.deepEqual(scene.told('main'), ['Received', 'Started', 'Terminated', 'Not Restarting']);
    assert.deepEqual(scene.told('side'), ['Received', 'Started', 'Sibling Task Failed', ...KILLED]);
    assert.equal(scene.task('main').failed, true);
    assert.equal(scene.task('side').failed, false);
    scene.over();
  });

  it('the failure is told before the sibling has ended: status flows during kills', async () => {
    const scene = await Scene.up([aTask({ restart: NEVER }), aTask({ name: 'side', killTimeoutMs: 20_000 })]);
    scene.rig.world.obeysAfterMs = 10_000;
    scene.rig.world.exit(scene.workload('main'), EXIT_1);
    await scene.rig.pass(5_000);
    assert.equal(scene.status, 'failed');
    assert.equal(scene.task('side').phase, 'stopping');
    await scene.rig.pass(5_000);
    scene.over();
  });

  it('what changes nothing is not written: the disk is not even asked', async () => {
    const scene = await Scene.up([aTask()]);
    // Until its health is judged.
    await scene.rig.pass(600_000);
    const seen = { writes: 0 };
    scene.rig.disk.onWrite = () => (seen.writes += 1);
    const [group] = scene.job.groups;
    assert.ok(group);
    scene.runner().update(scene.job, group);
    scene.runner().stop();
    await scene.rig.pass(10_000);
    assert.equal(seen.writes, 0);
    scene.runner().update({ ...scene.job }, { ...group, tasks: [aTask({ killTimeoutMs: 7 })] });
    await scene.rig.pass(10_000);
    assert.equal(seen.writes, 0, 'settings are of the job');
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(0);
    assert.notEqual(seen.writes, 0);
  });

  it('HandlesArtifactFailure: a task that retries does not hold back its sibling', async () => {
    const scene = new Scene([aTask({ restart: aPolicy({ attempts: 1 }) }), aTask({ name: 'side' })], {
      type: 'batch',
    });
    scene.rig.world.starts.push({ kind: 'fails', recoverable: true });
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(0);
    scene.rig.world.exit(scene.workload('side'), EXIT_0);
    scene.rig.world.starts.push({ kind: 'fails', recoverable: true });
    await scene.rig.pass(2_000);
    assert.equal(scene.status, 'failed');
    assert.deepEqual(scene.task('side').lastExit, EXIT_0);
    assert.equal(scene.task('side').failed, false);
    scene.over();
  });

  it('KillTG_DeadTasks: a finished task’s last event stays, the living one ends in Killed', async () => {
    const scene = await Scene.up([aTask(), aTask({ name: 'side' })], { type: 'batch' });
    scene.rig.world.exit(scene.workload('side'), EXIT_0);
    await scene.rig.pass(0);
    await scene.stop();
    assert.equal(scene.told('side').at(-1), 'Terminated');
    assert.equal(scene.told('main').at(-1), 'Killed');
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('Stop_ExitCode: a stopped task reports its real end', async () => {
    const scene = await Scene.up([aTask()]);
    await scene.stop();
    assert.deepEqual(scene.task().lastExit, signaled(15));
    scene.over();
  });

  it('a task that does not obey is killed when its time is up, never later than the agent allows', async () => {
    const scene = await Scene.up([aTask({ killTimeoutMs: 600_000 })], { maxKillTimeoutMs: 30_000 });
    scene.rig.world.obeysAfterMs = 900_000;
    await scene.stop();
    await scene.rig.pass(29_999);
    assert.equal(scene.task().phase, 'stopping');
    assert.equal(scene.task().state, 'running');
    await scene.rig.pass(1);
    assert.deepEqual(scene.task().lastExit, signaled(9));
    scene.over();
  });
});

describe('alloc runner, restored', () => {
  it('an alloc that was to stop is killed (Restore_RunningTerminal)', async () => {
    const scene = await Scene.up([aTask()]);
    scene.rig.world.obeysAfterMs = 1_000;
    await scene.stop();
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(5_000);
    assert.equal(scene.status, 'complete');
    assert.equal(scene.rig.world.spawned, 1);
    scene.over();
  });

  it('killed between the stop being stored and acted upon: it is acted upon', async () => {
    const scene = await Scene.up([aTask()]);
    const { store } = scene.rig.agent;
    const alloc = scene.runner().want({ desiredStatus: 'stop', desiredDescription: 'asked to' });
    await store.commit([{ kind: 'put_alloc', alloc }]);
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(5_000);
    assert.deepEqual(scene.rig.toldOf(alloc.id), ['Received', 'Started', ...KILLED]);
    assert.equal(scene.rig.task(alloc.id).killReason, 'asked to');
    assert.notEqual(scene.allocId, alloc.id, 'its place is filled again: the job was not stopped');
  });

  it('a failed sibling is remembered: nothing of its group is set up again', async () => {
    const scene = await Scene.up([aTask({ restart: NEVER }), aTask({ name: 'side' })]);
    scene.rig.world.startMs = 50;
    scene.rig.world.exit(scene.workload('main'), EXIT_1);
    scene.rig.world.exit(scene.workload('side'), EXIT_1);
    // Until the failure is stored, but not what follows from it.
    while (scene.task('main').state !== 'dead') await new Promise((resolve) => setImmediate(resolve));
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(60_000);
    assert.equal(scene.rig.world.spawned, 2);
    assert.equal(scene.status, 'failed');
    scene.over();
  });

  it('Restore_CompletedBatch: a complete alloc is not run again', async () => {
    const scene = await Scene.up([aTask()], { type: 'batch' });
    scene.rig.world.exit(scene.workload(), EXIT_0);
    await scene.rig.pass(0);
    const before = scene.told();
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(60_000);
    assert.deepEqual(scene.told(), before);
    scene.over();
  });

  it('exit while the daemon is down: the true exit is known, then the policy decides', async () => {
    for (const how of ['kill', 'leave'] as const) {
      const scene = await Scene.up([aTask()], { type: 'batch' });
      await scene.rig[how]();
      await scene.rig.pass(60_000);
      scene.rig.world.exit(scene.workload(), { kind: 'exited', code: 7, oomKilled: false });
      await scene.rig.pass(60_000);
      await scene.rig.start();
      await scene.rig.pass(500);
      assert.deepEqual(scene.told(), ['Received', 'Started', 'Terminated', 'Restarting']);
      assert.deepEqual(scene.task().lastExit, { kind: 'exited', code: 7, oomKilled: false });
      await scene.rig.pass(500);
      assert.equal(scene.task().phase, 'running');
      assert.deepEqual(scene.rig.world.violations, []);
    }
  });

  it('reboot: an end that nobody saw is unknown, and the task starts again', async () => {
    const scene = await Scene.up([aTask()]);
    scene.rig.reboot();
    await scene.rig.start();
    await scene.rig.pass(1_000);
    assert.equal(scene.task().lastExit?.kind, 'unknown');
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.rig.world.spawned, 2);
  });

  it('out of reach: it is not touched and not replaced, and taken up again when it answers', async () => {
    const scene = await Scene.up([aTask()]);
    await scene.rig.pass(10_000);
    scene.rig.kill();
    scene.rig.world.reachable = false;
    await scene.rig.start();
    await scene.rig.pass(3_600_000);
    assert.equal(scene.rig.world.spawned, 1);
    assert.match(scene.task().phaseDetail, /cannot be reached/);
    const rows = scene.rig.disk.history.index();
    await scene.rig.pass(600_000);
    assert.equal(scene.rig.disk.history.index(), rows, 'and nothing new is told with each try');
    scene.rig.world.reachable = true;
    await scene.rig.pass(30_000);
    assert.equal(scene.task().phaseDetail, '');
    assert.deepEqual(scene.told(), ['Received', 'Started', 'Failed Restoring Task']);
  });
});

describe('alloc runner, asked', () => {
  it('RestartTask: one task, once, beyond the policy', async () => {
    const scene = await Scene.up([aTask({ restart: NEVER }), aTask({ name: 'side' })]);
    const side = scene.workload('side').runId;
    await scene.runner().restart('main', 'by hand');
    await scene.rig.pass(0);
    assert.equal(scene.task().restarts, 1);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.workload('side').runId, side);
    assert.equal(scene.task('side').restarts, 0);
  });

  it('restart running: those that run, dead ones are passed over', async () => {
    const scene = await Scene.up([aTask(), aTask({ name: 'side' })], { type: 'batch' });
    scene.rig.world.exit(scene.workload('side'), EXIT_0);
    await scene.rig.pass(0);
    await scene.runner().restart(undefined, 'by hand');
    await scene.rig.pass(0);
    assert.equal(scene.task('main').restarts, 1);
    assert.equal(scene.task('side').restarts, 0);
    assert.equal(scene.task('side').phase, 'dead');
  });

  it('RestartSignalTask_NotRunning, and a task that is not there', async () => {
    const scene = await Scene.up([aTask(), aTask({ name: 'side' })], { type: 'batch' });
    scene.rig.world.exit(scene.workload('side'), EXIT_0);
    await scene.rig.pass(0);
    const runner = scene.runner();
    await assert.rejects(runner.signal('side', 'SIGHUP', ''), codeIs('not_running'));
    await assert.rejects(runner.restart('side', ''), codeIs('not_running'));
    await assert.rejects(runner.signal('nope', 'SIGHUP', ''), codeIs('not_found'));
    await assert.rejects(runner.restart('nope', ''), codeIs('not_found'));
    await assert.rejects(runner.signal('main', 'SIGNOPE', ''), codeIs('signal_unknown'));
    assert.equal(scene.told('side').at(-1), 'Terminated');
  });

  it('a signal is delivered, and said before it is sent', async () => {
    const scene = await Scene.up([aTask()]);
    await scene.runner().signal(undefined, 'SIGHUP', 'reload');
    assert.deepEqual(scene.workload().signals, [1]);
    assert.equal(scene.told().at(-1), 'Signaling');
  });

  it('restart in the restart delay: at once', async () => {
    const scene = await Scene.up([aTask({ restart: aPolicy({ delayMs: 60_000 }) })], { type: 'batch' });
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(1_000);
    await scene.runner().restart('main', 'now');
    await scene.rig.pass(0);
    assert.equal(scene.task().phase, 'running');
    assert.deepEqual(scene.rig.clock.pendingMs(), [], 'the delay’s timer is gone');
  });

  it('a restart that was asked for goes on after the agent was killed', async () => {
    const scene = await Scene.up([aTask({ restart: NEVER })]);
    scene.rig.world.obeysAfterMs = 2_000;
    await scene.runner().restart('main', 'by hand');
    await scene.rig.settle();
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(5_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.task().restarts, 1);
    assert.equal(scene.rig.world.spawned, 2);
  });
});

describe('alloc runner, in trouble', () => {
  it('a kill that fails is repeated after 5, 20, 80 and 120 s, then shown as unkillable and reaped', async () => {
    const scene = await Scene.up([aTask()]);
    scene.rig.world.stopsThatFail = 7;
    await scene.stop();
    for (const waitMs of [5_000, 20_000, 80_000, 120_000]) {
      assert.equal(scene.task().phase, 'stopping');
      assert.deepEqual(scene.rig.clock.pendingMs(), [waitMs]);
      await scene.rig.pass(waitMs);
    }
    assert.equal(scene.task().phase, 'unkillable');
    assert.equal(scene.status, 'running');
    await scene.rig.pass(120_000);
    assert.equal(scene.task().phase, 'unkillable');
    await scene.rig.pass(240_000);
    assert.equal(scene.told().filter((type) => type === 'Kill Failed').length, 5);
    assert.equal(scene.told().at(-1), 'Killed');
    scene.over();
  });

  const leaveWhile: readonly (readonly [string, (scene: Scene) => Promise<void>])[] = [
    [
      'the kill backoff',
      async (scene) => {
        scene.rig.world.stopsThatFail = 1;
        await scene.stop();
        assert.deepEqual(scene.rig.clock.pendingMs(), [5_000]);
      },
    ],
    [
      'the shutdown delay',
      async (scene) => {
        await scene.runner().restart('main', 'by hand');
        await scene.rig.settle();
        await scene.stop();
        assert.equal(scene.told().at(-1), 'Waiting for Shutdown Delay');
      },
    ],
    [
      'a stop under way',
      async (scene) => {
        scene.rig.world.obeysAfterMs = 4_000;
        await scene.stop(true);
        await scene.rig.pass(1_000);
      },
    ],
  ];
  for (const [what, getThere] of leaveWhile) {
    it(`shutdown during ${what}: at once, the workload untouched, and the next agent goes on`, async () => {
      const scene = await Scene.up([aTask({ shutdownDelayMs: what.includes('delay') ? 3_000 : 0 })]);
      await getThere(scene);
      const before = scene.task();
      const timers = scene.rig.clock.pendingMs().length;
      await scene.rig.leave();
      assert.equal(scene.rig.world.live().length, 1);
      assert.deepEqual(scene.task(), before, 'nothing is written');
      assert.ok(
        scene.rig.clock.pendingMs().length <= Math.max(0, timers - (what.includes('under way') ? 0 : 1)),
      );
      await scene.rig.start();
      await scene.rig.pass(60_000);
      assert.equal(scene.status, 'complete');
      scene.over();
    });
  }

  it('shutdown during prestart: nothing has failed, the next agent sets up again', async () => {
    const scene = new Scene([aTask()]);
    scene.rig.hooksTakeMs = 10_000;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(1_000);
    assert.equal(scene.task().phase, 'prestart');
    await scene.rig.leave();
    await scene.rig.start();
    await scene.rig.pass(10_000);
    assert.equal(scene.task().failed, false);
    assert.deepEqual(scene.told(), ['Received', 'Started']);
    assert.equal(scene.task().restarts, 0);
  });

  it('shutdown cancels every hook at work, a slow poststart among them', async () => {
    const aborted: string[] = [];
    const hangs =
      (phase: string) =>
      async ({ signal }: { signal: AbortSignal }): Promise<void> => {
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            resolve();
          });
        });
        aborted.push(phase);
      };
    const hook: TaskHook = { name: 'hangs', poststart: hangs('poststart'), exited: hangs('exited') };
    const scene = await Scene.up([aTask()], { hooks: [hook] });
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(0);
    assert.equal(scene.task().phase, 'exited');
    assert.deepEqual(aborted, []);
    await scene.rig.leave();
    await scene.rig.settle();
    assert.deepEqual(aborted, ['poststart', 'exited']);
  });

  it('kill during prestart: the hook is cancelled, nothing is started, nothing has failed', async () => {
    const scene = new Scene([aTask()]);
    scene.rig.hooksTakeMs = 10_000;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(1_000);
    scene.rig.hooksTakeMs = 0;
    await scene.stop();
    assert.deepEqual(scene.told(), ['Received', 'Killed']);
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('the store refuses the intent: nothing is started, it is tried again, and memory does not grow', async () => {
    const scene = new Scene([aTask()], { type: 'batch' });
    scene.rig.hooksTakeMs = 1_000;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(500);
    scene.rig.disk.refusing = true;
    await scene.rig.pass(5_000);
    assert.equal(scene.rig.world.spawned, 0);
    const kept = scene.rig.agent.store.keptChanges();
    await scene.rig.pass(600_000);
    assert.equal(scene.rig.agent.store.keptChanges(), kept, 'a try that fails keeps nothing new');
    assert.equal(scene.rig.world.spawned, 0);
    scene.rig.disk.refusing = false;
    await scene.rig.pass(31_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.task().attempts, 1);
    assert.equal(scene.rig.disk.records.listRuns(scene.allocId, 'main').length, 1);
    assert.deepEqual(scene.rig.world.violations, []);
  });

  it('a kill that comes with the refusal does not leave a run that never was', async () => {
    const scene = new Scene([aTask()]);
    scene.rig.hooksTakeMs = 1_000;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(500);
    scene.rig.disk.refusing = true;
    const waiting = scene.rig.pass(500);
    const runner = scene.runner();
    runner.want({ desiredStatus: 'stop', desiredDescription: 'asked' });
    runner.stop();
    await waiting;
    const { allocId } = scene;
    scene.rig.disk.refusing = false;
    await scene.rig.pass(60_000);
    assert.equal(scene.rig.task(allocId).runId, undefined);
    assert.equal(scene.rig.task(allocId).attempts, 0);
    assert.equal(scene.rig.toldOf(allocId).at(-1), 'Killed');
  });

  it('a full disk when a task ends: supervised all the same, evidence kept until it is stored, then freed', async () => {
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 9, delayMs: 1_000 }) })]);
    scene.rig.disk.refusing = true;
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(10_000);
    assert.equal(scene.rig.world.spawned, 1, 'nothing is started that could not be remembered');
    assert.equal(scene.rig.world.remains().length, 1, 'its end may have to be read again');
    scene.rig.disk.refusing = false;
    await scene.rig.pass(31_000);
    assert.equal(scene.task().phase, 'running');
    await scene.stop();
    scene.over();
  });

  it('a restart is stored before it is promised: the next agent keeps the promise', async () => {
    const scene = await Scene.up([aTask({ restart: NEVER })]);
    const { rig } = scene;
    const id = scene.allocId;
    const promised = scene
      .runner()
      .restart(undefined, 'somebody asked')
      .then(() => {
        rig.kill();
      });
    await rig.settle();
    await promised;
    assert.equal(rig.task(id).restartReason, 'somebody asked');
    await rig.start();
    await rig.pass(0);
    assert.equal(rig.task(id).restarts, 1);
    assert.equal(scene.status, 'running');
  });
});
