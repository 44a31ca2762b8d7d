import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import {
  decideHealth,
  type CheckVerdict,
  type HealthState,
  type WatchedTask,
} from '../../../src/allocrunner/health.js';
import { AllocJournal } from '../../../src/allocrunner/alloc-journal.js';
import { silentLogger } from '../../../src/base/log.js';
import type { TaskEvent } from '../../../src/events/task-event.js';
import { UPDATE_DEFAULTS } from '../../../src/jobspec/defaults.js';
import type { TaskLifecycle, UpdateStrategy } from '../../../src/jobspec/types.js';
import type { AllocRecord, Change, Moment, StateStore, TaskRecord } from '../../../src/state/store.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { allocRecord, taskRecord } from '../../helpers/records.js';
import { Scene } from '../../helpers/scene.js';
import { EXIT_1 } from '../../helpers/scripted-driver.js';
import { aJob, aPolicy, aTask } from '../../helpers/specs.js';

const STRATEGY: UpdateStrategy = { ...UPDATE_DEFAULTS, minHealthyMs: 10_000, healthyDeadlineMs: 60_000 };

function at(ms: number, bootId = 'b1'): Moment {
  return { wallMs: 1_700_000_000_000 + ms, monoMs: 5_000 + ms, bootId };
}

function one(
  over: Partial<TaskRecord> = {},
  lifecycle?: TaskLifecycle,
  isSupervised = over.state === 'running' || over.state === undefined,
): WatchedTask {
  const record = taskRecord({ task: 'main', state: 'running', phase: 'running', runId: 'r1', ...over });
  return { task: aTask({ name: record.task, lifecycle }), record, isSupervised };
}

const INIT: TaskLifecycle = { hook: 'prestart', sidecar: false };
const DEAD = { state: 'dead', phase: 'dead', runId: undefined } as const;
const PENDING = { state: 'pending', phase: 'waiting', runId: undefined } as const;

/** What is seen, one after the other, each with the stored outcome of the one before. */
function watch(
  looks: readonly {
    readonly atMs: number;
    readonly tasks: readonly WatchedTask[];
    readonly checks?: CheckVerdict;
    readonly bootId?: string;
    readonly version?: number;
  }[],
  strategy: UpdateStrategy = STRATEGY,
): HealthState {
  let alloc: AllocRecord = allocRecord();
  let state: HealthState = { health: undefined, watch: undefined, lookAgainInMs: undefined };
  for (const { atMs, tasks, checks: seen, bootId, version = 0 } of looks) {
    const checks: CheckVerdict = seen ?? { kind: 'none' };
    alloc = { ...alloc, jobVersion: version };
    state = decideHealth({ alloc, strategy, tasks, checks, now: at(atMs, bootId) });
    alloc = { ...alloc, health: state.health, healthWatch: state.watch };
  }
  return state;
}

