/** A run is set up while its intent is being stored: what was set up is started only once that is durable, or let go. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_0, EXIT_1, World } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

/** One alloc whose task is about to be set up, on a host that has a say in each write. */
async function beforeIntent(options: ConstructorParameters<typeof Scene>[1] = {}): Promise<Scene> {
  const scene = new Scene([aTask({ restart: aPolicy({ attempts: 0 }) })], options);
  scene.rig.hooksTakeMs = 1_000;
  await scene.rig.agent.scheduler.register(scene.job);
  await scene.rig.pass(500);
  return scene;
}

describe('a run that is prepared', () => {
  it('is started once its intent is stored, and not before', async () => {
    const scene = await beforeIntent();
    const { rig } = scene;
    const seen: string[] = [];
    const { onWrite, onWritten } = rig.disk;
    const look = (): void => {
      const intents = rig.disk.records.listRuns(scene.allocId, 'main').length;
      seen.push(`${intents} stored, ${rig.world.prepared().length} prepared, ${rig.world.spawned} started`);
    };
    rig.disk.onWrite = () => {
      look();
      onWrite();
    };
    rig.disk.onWritten = () => {
      look();
      onWritten();
    };
    await rig.pass(600);
    assert.equal(rig.world.spawned, 1);
    const stored = seen.findIndex((line) => line.startsWith('1 stored'));
    assert.deepEqual(seen.slice(stored - 1, stored + 1), [
      '0 stored, 1 prepared, 0 started',
      '1 stored, 1 prepared, 0 started',
    ]);
    assert.deepEqual(rig.world.prepared(), []);
    assert.deepEqual(rig.world.givenUp, []);
    await scene.stop();
    await rig.pass(10_000);
    scene.over();
  });

  it('is given up when the intent is refused, each time, and nothing of it is started', async () => {
    const scene = await beforeIntent();
    const { rig } = scene;
    rig.disk.refusing = true;
    await rig.pass(60_000);
    assert.equal(rig.world.spawned, 0);
    assert.deepEqual(rig.world.prepared(), []);
    const givenUp = [...rig.world.givenUp];
    assert.ok(givenUp.length > 1, `${givenUp.length} tries`);
    assert.equal(new Set(givenUp).size, givenUp.length, 'each try is a run of its own');
    rig.disk.refusing = false;
    await rig.pass(60_000);
    assert.equal(rig.world.spawned, 1);
    assert.ok(!givenUp.includes(scene.workload().runId));
    assert.deepEqual(rig.world.givenUp, givenUp);
    await scene.stop();
    await rig.pass(10_000);
    scene.over();
  });

  it('is set up again for each restart', async () => {
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 2, delayMs: 1_000 }) })]);
    for (const spawned of [2, 3]) {
      scene.rig.world.exit(scene.workload(), EXIT_1);
      await scene.rig.pass(5_000);
      assert.equal(scene.rig.world.spawned, spawned);
    }
    assert.deepEqual(scene.rig.world.prepared(), []);
    await scene.stop();
    await scene.rig.pass(10_000);
    scene.over();
  });

  it('its set-up fails: told as a start that fails, the policy decides, the intent is closed', async () => {
    const scene = new Scene([aTask({ restart: aPolicy({ attempts: 1, delayMs: 1_000 }) })], {
      type: 'batch',
    });
    let faults = 1;
    scene.rig.world.prepareFault = () =>
      faults-- > 0
        ? new AgentError('executor_failed', 'no room for its directory', { recoverable: true })
        : undefined;
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(0);
    assert.equal(scene.rig.world.spawned, 0);
    assert.deepEqual(scene.told(), ['Received', 'Driver Failure', 'Restarting']);
    await scene.rig.pass(5_000);
    assert.equal(scene.rig.world.spawned, 1);
    scene.rig.world.exit(scene.workload(), EXIT_0);
    await scene.rig.pass(0);
    assert.equal(scene.status, 'complete');
    assert.deepEqual(scene.rig.world.givenUp, []);
    scene.over();
  });

  it('its set-up fails, and its intent is refused: nothing is left to be given up, and it is tried again', async () => {
    const scene = await beforeIntent();
    const { rig } = scene;
    rig.disk.refusing = true;
    rig.world.prepareFault = () => new AgentError('executor_failed', 'no room either', { recoverable: true });
    await rig.pass(60_000);
    assert.equal(rig.world.spawned, 0);
    assert.deepEqual(rig.world.givenUp, []);
    rig.world.prepareFault = () => undefined;
    rig.disk.refusing = false;
    await rig.pass(60_000);
    assert.equal(rig.world.spawned, 1);
    await scene.stop();
    await rig.pass(10_000);
    scene.over();
  });

  it('a driver that throws at once is told of like one that rejects', async () => {
    const life = { dead: false };
    const driver = new World(new FakeClock()).driver(life);
    driver.prepare = () => {
      throw new AgentError('start_failed', 'no such thing', { recoverable: false });
    };
    const scene = new Scene([aTask({ restart: aPolicy({ attempts: 0 }) })], { driver });
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(0);
    assert.equal(scene.status, 'failed');
    assert.deepEqual(scene.told(), ['Received', 'Driver Failure', 'Not Restarting']);
  });

  it('its agent is killed as the intent is written, just before or just after: it runs once', async () => {
    for (const act of [1, 2, 3]) {
      const scene = await beforeIntent();
      const { rig } = scene;
      rig.killAtAct(act);
      await rig.pass(600);
      assert.ok(rig.bury(), `act ${act}`);
      assert.deepEqual(rig.world.prepared(), [], 'those of a dead agent leave');
      await rig.start();
      await rig.pass(60_000);
      assert.equal(rig.world.live().length, 1, `act ${act}`);
      assert.equal(rig.world.spawned, 1, `act ${act}`);
      assert.deepEqual(rig.world.violations, []);
    }
  });

  it('a kill that comes while the intent is stored ends what was started of it', async () => {
    const scene = await beforeIntent();
    const { rig, allocId } = scene;
    const { onWrite } = rig.disk;
    let asked = false;
    rig.disk.onWrite = () => {
      onWrite();
      if (asked || rig.world.prepared().length === 0) return;
      asked = true;
      const runner = scene.runner();
      runner.want({ desiredStatus: 'stop', desiredDescription: 'asked' });
      runner.stop();
    };
    await rig.pass(600);
    assert.ok(asked);
    await rig.pass(60_000);
    // Another one has taken its place.
    assert.deepEqual(
      rig.world.live().filter((run) => run.allocId === allocId),
      [],
    );
    assert.deepEqual(rig.world.prepared(), []);
    assert.deepEqual(rig.world.violations, []);
    assert.equal(rig.toldOf(allocId).at(-1), 'Killed');
  });
});
