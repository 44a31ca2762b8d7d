/** Restarts of a whole alloc, and its times. Names in capitals are rows of the acceptance list. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import type { JobType, Task, TaskGroup } from '../../../src/jobspec/types.js';
import type { TaskHook } from '../../../src/taskrunner/hooks/hook.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_0, EXIT_1 } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

const ONCE = aPolicy({ attempts: 1 });
const one = (name: string, over: Partial<Task> = {}): Task => aTask({ name, restart: ONCE, ...over });
const init = one('init', { lifecycle: { hook: 'prestart', sidecar: false } });
const side = one('side', { lifecycle: { hook: 'prestart', sidecar: true } });
const main = one('main');
const after = one('after', { lifecycle: { hook: 'poststart', sidecar: false } });
const watch = one('watch', { lifecycle: { hook: 'poststart', sidecar: true } });
const last = one('last', { lifecycle: { hook: 'poststop', sidecar: false } });
const ALL = [last, after, watch, main, side, init];

const living = (scene: Scene): readonly string[] =>
  scene.rig.world
    .live()
    .map(({ task }) => task)
    .sort();

const restarts = (scene: Scene): Readonly<Record<string, number>> =>
  Object.fromEntries(
    ['init', 'side', 'main', 'after', 'watch', 'last'].map((name) => [name, scene.task(name).restarts]),
  );

async function exits(scene: Scene, name: string, result = EXIT_0): Promise<void> {
  scene.rig.world.exit(scene.workload(name), result);
  await scene.rig.pass(0);
}

/** A group of which all that runs on runs, and all that runs once has. */
async function upAndDone(tasks: readonly Task[], type: JobType = 'service'): Promise<Scene> {
  const scene = await Scene.up(tasks, { type });
  await exits(scene, 'init');
  await exits(scene, 'after');
  return scene;
}

const isNotRunning = (error: unknown): boolean => error instanceof AgentError && error.code === 'not_running';

