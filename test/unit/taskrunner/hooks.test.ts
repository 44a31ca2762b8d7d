/** What hooks may do to a task and what they may not: bounds, what is kept, the companions of a workload. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import type { TaskHook, WatchContext } from '../../../src/taskrunner/hooks/hook.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_1 } from '../../helpers/scripted-driver.js';
import { aGroup, aPolicy, aTask } from '../../helpers/specs.js';

const never = (): Promise<never> => new Promise(() => undefined);

async function register(scene: Scene): Promise<void> {
  await scene.rig.agent.scheduler.register(scene.job);
  await scene.rig.pass(0);
}

describe('bounds of hooks', () => {
  it('a prestart hook that hangs is told of, given up, and counts as a failed start', async () => {
    const hook: TaskHook = { name: 'stuck', prestart: never };
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 1 }) })], { hooks: [hook] });
    await scene.rig.pass(1_500);
    assert.equal(scene.task().phase, 'prestart');
    assert.equal(scene.task().phaseDetail, 'waiting on hook stuck');
    assert.equal(scene.task().waitingSinceMs, scene.rig.clock.wallMs() - 500);
    await scene.rig.pass(130_000);
    assert.deepEqual(scene.told(), [
      'Received',
      'Task hook failed',
      'Restarting',
      'Task hook failed',
      'Not Restarting',
    ]);
    assert.equal(scene.task().waitingSinceMs, undefined);
    const failed = scene.rig.told.find(({ event }) => event.type === 'Task hook failed')?.event;
    assert.match(JSON.stringify(failed), /hook stuck \(prestart\) was not done after 60s/);
    assert.deepEqual(scene.rig.clock.pendingMs(), []);
  });

  it('a prestart hook says what it waits for', async () => {
    const hook: TaskHook = {
      name: 'slow',
      prestart: ({ waitFor }) => {
        waitFor('artifact http://a');
        return never();
      },
    };
    const scene = await Scene.up([aTask()], { hooks: [hook] });
    assert.equal(scene.task().phaseDetail, 'waiting on artifact http://a');
    await scene.rig.pass(2_000);
    assert.equal(scene.task().phaseDetail, 'waiting on artifact http://a', 'its own words stay');
  });

  it('kill during a prestart hook that heeds nothing ends the task all the same', async () => {
    const scene = await Scene.up([aTask()], { hooks: [{ name: 'deaf', prestart: never }] });
    await scene.rig.pass(5_000);
    await scene.stop();
    await scene.rig.pass(1_000);
    assert.deepEqual(scene.told(), ['Received', 'Killed']);
    scene.over();
  });

  it('pre-kill, exited and stop hooks that hang hold up an end by no more than their bounds', async () => {
    const hook: TaskHook = { name: 'stuck', preKill: never, exited: never, stop: never };
    const scene = await Scene.up([aTask()], { hooks: [hook] });
    const run = scene.workload();
    await scene.stop();
    await scene.rig.pass(1_500);
    assert.equal(scene.task().phaseDetail, 'job was stopped; waiting on hook stuck');
    assert.deepEqual(run.signals, []);
    await scene.rig.pass(10_000);
    assert.deepEqual(run.signals, [15]);
    await scene.rig.pass(45_000);
    assert.equal(scene.told().filter((type) => type === 'Task hook failed').length, 3);
    scene.over();
  });

  it('the hook sets its own bound; what a late one says is not heard', async () => {
    const hook: TaskHook = {
      name: 'late',
      deadlinesMs: { prestart: 5_000 },
      prestart: async ({ clock, emit }) => {
        await new Promise<void>((resolve) => void clock.setTimer(20_000, resolve));
        emit({ type: 'Task hook message', hook: 'late', message: 'done' });
        return { env: { LATE: '1' } };
      },
    };
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 0 }) })], { hooks: [hook] });
    await scene.rig.pass(30_000);
    assert.deepEqual(scene.told(), ['Received', 'Task hook failed', 'Not Restarting']);
  });
});

describe('what hooks keep', () => {
  it('a disk that refuses it is no failure: asked again, nothing done twice, no restart counted', async () => {
    let calls = 0;
    const hook: TaskHook = {
      name: 'once',
      prestart: () => {
        calls += 1;
        return Promise.resolve({ env: { A: '1' }, done: 'always' as const });
      },
    };
    const scene = new Scene([aTask({ restart: aPolicy({ attempts: 0 }) })], { hooks: [hook] });
    scene.rig.hooksTakeMs = 1_000;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(500);
    scene.rig.disk.refusing = true;
    await scene.rig.pass(600_000);
    assert.equal(calls, 1);
    assert.equal(scene.rig.world.spawned, 0);
    scene.rig.disk.refusing = false;
    await scene.rig.pass(31_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.task().restarts, 0);
    assert.equal(scene.workload().env['A'], '1');
    assert.equal(calls, 1);
  });

  it('a kill while the disk refuses it is heard', async () => {
    const hook: TaskHook = { name: 'once', prestart: () => Promise.resolve({ done: 'always' as const }) };
    const scene = new Scene([aTask()], { hooks: [hook] });
    scene.rig.hooksTakeMs = 1_000;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(500);
    scene.rig.disk.refusing = true;
    await scene.rig.pass(5_000);
    const { allocId } = scene;
    const runner = scene.runner();
    runner.want({ desiredStatus: 'stop', desiredDescription: 'asked' });
    runner.stop();
    await scene.rig.pass(5_000);
    scene.rig.disk.refusing = false;
    await scene.rig.pass(60_000);
    assert.deepEqual(scene.rig.toldOf(allocId), ['Received', 'Killed']);
  });

  it('env and mounts outlive the agent; what is done for this boot is done again after the next', async () => {
    const calls: string[] = [];
    const answers = (name: string, done: 'always' | 'this_boot'): TaskHook => ({
      name,
      prestart: () => {
        calls.push(name);
        return Promise.resolve({
          env: { [name]: 'given' },
          mounts: [{ source: `/host/${name}`, target: `/${name}`, readOnly: true }],
          done,
        });
      },
    });
    const scene = await Scene.up([aTask()], { hooks: [answers('a', 'always'), answers('b', 'this_boot')] });
    await scene.rig.leave();
    await scene.rig.start();
    await scene.rig.pass(0);
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(2_000);
    assert.deepEqual(calls, ['a', 'b']);
    assert.equal(scene.workload().env['b'], 'given');
    assert.deepEqual(
      scene.rig.world.configs.at(-1)?.mounts?.map(({ target }) => target),
      ['/a', '/b'],
    );
    scene.rig.reboot();
    await scene.rig.start();
    await scene.rig.pass(5_000);
    assert.equal(scene.task().phase, 'running');
    assert.deepEqual(calls, ['a', 'b', 'b']);
  });

  it('hooks override the env of the job file, in their order', async () => {
    const gives = (name: string, env: Record<string, string>): TaskHook => ({
      name,
      prestart: () => Promise.resolve({ env }),
    });
    const hooks = [gives('a', { X: 'a', Y: 'a' }), gives('b', { Y: 'b' })];
    const scene = await Scene.up([aTask({ env: { X: 'job', Z: '${env["Y"]}' } })], { hooks });
    const { env } = scene.workload();
    assert.deepEqual([env['X'], env['Y'], env['Z']], ['a', 'b', 'b']);
  });
});

describe('companions of a workload', () => {
  function watcher(log: string[], act: (context: WatchContext, round: number) => Promise<void>): TaskHook {
    let round = 0;
    return {
      name: 'watch',
      watch: async (context) => {
        round += 1;
        log.push(`begin ${round}`);
        context.signal.addEventListener('abort', () => log.push('end'));
        await act(context, round);
      },
    };
  }

  it('begin with each run and end with it; they can restart the task and keep what they know', async () => {
    const log: string[] = [];
    const hook = watcher(log, async (context, round) => {
      log.push(`knows ${context.data['n'] ?? 'nothing'}`);
      await context.save({ n: String(round) });
      if (round === 1) await context.restart('re-rendered');
    });
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 0 }) })], { hooks: [hook] });
    await scene.rig.pass(2_000);
    assert.deepEqual(log, ['begin 1', 'knows nothing', 'end', 'begin 2', 'knows 1']);
    assert.equal(scene.task().restarts, 1);
    await scene.rig.leave();
    assert.equal(log.at(-1), 'end');
    await scene.rig.start();
    await scene.rig.pass(0);
    assert.deepEqual(log.slice(-2), ['begin 3', 'knows 2']);
    await scene.stop();
    assert.equal(log.at(-1), 'end');
    scene.over();
  });

  it('can end the task as failed', async () => {
    const hook = watcher([], (context) => {
      context.kill('it cannot go on', { type: 'Template', message: 'broken', fails: true });
      return Promise.resolve();
    });
    const scene = await Scene.up([aTask()], { hooks: [hook] });
    await scene.rig.pass(1_000);
    assert.equal(scene.task().failed, true);
    assert.deepEqual(scene.told(), ['Received', 'Started', 'Template', 'Killing', 'Terminated', 'Killed']);
  });
});

describe('update and shutdown', () => {
  it('update hooks see the task as it was and as it is, one call after the other', async () => {
    const seen: [number, number][] = [];
    const hook: TaskHook = {
      name: 'sees',
      update: async ({ task, clock }, before) => {
        await new Promise<void>((resolve) => void clock.setTimer(500, resolve));
        seen.push([before.killTimeoutMs, task.killTimeoutMs]);
      },
    };
    const scene = await Scene.up([aTask({ killTimeoutMs: 1_000 })], { hooks: [hook] });
    for (const killTimeoutMs of [2_000, 3_000]) {
      await scene.rig.agent.scheduler.register({
        ...scene.job,
        groups: [aGroup({ tasks: [aTask({ killTimeoutMs })] })],
      });
    }
    await scene.rig.pass(2_000);
    assert.deepEqual(seen, [
      [1_000, 2_000],
      [2_000, 3_000],
    ]);
    assert.equal(scene.rig.world.spawned, 1);
  });

  it('shutdown hooks let go when the agent leaves, and the task does not notice', async () => {
    const calls: string[] = [];
    const hook: TaskHook = {
      name: 'holds',
      shutdown: () => {
        calls.push('shutdown');
        return Promise.resolve();
      },
      stop: () => {
        calls.push('stop');
        return Promise.resolve();
      },
    };
    const scene = await Scene.up([aTask()], { hooks: [hook] });
    await scene.rig.leave();
    assert.deepEqual(calls, ['shutdown']);
    assert.equal(scene.rig.world.live().length, 1);
    await scene.rig.start();
    await scene.stop();
    assert.deepEqual(calls, ['shutdown', 'stop']);
    await register(scene);
  });
});

describe('commits', () => {
  const countWrites = (scene: Scene): (() => number) => {
    let writes = 0;
    const before = scene.rig.disk.onWritten;
    scene.rig.disk.onWritten = () => {
      before();
      writes += 1;
    };
    return () => writes;
  };

  it('a start waits for two: the job with its alloc, and the intent', async () => {
    const scene = new Scene([aTask()]);
    const writes = countWrites(scene);
    let before = 0;
    const { mayStart } = scene.rig.world;
    scene.rig.world.mayStart = (config) => {
      before = writes();
      return mayStart(config);
    };
    await register(scene);
    assert.equal(before, 2);
  });

  it('a restart without a delay waits for one: the end, the decision and the intent', async () => {
    const restart = aPolicy({ attempts: 1, delayMs: 0, jitter: 0 });
    const scene = await Scene.up([aTask({ restart })]);
    const writes = countWrites(scene);
    let before = 0;
    const { mayStart } = scene.rig.world;
    scene.rig.world.mayStart = (config) => {
      before = writes();
      return mayStart(config);
    };
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.settle();
    assert.equal(scene.rig.world.spawned, 2);
    assert.equal(before, 1);
  });

  it('a set-up that fails at once, again and again, leaves the agent its turn', async () => {
    let tries = 0;
    const hook: TaskHook = {
      name: 'failing',
      prestart: () => {
        tries += 1;
        return Promise.reject(new AgentError('hook_failed', 'no', { recoverable: true }));
      },
    };
    const restart = aPolicy({ attempts: 1_000, delayMs: 0, jitter: 0 });
    const scene = new Scene([aTask({ restart })], { hooks: [hook] });
    await scene.rig.agent.scheduler.register(scene.job);
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(tries > 0 && tries < 10, `${tries} tries in one turn`);
    scene.rig.kill();
  });
});