describe('decideHealth', () => {
  it('is healthy when all have run for min_healthy_time, and not a moment earlier', () => {
    const up = { tasks: [one()] };
    assert.deepEqual(watch([{ atMs: 0, ...up }]).lookAgainInMs, 10_000);
    assert.equal(
      watch([
        { atMs: 0, ...up },
        { atMs: 9_999, ...up },
      ]).health,
      undefined,
    );
    const { health } = watch([
      { atMs: 0, ...up },
      { atMs: 10_000, ...up },
    ]);
    assert.deepEqual(health, { healthy: true, atMs: at(10_000).wallMs, detail: 'after 10s' });
  });

  it('counts again from a restart', () => {
    const state = watch([
      { atMs: 0, tasks: [one()] },
      { atMs: 5_000, tasks: [one({ state: 'pending', phase: 'backoff', runId: undefined })] },
      { atMs: 6_000, tasks: [one({ runId: 'r2' })] },
      { atMs: 15_000, tasks: [one({ runId: 'r2' })] },
    ]);
    assert.equal(state.health, undefined);
    assert.equal(state.lookAgainInMs, 1_000);
  });

  it('counts again when another run is there, also when nobody saw the one before end', () => {
    const state = watch([
      { atMs: 0, tasks: [one()] },
      { atMs: 9_000, tasks: [one({ runId: 'r2' })] },
      { atMs: 12_000, tasks: [one({ runId: 'r2' })] },
    ]);
    assert.equal(state.health, undefined);
  });

  it('is unhealthy at once when a task has failed, or has ended that shall run on', () => {
    assert.match(
      watch([{ atMs: 0, tasks: [one({ ...DEAD, failed: true })] }]).health?.detail ?? '',
      /failed/,
    );
    assert.match(watch([{ atMs: 0, tasks: [one(DEAD)] }]).health?.detail ?? '', /is dead/);
  });

  it('passes over a one-shot that did its work and over what comes at the end', () => {
    const others = [
      one({ task: 'init', ...DEAD }, { hook: 'prestart', sidecar: false }),
      one({ task: 'warm', ...DEAD }, { hook: 'poststart', sidecar: false }),
      one({ task: 'end', ...PENDING }, { hook: 'poststop', sidecar: false }),
    ];
    const tasks = [one(), ...others];
    const { health } = watch([
      { atMs: 0, tasks },
      { atMs: 10_000, tasks },
    ]);
    assert.equal(health?.healthy, true);
  });

  it('is unhealthy at the deadline, and says what was missing', () => {
    const tasks = [one(), one({ task: 'slow', ...PENDING })];
    assert.equal(watch([{ atMs: 0, tasks }]).lookAgainInMs, 60_000);
    const { health } = watch([
      { atMs: 0, tasks },
      { atMs: 60_000, tasks },
    ]);
    assert.equal(health?.healthy, false);
    assert.equal(health.detail, 'task "slow" is not running (waiting) at the healthy_deadline (1m)');
  });

  it('is unhealthy at the deadline when it has not been well for long enough', () => {
    const looks = [
      { atMs: 0, tasks: [one(PENDING)] },
      { atMs: 55_000, tasks: [one()] },
    ];
    assert.equal(watch(looks).lookAgainInMs, 5_000);
    const { health } = watch([...looks, { atMs: 60_000, tasks: [one()] }]);
    assert.match(health?.detail ?? '', /not been well for min_healthy_time \(10s\)/);
  });

  it('asks the checks, unless task_states is what counts', () => {
    const failing: CheckVerdict = { kind: 'not_passing', detail: 'check "up" is failing' };
    const looks = [
      { atMs: 0, tasks: [one()], checks: failing },
      { atMs: 60_000, tasks: [one()], checks: failing },
    ];
    assert.equal(watch(looks).health?.detail, 'check "up" is failing at the healthy_deadline (1m)');
    assert.equal(watch(looks, { ...STRATEGY, healthCheck: 'task_states' }).health?.healthy, true);
  });

  it('a check that fails once begins the time anew', () => {
    const tasks = [one()];
    const state = watch([
      { atMs: 0, tasks, checks: { kind: 'passing' } },
      { atMs: 5_000, tasks, checks: { kind: 'not_passing', detail: '' } },
      { atMs: 6_000, tasks, checks: { kind: 'passing' } },
      { atMs: 15_000, tasks, checks: { kind: 'passing' } },
    ]);
    assert.equal(state.lookAgainInMs, 1_000);
  });

  it('never says anything when somebody else does', () => {
    const state = watch([{ atMs: 0, tasks: [one(DEAD)] }], { ...STRATEGY, healthCheck: 'manual' });
    assert.equal(state.health, undefined);
    assert.equal(state.lookAgainInMs, undefined);
  });

  it('a step of the wall clock changes nothing within a boot; across a reboot it is all there is', () => {
    const deadlineAfter = (bootId: string): number | undefined =>
      watch([
        { atMs: 0, tasks: [one(PENDING)] },
        { atMs: 30_000, tasks: [one(PENDING)], bootId },
      ]).lookAgainInMs;
    assert.equal(deadlineAfter('b1'), 30_000);
    assert.equal(deadlineAfter('b2'), 30_000);
  });

  it('judges a newer version anew, and the same one never again', () => {
    const up = [one()];
    const verdict = watch([
      { atMs: 0, tasks: up },
      { atMs: 10_000, tasks: up },
      { atMs: 20_000, tasks: [one(DEAD)] },
    ]);
    assert.equal(verdict.health?.healthy, true);
    const anew = watch([
      { atMs: 0, tasks: up },
      { atMs: 10_000, tasks: up },
      { atMs: 20_000, tasks: up, version: 1 },
    ]);
    assert.equal(anew.health, undefined);
    assert.equal(anew.lookAgainInMs, 10_000);
  });

  it('whatever happens: a verdict falls by the deadline, and healthy only after min_healthy_time without a break', () => {
    const look = fc.record({
      afterMs: fc.integer({ min: 1, max: 12_000 }),
      run: fc.constantFrom('', 'r1', 'r2'),
      passing: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(look, { minLength: 1, maxLength: 40 }), (looks) => {
        let nowMs = 0;
        let wellSinceMs: number | undefined;
        let wellRun = '';
        const seen: Parameters<typeof watch>[0][number][] = [];
        for (const { afterMs, run, passing } of looks) {
          nowMs += afterMs;
          const tasks = [run === '' ? one(PENDING) : one({ runId: run })];
          const checks: CheckVerdict = passing ? { kind: 'passing' } : { kind: 'not_passing', detail: 'x' };
          seen.push({ atMs: nowMs, tasks, checks });
          const well = run !== '' && passing;
          if (!well) wellSinceMs = undefined;
          else if (wellSinceMs === undefined || wellRun !== run) wellSinceMs = nowMs;
          wellRun = run;
          const { health } = watch(seen);
          const openMs = nowMs - (seen[0]?.atMs ?? 0);
          if (health !== undefined) {
            const steadyMs = wellSinceMs === undefined ? 0 : nowMs - wellSinceMs;
            assert.equal(health.healthy, steadyMs >= STRATEGY.minHealthyMs);
            return;
          }
          assert.ok(openMs < STRATEGY.healthyDeadlineMs);
        }
      }),
    );
  });
});