describe('restart of all tasks', () => {
  for (const type of ['service', 'batch'] as const) {
    for (const leader of [false, true]) {
      it(`Lifecycle_Restart, all (${type}${leader ? ', with a leader' : ''})`, async () => {
        const tasks = ALL.map((task) => (task.name === 'main' ? { ...task, leader } : task));
        const scene = await upAndDone(tasks, type);
        await scene.runner().restartAll();
        await scene.rig.pass(0);
        assert.deepEqual(living(scene), ['init', 'side'], 'in the order of the first start');
        assert.equal(scene.task().state, 'pending');
        await exits(scene, 'init');
        await exits(scene, 'after');
        assert.deepEqual(living(scene), ['main', 'side', 'watch']);
        assert.deepEqual(restarts(scene), { init: 1, side: 1, main: 1, after: 1, watch: 1, last: 0 });
        assert.equal(scene.task('init').state, 'dead');
        assert.equal(scene.task('last').state, 'pending');
        assert.deepEqual(scene.told('init').slice(-5), [
          'Terminated',
          'Restart Signaled',
          'Restarting',
          'Started',
          'Terminated',
        ]);
        await scene.stop();
        await exits(scene, 'last');
        scene.over();
      });
    }
  }

  it('Lifecycle_Restart, running: only those that run', async () => {
    const scene = await upAndDone(ALL);
    await scene.runner().restart(undefined, 'asked for');
    await scene.rig.pass(0);
    assert.deepEqual(restarts(scene), { init: 0, side: 1, main: 1, after: 0, watch: 1, last: 0 });
    assert.deepEqual(living(scene), ['main', 'side', 'watch']);
  });

  it('nothing of the new generation starts before all of the old one is down', async () => {
    const scene = await upAndDone(ALL);
    scene.rig.world.obeysAfterMs = 1_000;
    await scene.runner().restartAll();
    await scene.rig.pass(0);
    assert.deepEqual(living(scene), ['main', 'side', 'watch']);
    await scene.rig.pass(1_000);
    assert.deepEqual(living(scene), ['side', 'watch'], 'sidecars end last');
    assert.equal(scene.task('init').phase, 'waiting');
    await scene.rig.pass(1_000);
    assert.deepEqual(living(scene), ['init', 'side']);
  });

  it('is carried out by the next agent, wherever the first one was killed', async () => {
    for (let act = 1; act <= 40; act++) {
      const scene = await upAndDone(ALL);
      scene.rig.world.obeysAfterMs = 100;
      scene.rig.killAtAct(act);
      void scene
        .runner()
        .restartAll()
        .catch(() => undefined);
      await scene.rig.pass(1_000);
      scene.rig.killAtAct(Number.MAX_SAFE_INTEGER);
      const wasStored = scene.alloc().generation === 1;
      if (scene.rig.bury()) await scene.rig.start();
      await scene.rig.pass(1_000);
      if (!wasStored) {
        assert.deepEqual(living(scene), ['main', 'side', 'watch']);
        assert.equal(scene.task('init').restarts, 0);
        continue;
      }
      if (living(scene).includes('init')) await exits(scene, 'init');
      if (living(scene).includes('after')) await exits(scene, 'after');
      assert.deepEqual(living(scene), ['main', 'side', 'watch'], `killed at act ${act}`);
      assert.deepEqual(restarts(scene), { init: 1, side: 1, main: 1, after: 1, watch: 1, last: 0 });
      assert.deepEqual(scene.rig.world.violations, []);
    }
  });

  it('is carried out although the last task ends while it is stored, and the alloc is over after it', async () => {
    const once = one('main', { restart: aPolicy({ attempts: 0 }) });
    for (let turns = 0; turns < 8; turns++) {
      for (const isKilled of [false, true]) {
        const scene = await Scene.up([once], { type: 'batch' });
        scene.rig.world.exit(scene.workload(), EXIT_0);
        const asked = scene.runner().restartAll();
        const answer = asked.then(
          () => 'restarted',
          () => 'refused',
        );
        for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
        if (isKilled) {
          scene.rig.kill();
          await scene.rig.start();
        }
        await scene.rig.pass(10_000);
        const isWished = scene.alloc().generation === 1;
        assert.equal(scene.rig.world.spawned, isWished ? 2 : 1);
        if (!isKilled) assert.equal(await answer, isWished ? 'restarted' : 'refused');
        await scene.stop();
        await scene.rig.pass(10_000);
        scene.over();
      }
    }
  });

  it('sets up anew all that is not done for good: templates are rendered, artifacts stay', async () => {
    const calls: string[] = [];
    const hook = (name: string, done?: 'always'): TaskHook => ({
      name,
      prestart: () => {
        calls.push(name);
        return Promise.resolve(done === undefined ? {} : { done });
      },
    });
    const scene = await Scene.up([main], { hooks: [hook('artifacts', 'always'), hook('template')] });
    await scene.runner().restartAll();
    await scene.rig.pass(1_000);
    assert.equal(scene.task().generation, 1);
    assert.deepEqual(calls, ['artifacts', 'template', 'template']);
  });

  it('comes too late when the others were killed before it was stored', async () => {
    const scene = await Scene.up([side, main, last], {
      type: 'batch',
    });
    scene.rig.world.exit(scene.workload('main'), EXIT_0);
    const asked = scene.runner().restartAll();
    await scene.rig.settle();
    await asked.catch(() => undefined);
    for (let times = 0; times < 4; times++) {
      for (const run of scene.rig.world.live()) if (run.task !== 'side') scene.rig.world.exit(run, EXIT_0);
      await scene.rig.pass(10_000);
    }
    scene.over();
  });

  it('is refused when the alloc is being ended or is over', async () => {
    const scene = await Scene.up([one('main', { restart: aPolicy({ attempts: 0 }) }), one('other')]);
    scene.rig.world.obeysAfterMs = 1_000;
    await exits(scene, 'main', EXIT_1);
    await assert.rejects(scene.runner().restartAll(), isNotRunning);
    assert.equal(scene.alloc().generation, undefined);
  });

  it('a stop in the middle of it wins', async () => {
    const scene = await upAndDone(ALL);
    scene.rig.world.obeysAfterMs = 1_000;
    await scene.runner().restartAll();
    await scene.rig.pass(500);
    await scene.stop();
    await scene.rig.pass(10_000);
    assert.deepEqual(living(scene), ['last']);
    await exits(scene, 'last');
    scene.over();
  });

  it('asked twice while the disk refuses it: both are told, nothing is restarted, whoever is killed then', async () => {
    const scene = await upAndDone(ALL);
    scene.rig.disk.refusing = true;
    const asked = [scene.runner().restartAll(), scene.runner().restartAll()];
    scene.rig.world.exit(scene.workload('watch'), EXIT_1);
    for (const { status } of await Promise.allSettled(asked)) assert.equal(status, 'rejected');
    scene.rig.disk.refusing = false;
    await scene.rig.pass(10_000);
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(10_000);
    assert.deepEqual(restarts(scene), { init: 0, side: 0, main: 0, after: 0, watch: 1, last: 0 });
    for (const { generation } of scene.rig.disk.records.listTasks(scene.allocId)) {
      assert.equal(generation ?? 0, scene.alloc().generation ?? 0);
    }
  });

  it('a disk that refuses the wish: nothing is restarted', async () => {
    const scene = await upAndDone(ALL);
    scene.rig.disk.refusing = true;
    await assert.rejects(scene.runner().restartAll());
    scene.rig.disk.refusing = false;
    await scene.rig.pass(1_000);
    assert.deepEqual(restarts(scene), { init: 0, side: 0, main: 0, after: 0, watch: 0, last: 0 });
  });
});

