/** Restarts of single tasks of a whole group, and its ends: the cases of Lifecycle_Restart that are no restart of all. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import type { JobType, Task } from '../../../src/jobspec/types.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_0, EXIT_1 } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

const ONCE = aPolicy({ attempts: 1, delayMs: 0 });
const one = (name: string, over: Partial<Task> = {}): Task => aTask({ name, restart: ONCE, ...over });
const NAMES = ['init', 'side', 'main', 'after', 'watch', 'last'];
const ALL = [
  one('last', { lifecycle: { hook: 'poststop', sidecar: false } }),
  one('after', { lifecycle: { hook: 'poststart', sidecar: false } }),
  one('watch', { lifecycle: { hook: 'poststart', sidecar: true } }),
  one('main'),
  one('side', { lifecycle: { hook: 'prestart', sidecar: true } }),
  one('init', { lifecycle: { hook: 'prestart', sidecar: false } }),
];
const NOTHING = { init: 0, side: 0, main: 0, after: 0, watch: 0, last: 0 };

const restarts = (scene: Scene): Readonly<Record<string, number>> =>
  Object.fromEntries(NAMES.map((name) => [name, scene.task(name).restarts]));

async function exits(scene: Scene, name: string, result = EXIT_0): Promise<void> {
  scene.rig.world.exit(scene.workload(name), result);
  await scene.rig.pass(0);
}

async function up(leader: boolean, type: JobType = 'service'): Promise<Scene> {
  const tasks = ALL.map((task) => (task.name === 'main' ? { ...task, leader } : task));
  const scene = await Scene.up(tasks, { type });
  await exits(scene, 'init');
  await exits(scene, 'after');
  return scene;
}

/** All others are down, poststop ran. */
async function assertOver(scene: Scene): Promise<void> {
  await scene.rig.pass(0);
  await exits(scene, 'last');
  assert.ok(scene.told('last').includes('Started'), 'poststop ran');
  scene.over();
}

describe('one task of a group', () => {
  for (const leader of [false, true]) {
    const as = leader ? 'leader main' : 'main';

    it(`Lifecycle_Restart, ${as}: it alone, and nobody is ended for it`, async () => {
      const scene = await up(leader);
      await scene.runner().restart('main', 'asked for');
      await scene.rig.pass(0);
      assert.deepEqual(restarts(scene), { ...NOTHING, main: 1 });
      assert.equal(scene.rig.world.live().length, 3);
    });

    it(`Lifecycle_Restart, ${as} fails twice: one restart, then everything ends, poststop last`, async () => {
      const scene = await up(leader);
      await exits(scene, 'main', EXIT_1);
      assert.equal(scene.task('main').phase, 'running');
      await exits(scene, 'main', EXIT_1);
      assert.deepEqual(restarts(scene), { ...NOTHING, main: 1 });
      await assert.rejects(
        scene.runner().restart('main', 'asked for'),
        (error) => error instanceof AgentError && error.code === 'not_running',
      );
      await assertOver(scene);
      assert.equal(scene.status, 'failed');
    });

    it(`Lifecycle_Restart, ${as} of a batch job exits 0: everything ends, poststop last`, async () => {
      const scene = await up(leader, 'batch');
      await exits(scene, 'main');
      assert.deepEqual(restarts(scene), NOTHING);
      await assertOver(scene);
      assert.equal(scene.status, 'complete');
    });
  }

  for (const name of ['side', 'watch']) {
    it(`Lifecycle_Restart, sidecar ${name}: it alone`, async () => {
      const scene = await up(false);
      await scene.runner().restart(name, 'asked for');
      await scene.rig.pass(0);
      assert.deepEqual(restarts(scene), { ...NOTHING, [name]: 1 });
    });
  }

  it('Lifecycle_Restart, stop: all dead, poststop too, no restarts', async () => {
    const scene = await up(false);
    await scene.stop();
    await assertOver(scene);
    assert.deepEqual(restarts(scene), NOTHING);
    assert.equal(scene.status, 'complete');
  });
});
