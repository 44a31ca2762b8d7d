/**
 * What a kill means in each phase of a task, and what it means that the agent leaves: the failure matrix. What errors of
 * hooks and drivers mean has its tests with those.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobType, Task } from '../../../src/jobspec/types.js';
import type { TaskPhase } from '../../../src/state/store.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_0, EXIT_1 } from '../../helpers/scripted-driver.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

interface Row {
  readonly tasks?: readonly Task[];
  readonly type?: JobType;
  /** Before the job is registered. */
  readonly before?: (scene: Scene) => void;
  readonly getThere?: (scene: Scene) => Promise<void> | void;
  readonly phase: TaskPhase;
  /** What is said from a kill on. */
  readonly killed: readonly string[];
}

const delayed = aTask({ shutdownDelayMs: 3_000, restart: aPolicy({ attempts: 3, delayMs: 5_000 }) });
const init = aTask({ name: 'init', lifecycle: { hook: 'prestart', sidecar: false } });
const ENDED = ['Killing', 'Terminated', 'Killed'];

async function exits(scene: Scene, result: typeof EXIT_0): Promise<void> {
  scene.rig.world.exit(scene.workload(), result);
  await scene.rig.pass(0);
}

const MATRIX: Readonly<Record<string, Row>> = {
  'the wait for its gate': { tasks: [init, delayed], phase: 'waiting', killed: ['Killed'] },
  'its set-up': {
    before: ({ rig }) => (rig.hooksTakeMs = 10_000),
    phase: 'prestart',
    killed: ['Killed'],
  },
  'its start': {
    before: ({ rig }) => (rig.world.startMs = 2_000),
    phase: 'starting',
    killed: ['Started', 'Waiting for Shutdown Delay', ...ENDED],
  },
  'a slow poststart hook': {
    before: ({ rig }) => (rig.hooksTakeMs = 3_000),
    getThere: ({ rig }) => rig.pass(3_000),
    phase: 'running',
    killed: ['Waiting for Shutdown Delay', ...ENDED],
  },
  'its run': { phase: 'running', killed: ['Waiting for Shutdown Delay', ...ENDED] },
  'its exited hooks': {
    getThere: async (scene) => {
      scene.rig.hooksTakeMs = 5_000;
      await exits(scene, EXIT_1);
    },
    phase: 'exited',
    killed: ['Killed'],
  },
  'its restart delay': {
    getThere: (scene) => exits(scene, EXIT_1),
    phase: 'backoff',
    killed: ['Killed'],
  },
  'the wait for the others, when it has ended': {
    tasks: [aTask(), aTask({ name: 'side' })],
    type: 'batch',
    getThere: (scene) => exits(scene, EXIT_0),
    phase: 'dead',
    killed: [],
  },
  'its stop hooks': {
    type: 'batch',
    getThere: async (scene) => {
      scene.rig.hooksTakeMs = 2_000;
      await exits(scene, EXIT_0);
      await scene.rig.pass(2_500);
    },
    phase: 'dead',
    killed: [],
  },
};

async function get({ tasks, type, before, getThere, phase }: Row): Promise<Scene> {
  const scene = new Scene(tasks ?? [delayed], { type: type ?? 'service' });
  before?.(scene);
  await scene.rig.agent.scheduler.register(scene.job);
  await scene.rig.pass(0);
  await getThere?.(scene);
  assert.equal(scene.task().phase, phase);
  return scene;
}

function makeWell({ rig }: Scene): void {
  rig.hooksTakeMs = 0;
  rig.world.startMs = 0;
}

describe('a kill', () => {
  for (const [what, row] of Object.entries(MATRIX)) {
    it(`during ${what}: it ends for good, and has not failed`, async () => {
      const scene = await get(row);
      const told = scene.told().length;
      await scene.stop();
      await scene.rig.pass(60_000);
      assert.deepEqual(scene.told().slice(told), row.killed);
      assert.equal(scene.task().failed, false);
      assert.equal(scene.status, 'complete');
      scene.over();
    });
  }
});

describe('an error', () => {
  it('a poststart hook that fails is told, and the task runs on', async () => {
    const hooks = [{ name: 'broken', poststart: () => Promise.reject(new Error('no')) }];
    const scene = await Scene.up([aTask()], { hooks });
    assert.deepEqual(scene.told(), ['Received', 'Started', 'Task hook failed']);
    await scene.rig.pass(60_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.task().failed, false);
  });
});

describe('the agent leaving', () => {
  it('leaving while a run is out of reach: nothing is written', async () => {
    const scene = await Scene.up([aTask()]);
    scene.rig.kill();
    scene.rig.world.reachable = false;
    await scene.rig.start();
    await scene.rig.pass(2_000);
    const before = scene.task();
    await scene.rig.leave();
    assert.deepEqual(scene.task(), before);
    assert.equal(scene.rig.world.live().length, 1);
    scene.rig.world.reachable = true;
    await scene.rig.start();
    await scene.rig.pass(1_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.rig.world.spawned, 1);
  });

  for (const [what, row] of Object.entries(MATRIX)) {
    it(`during ${what}: at once, nothing is written, the next agent goes on`, async () => {
      const scene = await get(row);
      const [before, live] = [scene.task(), scene.rig.world.live().length];
      const told = scene.told().length;
      await scene.rig.leave();
      assert.deepEqual(scene.task(), before);
      assert.ok(scene.rig.world.live().length >= live, 'what lives was not touched');
      makeWell(scene);
      await scene.rig.start();
      await scene.rig.pass(10_000);
      const isBatch = row.type === 'batch';
      assert.equal(scene.task().failed, false);
      if (isBatch) assert.deepEqual(scene.told().slice(told), []);
      else if (row.tasks === undefined) assert.equal(scene.task().phase, 'running');
      else assert.equal(scene.task().phase, 'waiting');
      assert.equal(scene.told().filter((type) => type === 'Not Restarting').length, 0);
      await scene.stop();
      await scene.rig.pass(60_000);
      scene.over();
    });
  }
});