async function batchOf(tasks: readonly Task[], over: Partial<TaskGroup>): Promise<Scene> {
  return Scene.up(tasks, { type: 'batch', group: over });
}

describe('max_run_duration', () => {
  it('MaxRunDuration_StopsExpiredAlloc, _SkipsPoststopTasks: complete, with the reason', async () => {
    const scene = await batchOf([main, last], { maxRunMs: 60_000 });
    await scene.rig.pass(59_999);
    assert.deepEqual(living(scene), ['main']);
    await scene.rig.pass(1);
    assert.equal(scene.status, 'complete');
    assert.equal(scene.alloc().clientDescription, 'allocation exceeded max_run_duration');
    assert.deepEqual(scene.told('last'), ['Received', 'Killed']);
    assert.equal(scene.told('main').at(-1), 'Killed');
    scene.over();
  });

  it('the time goes on while the agent is away, and while the host is off', async () => {
    for (const away of ['kill', 'reboot'] as const) {
      const scene = await batchOf([main], { maxRunMs: 60_000 });
      await scene.rig.pass(30_000);
      scene.rig[away]();
      await scene.rig.pass(40_000);
      await scene.rig.start();
      await scene.rig.pass(1_000);
      assert.equal(scene.status, 'complete');
      assert.equal(scene.rig.world.spawned, 1, 'nothing is started any more');
      scene.over();
    }
  });

  it('a step of the wall clock does not move it', async () => {
    const scene = await batchOf([main], { maxRunMs: 60_000 });
    scene.rig.clock.stepWall(3_600_000);
    await scene.rig.pass(59_999);
    assert.deepEqual(living(scene), ['main']);
  });

  it('MaxRunDuration_UpdateExtendsRunningAlloc: another duration counts from the same beginning', async () => {
    const scene = await batchOf([main], { maxRunMs: 60_000 });
    await scene.rig.pass(50_000);
    const [group] = scene.job.groups;
    assert.ok(group);
    await scene.rig.agent.scheduler.register({ ...scene.job, groups: [{ ...group, maxRunMs: 90_000 }] });
    await scene.rig.pass(39_999);
    assert.deepEqual(living(scene), ['main']);
    await scene.rig.pass(1);
    assert.equal(scene.status, 'complete');
    assert.equal(scene.rig.world.spawned, 1);
  });

  it('an alloc that failed before has failed', async () => {
    const restart = aPolicy({ attempts: 0 });
    const scene = await batchOf([one('main', { restart }), one('slow')], { maxRunMs: 60_000 });
    scene.rig.world.obeysAfterMs = 4_000;
    await scene.rig.pass(59_000);
    await exits(scene, 'main', EXIT_1);
    await scene.rig.pass(10_000);
    assert.equal(scene.status, 'failed');
  });
});

describe('shutdown_delay of the group', () => {
  it('TaskGroup_ShutdownDelay: nothing is ended before it has passed', async () => {
    const scene = await Scene.up([main], { group: { shutdownDelayMs: 5_000 } });
    await scene.stop();
    await scene.rig.pass(4_999);
    assert.deepEqual(living(scene), ['main']);
    assert.equal(scene.told().at(-1), 'Waiting for Shutdown Delay');
    await scene.rig.pass(1);
    assert.deepEqual(living(scene), []);
    scene.over();
  });

  it('goes on when the agent is killed in it', async () => {
    const scene = await Scene.up([main], { group: { shutdownDelayMs: 5_000 } });
    await scene.stop();
    await scene.rig.pass(3_000);
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(1_999);
    assert.deepEqual(living(scene), ['main']);
    await scene.rig.pass(1);
    scene.over();
  });

  it('is skipped, and cut short, when somebody asks for that', async () => {
    for (const waitMs of [0, 2_000]) {
      const scene = await Scene.up([main], { group: { shutdownDelayMs: 5_000 } });
      if (waitMs > 0) await scene.stop();
      await scene.rig.pass(waitMs);
      await scene.stop(true);
      assert.deepEqual(living(scene), []);
      scene.over();
    }
  });
});