describe('health of an alloc', () => {
  it('is stored and told after min_healthy_time', async () => {
    const scene = await Scene.up([aTask()]);
    await scene.rig.pass(9_999);
    assert.equal(scene.alloc().health, undefined);
    await scene.rig.pass(1);
    assert.equal(scene.alloc().health?.healthy, true);
  });

  it('the time that has passed counts on when the agent is killed and comes back', async () => {
    const scene = await Scene.up([aTask()]);
    await scene.rig.pass(6_000);
    scene.rig.kill();
    await scene.rig.pass(3_000);
    await scene.rig.start();
    await scene.rig.pass(999);
    assert.equal(scene.alloc().health, undefined);
    await scene.rig.pass(1);
    assert.equal(scene.alloc().health?.detail, 'after 10s');
  });

  it('a task that died while the agent was away was not well', async () => {
    const scene = await Scene.up([aTask()]);
    await scene.rig.pass(6_000);
    scene.rig.kill();
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(60_000);
    await scene.rig.start();
    assert.equal(scene.alloc().health, undefined);
    await scene.rig.pass(1_000);
    await scene.rig.pass(10_000);
    assert.equal(scene.alloc().health?.healthy, true);
    assert.equal(scene.alloc().health?.detail, 'after 1m17s');
  });

  it('a failed task makes it unhealthy in the same moment', async () => {
    const scene = await Scene.up([aTask({ restart: aPolicy({ attempts: 0 }) })]);
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(0);
    assert.equal(scene.alloc().health?.healthy, false);
    assert.equal(scene.alloc().health?.detail, 'task "main" failed');
  });

  it('the deadline passes also while the agent is away; who is to blame is told', async () => {
    const restart = aPolicy({ attempts: 100, intervalMs: 3_600_000, delayMs: 30_000 });
    const scene = await Scene.up([aTask({ restart })]);
    for (let i = 0; i < 9; i++) {
      scene.rig.world.exit(scene.workload(), EXIT_1);
      await scene.rig.pass(30_000);
    }
    scene.rig.world.exit(scene.workload(), EXIT_1);
    await scene.rig.pass(0);
    scene.rig.kill();
    await scene.rig.pass(29_000);
    await scene.rig.start();
    assert.equal(scene.alloc().health, undefined);
    await scene.rig.pass(1_000);
    assert.equal(scene.alloc().health?.healthy, false);
    assert.ok(scene.told().includes('Alloc Unhealthy'));
  });

  it('a bad verdict is handed to the store with the event that tells of it, and not before', () => {
    const clock = new FakeClock();
    const commits: (readonly Change[])[] = [];
    const said: TaskEvent[] = [];
    const record = taskRecord({ task: 'main', ...PENDING });
    const store = {
      getTask: () => record,
      commit: (changes: readonly Change[]) => Promise.resolve(void commits.push(changes)),
    } as unknown as StateStore;
    const job = aJob();
    const [group] = job.groups;
    assert.ok(group);
    const journal = new AllocJournal(
      {
        clock,
        bootId: 'b1',
        logger: silentLogger,
        store,
        isAtRest: () => false,
        supervision: () => 'no',
        checks: () => ({ kind: 'none' }),
        say: (_task, event) => said.push(event),
      },
      { alloc: allocRecord(), job, group },
    );
    journal.keepUp();
    clock.leap(300_000);
    for (let looks = 0; looks < 3; looks++) journal.keepUp();
    assert.deepEqual(
      said.map(({ type }) => type),
      ['Alloc Unhealthy'],
    );
    const isJudged = (): boolean => journal.alloc.health?.healthy === false;
    assert.equal(isJudged(), false);
    const [event] = said;
    assert.ok(event);
    const stamped = { seq: 1, atMs: 0, event };
    const change: Change = { kind: 'add_task_event', allocId: 'a', task: 'main', event: stamped };
    void journal.persistTask(record, [change], 'keep');
    assert.deepEqual(
      commits.at(-1)?.map(({ kind }) => kind),
      ['add_task_event', 'put_alloc'],
    );
    assert.equal(isJudged(), true);
  });

  it('a bad verdict is told once or found again, wherever the agent is killed', async () => {
    for (let act = 1; act < 12; act++) {
      const scene = await Scene.up([aTask(), aTask({ name: 'init', lifecycle: INIT })]);
      await scene.rig.pass(299_000);
      scene.rig.killAtAct(act);
      await scene.rig.pass(1_000);
      if (scene.rig.bury()) await scene.rig.start();
      await scene.rig.pass(1_000);
      assert.equal(scene.alloc().health?.healthy, false);
      assert.deepEqual(scene.told('init').slice(2), ['Alloc Unhealthy']);
    }
  });

  it('a batch alloc is never judged', async () => {
    const scene = await Scene.up([aTask()], { type: 'batch' });
    await scene.rig.pass(600_000);
    assert.equal(scene.alloc().health, undefined);
    assert.equal(scene.alloc().healthWatch, undefined);
  });
});
