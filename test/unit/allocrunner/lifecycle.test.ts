/** Who starts when and who ends first, by lifecycle and leader. Names in capitals are rows of the acceptance list. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decideEnding, nextToEnd } from '../../../src/allocrunner/ending.js';
import { openRoles, type GatedTask } from '../../../src/allocrunner/lifecycle-gate.js';
import { roleOf } from '../../../src/jobspec/lifecycle.js';
import type { Task } from '../../../src/jobspec/types.js';
import type { TaskRecord } from '../../../src/state/store.js';
import { newTaskRecord } from '../../../src/taskrunner/machine.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_0, EXIT_1 } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

const NEVER = aPolicy({ attempts: 0 });
const init = aTask({ name: 'init', lifecycle: { hook: 'prestart', sidecar: false } });
const side = aTask({ name: 'side', lifecycle: { hook: 'prestart', sidecar: true } });
const main = aTask({ name: 'main' });
const after = aTask({ name: 'after', lifecycle: { hook: 'poststart', sidecar: false } });
const watch = aTask({ name: 'watch', lifecycle: { hook: 'poststart', sidecar: true } });
const last = aTask({ name: 'last', lifecycle: { hook: 'poststop', sidecar: false } });

const living = (scene: Scene): readonly string[] =>
  scene.rig.world
    .live()
    .map(({ task }) => task)
    .sort();

async function exits(scene: Scene, name: string, result = EXIT_0): Promise<void> {
  scene.rig.world.exit(scene.workload(name), result);
  await scene.rig.pass(0);
}

describe('lifecycle', () => {
  it('PrestartRunsBeforeMain, Lifecycle_Poststart, Lifecycle_Poststop: one after the other', async () => {
    const scene = await Scene.up([last, after, watch, main, side, init], { type: 'batch' });
    assert.deepEqual(living(scene), ['init', 'side']);
    await exits(scene, 'init');
    assert.deepEqual(
      living(scene),
      ['after', 'main', 'side', 'watch'],
      'mains have started, so poststart has',
    );
    await exits(scene, 'after');
    assert.equal(scene.task('after').state, 'dead');
    assert.equal(scene.task('after').restarts, 0, 'what runs once is not restarted after a success');
    await exits(scene, 'main');
    assert.deepEqual(living(scene), ['last'], 'the sidecars were ended, and then came poststop');
    for (const sidecar of ['side', 'watch']) {
      assert.deepEqual(scene.told(sidecar).slice(-4), ['Main Tasks Dead', 'Killing', 'Terminated', 'Killed']);
    }
    await exits(scene, 'last');
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('what waits says what it waits for', async () => {
    const scene = await Scene.up([last, after, main, side, init], { type: 'batch' });
    const waits = (): readonly string[] =>
      ['main', 'after', 'last'].map((name) => {
        const { phase, phaseDetail } = scene.task(name);
        return phase === 'waiting' ? phaseDetail : phase;
      });
    const atTheEnd = 'for all other tasks to end';
    assert.deepEqual(waits(), ['for prestart task "init" to end', 'for the main tasks to start', atTheEnd]);
    await exits(scene, 'init');
    assert.deepEqual(waits(), ['running', 'running', atTheEnd]);
  });

  it('a one-shot of a service is not restarted after a success either, and its sidecar is', async () => {
    const scene = await Scene.up([init, side, main]);
    await exits(scene, 'init');
    await exits(scene, 'side');
    await scene.rig.pass(2_000);
    assert.deepEqual(living(scene), ['main', 'side']);
    assert.equal(scene.task('side').restarts, 1);
    assert.equal(scene.task('init').attempts, 1);
  });

  it('MainRunsAfterManyInitTasks: all of them are needed', async () => {
    const scene = await Scene.up([init, { ...init, name: 'init2' }, main]);
    await exits(scene, 'init');
    assert.deepEqual(living(scene), ['init2']);
    await exits(scene, 'init2');
    assert.deepEqual(living(scene), ['main']);
  });

  it('FailedInitTask: main never starts, the alloc fails, poststop runs all the same', async () => {
    const scene = await Scene.up([{ ...init, restart: NEVER }, main, last]);
    await exits(scene, 'init', EXIT_1);
    assert.deepEqual(living(scene), ['last']);
    assert.equal(scene.task('main').attempts, 0);
    assert.deepEqual(scene.told('main'), ['Received', 'Sibling Task Failed', 'Killed']);
    await exits(scene, 'last');
    assert.equal(scene.status, 'failed');
    scene.over();
  });

  it('SidecarNeverStarts: main waits for it', async () => {
    const scene = new Scene([{ ...side, restart: aPolicy({ attempts: 5 }) }, main]);
    for (let attempt = 0; attempt < 3; attempt++) {
      scene.rig.world.starts.push({ kind: 'fails', recoverable: true });
    }
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(1_500);
    assert.deepEqual(living(scene), []);
    assert.equal(scene.task('main').attempts, 0);
    await scene.rig.pass(5_000);
    assert.deepEqual(living(scene), ['main', 'side']);
  });

  it('a sidecar that restarts does not hold back a main task that restarts', async () => {
    const scene = await Scene.up([side, main]);
    scene.rig.world.exit(scene.workload('side'), EXIT_1);
    scene.rig.world.exit(scene.workload('main'), EXIT_1);
    await scene.rig.pass(2_000);
    assert.deepEqual(living(scene), ['main', 'side']);
  });

  it('Lifecycle_Shutdown_Order: main, then sidecars, then poststop, which a stop does not end', async () => {
    const scene = await Scene.up([side, main, watch, last]);
    scene.rig.world.obeysAfterMs = 1_000;
    await scene.stop();
    assert.equal(scene.task('main').phase, 'stopping');
    assert.equal(scene.task('side').phase, 'running');
    await scene.rig.pass(1_000);
    assert.deepEqual(living(scene), ['side', 'watch']);
    assert.equal(scene.task('side').phase, 'stopping');
    await scene.rig.pass(1_000);
    assert.deepEqual(living(scene), ['last']);
    await scene.stop();
    assert.deepEqual(living(scene), ['last']);
    await exits(scene, 'last');
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('TaskLeader_KillTG: when the leader ends well the others are ended, and the alloc is complete', async () => {
    const scene = await Scene.up([{ ...main, leader: true }, aTask({ name: 'follower' })], { type: 'batch' });
    await exits(scene, 'main');
    assert.deepEqual(scene.told('follower').slice(2), [
      'Leader Task Dead',
      'Killing',
      'Terminated',
      'Killed',
    ]);
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('TaskMain_KillTG: when all main tasks have ended the sidecars are ended, and not before', async () => {
    const scene = await Scene.up([side, watch, main, aTask({ name: 'other' })], { type: 'batch' });
    await exits(scene, 'main');
    assert.deepEqual(living(scene), ['other', 'side', 'watch']);
    await exits(scene, 'other');
    for (const sidecar of ['side', 'watch']) {
      assert.deepEqual(scene.told(sidecar).slice(2), ['Main Tasks Dead', 'Killing', 'Terminated', 'Killed']);
    }
    assert.equal(scene.status, 'complete');
    scene.over();
  });

  it('TaskLeader_StopTG: the leader ends before its followers', async () => {
    const scene = await Scene.up([aTask({ name: 'follower' }), { ...main, leader: true }]);
    scene.rig.world.obeysAfterMs = 1_000;
    await scene.stop();
    assert.equal(scene.task('follower').phase, 'running');
    await scene.rig.pass(1_000);
    assert.deepEqual(living(scene), ['follower']);
    await scene.rig.pass(1_000);
    scene.over();
  });

  it('TaskLeader_StopRestoredTG: a restored group does not wait for a leader that had failed', async () => {
    const scene = await Scene.up([{ ...main, leader: true, restart: NEVER }, aTask({ name: 'follower' })]);
    scene.rig.world.obeysAfterMs = 5_000;
    await exits(scene, 'main', EXIT_1);
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(20_000);
    assert.equal(scene.status, 'failed');
    scene.over();
  });

  it('Restore_LifecycleHooks: the gates are as they were', async () => {
    const scene = await Scene.up([init, side, main, last]);
    await exits(scene, 'init');
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(0);
    assert.deepEqual(living(scene), ['main', 'side']);
    assert.equal(scene.rig.world.spawned, 3, 'nothing was started again');
    await exits(scene, 'main', EXIT_1);
    await scene.rig.pass(2_000);
    assert.deepEqual(living(scene), ['main', 'side']);
    await scene.stop();
    await exits(scene, 'last');
    scene.over();
  });

  it('an agent that dies between the waves goes on where the ending was', async () => {
    const scene = await Scene.up([side, main, last]);
    scene.rig.world.obeysAfterMs = 1_000;
    await scene.stop();
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(3_000);
    assert.deepEqual(living(scene), ['last']);
    await exits(scene, 'last');
    scene.over();
  });
});

describe('lifecycle gates', () => {
  const gated = (task: Task, over: Partial<TaskRecord> = {}): GatedTask => ({
    task,
    record: { ...newTaskRecord('alloc', task.name), ...over },
  });
  const running = { state: 'running', attempts: 1, startedAtMs: 1 } as const;
  const done = { state: 'dead', attempts: 1, startedAtMs: 1 } as const;
  const open = (...tasks: GatedTask[]): string[] => [...openRoles(tasks)].sort();

  it('OnlyMainApp: opens directly', () => {
    assert.ok(openRoles([gated(main)]).has('main'));
  });

  it('open one after the other and do not close for mains that have begun', () => {
    const [first, second] = ['prestart', 'prestart_sidecar'];
    assert.deepEqual(open(gated(init), gated(side), gated(main)), [first, second]);
    assert.deepEqual(open(gated(init, done), gated(side), gated(main)), [first, second]);
    assert.ok(openRoles([gated(init, done), gated(side, running), gated(main)]).has('main'));
    assert.ok(openRoles([gated(side), gated(main, { attempts: 1 })]).has('main'));
    assert.ok(!openRoles([gated(init, { ...done, failed: true }), gated(main)]).has('main'));
    assert.ok(!openRoles([gated(main), gated(after)]).has('poststart'));
    assert.ok(openRoles([gated(main, running), gated(after)]).has('poststart'));
    assert.deepEqual(open(gated(main, done), gated(side, done), gated(last)), ['poststop']);
    assert.ok(!openRoles([gated(main, done), gated(side, running), gated(last)]).has('poststop'));
  });

  it('an ending names its cause, and its next wave', () => {
    const run = { desiredStatus: 'run', desiredDescription: '' } as const;
    const names = (tasks: readonly GatedTask[]): string[] => nextToEnd(tasks).map(({ task }) => task.name);
    assert.equal(decideEnding(run, [gated(main, running), gated(side, running)]), undefined);
    assert.equal(
      decideEnding(run, [gated(main, done), gated(side, running)])?.because?.type,
      'Main Tasks Dead',
    );
    assert.equal(
      decideEnding(run, [gated(main, { ...done, failed: true }), gated(side, running)])?.because?.type,
      'Sibling Task Failed',
    );
    assert.equal(
      decideEnding(run, [gated(last, { ...done, failed: true }), gated(main, done)]),
      undefined,
      'poststop ends nothing',
    );
    const leader = { ...main, leader: true };
    const all = [gated(side, running), gated(aTask({ name: 'other' }), running), gated(leader, running)];
    assert.deepEqual(names(all), ['main']);
    assert.deepEqual(names(all.slice(0, 2)), ['other']);
    assert.deepEqual(names(all.slice(0, 1)), ['side']);
    assert.deepEqual(names([gated(last)]), []);
  });

  it('every role is told apart', () => {
    assert.deepEqual([init, side, main, after, watch, last].map(roleOf), [
      'prestart',
      'prestart_sidecar',
      'main',
      'poststart',
      'poststart_sidecar',
      'poststop',
    ]);
  });
});
