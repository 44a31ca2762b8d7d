/**
 * What an agent that comes back cannot know yet: runs out of reach, a driver that is not there, work of the agent before
 * that was cut short. Names in capitals are rows of the acceptance list.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Driver, TaskConfig } from '../../../src/drivers/driver.js';
import { MissingDriver } from '../../../src/drivers/missing.js';
import type { ReschedulePolicy } from '../../../src/jobspec/types.js';
import { runRecord } from '../../helpers/records.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_1 } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

const NEVER_ELSEWHERE: ReschedulePolicy = {
  attempts: 0,
  intervalMs: 0,
  delayMs: 5_000,
  delayFunction: 'constant',
  maxDelayMs: 5_000,
  unlimited: false,
};

/** An agent that was killed, and its successor, for whom the run is out of reach. */
async function outOfReach(type: 'service' | 'system' = 'service'): Promise<Scene> {
  const scene = await Scene.up([aTask()], { type });
  await scene.rig.pass(10_000);
  scene.rig.kill();
  scene.rig.world.reachable = false;
  await scene.rig.start();
  await scene.rig.pass(60_000);
  return scene;
}

describe('a run out of reach', () => {
  it('Restore_Restart: nothing is started in its place; what is found out decides', async () => {
    const scene = await outOfReach();
    assert.equal(scene.rig.world.spawned, 1);
    scene.rig.world.exit(scene.workload(), EXIT_1);
    scene.rig.world.reachable = true;
    await scene.rig.pass(40_000);
    assert.deepEqual(scene.told(), [
      'Received',
      'Started',
      'Failed Restoring Task',
      'Terminated',
      'Restarting',
      'Started',
    ]);
  });

  it('Restore_Kill: a stop and a purge wait for it, claim nothing, and end it as soon as it answers', async () => {
    const scene = await outOfReach();
    await scene.rig.agent.scheduler.stop(scene.job.id, { purge: true, noShutdownDelay: false });
    await scene.rig.pass(600_000);
    assert.equal(scene.rig.world.live().length, 1, 'it lives');
    assert.equal(scene.status, 'running', 'and nobody says otherwise');
    const id = scene.allocId;
    scene.rig.world.reachable = true;
    await scene.rig.pass(60_000);
    assert.deepEqual(scene.rig.world.live(), []);
    assert.deepEqual(scene.rig.disk.records.listAllocs(), [], 'it is forgotten');
    assert.ok(scene.rig.removedDirs.includes(id));
    assert.equal(scene.rig.toldOf(id).at(-1), 'Killed');
  });

  it('Restore_Update: a job that is changed in place starts nothing either', async () => {
    const scene = await outOfReach();
    const [group] = scene.job.groups;
    assert.ok(group);
    const tasks = group.tasks.map((task) => ({ ...task, killTimeoutMs: 1_234 }));
    await scene.rig.agent.scheduler.register({ ...scene.job, groups: [{ ...group, tasks }] });
    await scene.rig.pass(60_000);
    assert.equal(scene.rig.world.spawned, 1);
    scene.rig.world.reachable = true;
    await scene.rig.pass(40_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.rig.world.spawned, 1);
  });

  it('Restore_System: it is the same for a system job, and after a reboot it starts at once', async () => {
    const scene = await outOfReach('system');
    assert.equal(scene.rig.world.spawned, 1);
    scene.rig.reboot();
    scene.rig.world.reachable = true;
    await scene.rig.start();
    await scene.rig.pass(2_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.rig.world.spawned, 2);
  });
});

describe('a driver that is not there', () => {
  it('lets go of nothing that may run, and says so', async () => {
    const driver: Driver = new MissingDriver('docker', ['exec', 'raw_exec']);
    const found = await driver.recover(runRecord(), () => undefined);
    const detail = 'this host has no driver "docker"; it has exec, raw_exec';
    assert.deepEqual(found, { kind: 'unreachable', detail });
    await assert.rejects(
      driver.start({} as TaskConfig, () => undefined),
      { code: 'driver_not_found' },
    );
  });
});

describe('an alloc that cannot be run here', () => {
  it('Client_AddAllocError: has failed, once and with the reason, also for the next agents', async () => {
    const driver: Driver = new MissingDriver('docker', ['exec', 'raw_exec']);
    const options = { driver, group: { reschedule: NEVER_ELSEWHERE } };
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 5 }) })], options);
    const told = ['Received', 'Driver Failure', 'Not Restarting'];
    for (let agents = 0; agents < 3; agents++) {
      await scene.rig.pass(600_000);
      assert.equal(scene.status, 'failed');
      assert.deepEqual(scene.told(), told);
      scene.rig.kill();
      await scene.rig.start();
    }
    assert.equal(scene.rig.disk.records.listAllocs().length, 1);
    const [why] = scene.rig.told.filter(({ event }) => event.type === 'Driver Failure');
    assert.match(JSON.stringify(why), /this host has no driver/);
  });
});

describe('two tasks that fail in the same moment', () => {
  it('wait for different times: the die is thrown for each', async () => {
    const restart = aPolicy({ delayMs: 60_000 });
    const scene = await Scene.up([aTask({ restart }), aTask({ name: 'two', restart })]);
    let rolls = 0;
    scene.rig.clock.roll = () => (rolls += 0.25);
    scene.rig.world.exit(scene.workload(), EXIT_1);
    scene.rig.world.exit(scene.workload('two'), EXIT_1);
    await scene.rig.pass(0);
    const [one, two] = [scene.task(), scene.task('two')].map(({ nextStart }) => nextStart?.monoMs ?? 0);
    assert.notEqual(one, two);
  });
});

describe('an alloc that is new', () => {
  it('AllocState_Initialized: its tasks are known before anything of them runs', async () => {
    const wait = new Promise<undefined>(() => undefined);
    const scene = await Scene.up([aTask()], { hooks: [{ name: 'stuck', prestart: () => wait }] });
    assert.equal(scene.task().state, 'pending');
    assert.equal(scene.status, 'pending');
    assert.deepEqual(scene.told(), ['Received']);
  });
});
