/** What the scheduler does over time, with its agent killed now and then: deployments, rescheduling, launches, collection. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Job, UpdateStrategy } from '../../../src/jobspec/types.js';
import { silentLogger } from '../../../src/base/log.js';
import { Collector } from '../../../src/scheduler/collector.js';
import type { AllocRecord, DeploymentRecord } from '../../../src/state/store.js';
import { Rig } from '../../helpers/rig.js';
import { EXIT_0, EXIT_1 } from '../../helpers/scripted-driver.js';
import { aGroup, aJob, aPolicy, aTask } from '../../helpers/specs.js';

const UPDATE: UpdateStrategy = {
  maxParallel: 1,
  healthCheck: 'task_states',
  minHealthyMs: 10_000,
  healthyDeadlineMs: 60_000,
  progressDeadlineMs: 120_000,
  staggerMs: 1,
  autoRevert: true,
  autoPromote: false,
  canary: 0,
};
const never = aPolicy({ attempts: 0 });
const service = (version: string, count = 3, over: Partial<UpdateStrategy> = {}): Job =>
  aJob({
    groups: [
      aGroup({
        name: 'g',
        count,
        tasks: [aTask({ env: { V: version }, restart: never })],
        update: { ...UPDATE, ...over },
      }),
    ],
  });
const batch = (over: Partial<Job> = {}): Job =>
  aJob({ type: 'batch', groups: [aGroup({ tasks: [aTask({ restart: never })] })], ...over });

const allocsOf = (rig: Rig, jobId?: string): readonly AllocRecord[] =>
  rig.disk.records.listAllocs(jobId === undefined ? {} : { jobId }).map(({ record }) => record);
const deployments = (rig: Rig): readonly DeploymentRecord[] =>
  rig.disk.scheduling.listDeployments().map(({ record }) => record);
const living = (rig: Rig): number => rig.world.live().length;
/** The version of the job that runs in each place. */
const versions = (rig: Rig): readonly number[] =>
  allocsOf(rig)
    .filter(({ id, desiredStatus }) => rig.agent.allocs.isLive(id) && desiredStatus === 'run')
    .sort((a, b) => a.index - b.index)
    .map(({ jobVersion }) => jobVersion);

async function stableHost(job: Job): Promise<Rig> {
  const rig = new Rig();
  await rig.agent.scheduler.register(job);
  await rig.pass(11_000);
  assert.deepEqual(
    deployments(rig).map(({ status }) => status),
    ['successful'],
  );
  return rig;
}

describe('a deployment', () => {
  it('goes on place by place, each when the one before is healthy', async () => {
    const rig = await stableHost(service('1'));
    await rig.agent.scheduler.register(service('2'));
    await rig.pass(1_000);
    assert.deepEqual(versions(rig), [1, 0, 0]);
    await rig.pass(10_000);
    assert.deepEqual(versions(rig), [1, 1, 0]);
    await rig.pass(22_000);
    assert.deepEqual(versions(rig), [1, 1, 1]);
    const [, second] = deployments(rig);
    assert.equal(second?.status, 'successful');
    assert.deepEqual(
      [second.groups['g']?.placed, second.groups['g']?.healthy, second.groups['g']?.unhealthy],
      [3, 3, 0],
    );
    assert.equal(rig.world.spawned, 6);
    assert.deepEqual(rig.world.violations, []);
  });

  it('that fails goes back, and the places that were not reached never noticed', async () => {
    const rig = await stableHost(service('1'));
    const untouched = allocsOf(rig)[2]?.id;
    await rig.agent.scheduler.register(service('bad'));
    await rig.pass(1_000);
    const bad = rig.world
      .live()
      .find((run) => allocsOf(rig).some((a) => a.id === run.allocId && a.jobVersion === 1));
    assert.ok(bad);
    rig.world.exit(bad, EXIT_1);
    await rig.pass(60_000);
    const [, failed, revert] = deployments(rig);
    assert.equal(failed?.status, 'failed');
    assert.match(failed.description, /unhealthy allocations - rolling back to job version 0/);
    assert.equal(revert?.status, 'successful');
    assert.deepEqual(rig.disk.records.getJob('job')?.record.spec, service('1'));
    assert.deepEqual(versions(rig), [2, 2, 2]);
    assert.ok(untouched !== undefined && rig.agent.allocs.isLive(untouched), 'it runs on, as version 2');
    assert.equal(rig.world.spawned, 5);
  });

  it('without a stable version, or without auto_revert, stays failed; the same job again tries again', async () => {
    const rig = new Rig();
    await rig.agent.scheduler.register(service('1', 1));
    await rig.pass(1_000);
    for (const run of rig.world.live()) rig.world.exit(run, EXIT_1);
    await rig.pass(1_000);
    assert.match(deployments(rig)[0]?.description ?? '', /no stable job version to auto revert to/);
    const again = await rig.agent.scheduler.register(service('1', 1));
    assert.equal(again.unchanged, true);
    await rig.pass(11_000);
    assert.deepEqual(
      deployments(rig).map(({ status }) => status),
      ['failed', 'successful'],
    );
  });

  it('that fails and is not reverted does not spread: a place that it did not reach goes on with what is stable', async () => {
    const job = service('1');
    const rig = await stableHost(job);
    await rig.agent.scheduler.register(service('bad', 3, { autoRevert: false }));
    await rig.pass(1_000);
    const exitOf = (version: number): void => {
      const allocs = allocsOf(rig).filter(({ jobVersion }) => jobVersion === version);
      const run = rig.world.live().find(({ allocId }) => allocs.some(({ id }) => id === allocId));
      assert.ok(run);
      rig.world.exit(run, EXIT_1);
    };
    exitOf(1);
    await rig.pass(1_000);
    assert.equal(deployments(rig)[1]?.status, 'failed');
    const [old] = allocsOf(rig).filter(({ id }) => rig.agent.allocs.isLive(id));
    assert.ok(old);
    await rig.agent.scheduler.stopAlloc(old.id, false);
    await rig.pass(1_000);
    assert.deepEqual(versions(rig), [0, 0], 'a new one of the old version, and the one that was there');
    rig.kill();
    await rig.start();
    await rig.pass(60_000);
    assert.deepEqual(versions(rig), [0, 0]);
    assert.deepEqual(new Set(rig.world.live().map(({ env }) => env['V'])), new Set(['1']));
  });

  it('fails when nothing becomes healthy for the progress deadline', async () => {
    const rig = await stableHost(service('1', 1));
    const slow = { minHealthyMs: 300_000, healthyDeadlineMs: 400_000, progressDeadlineMs: 50_000 };
    await rig.agent.scheduler.register(service('2', 1, slow));
    await rig.pass(49_000);
    assert.equal(deployments(rig)[1]?.status, 'running');
    await rig.pass(2_000);
    assert.match(deployments(rig)[1]?.description ?? '', /progress deadline - rolling back to job version 0/);
  });

  it('is cancelled by a newer version, and by a stop', async () => {
    const rig = await stableHost(service('1'));
    await rig.agent.scheduler.register(service('2'));
    await rig.agent.scheduler.register(service('3'));
    await rig.agent.scheduler.stop('job', { purge: false, noShutdownDelay: false });
    assert.deepEqual(
      deployments(rig).map(({ status }) => status),
      ['successful', 'cancelled', 'cancelled'],
    );
  });

  it('waits while it is paused', async () => {
    const rig = await stableHost(service('1'));
    await rig.agent.scheduler.register(service('2'));
    const id = deployments(rig)[1]?.id ?? '';
    await rig.agent.scheduler.deploymentRequests.pause(id, true);
    await rig.pass(200_000);
    assert.deepEqual(versions(rig), [1, 0, 0]);
    await rig.agent.scheduler.deploymentRequests.pause(id, false);
    await rig.pass(40_000);
    assert.deepEqual(versions(rig), [1, 1, 1]);
  });

  it('goes on whenever its agent is killed', async () => {
    for (let act = 1; act <= 40; act += 3) {
      const rig = await stableHost(service('1', 2));
      rig.killAtAct(act);
      void rig.agent.scheduler.register(service('2', 2)).catch(() => undefined);
      await rig.pass(30_000);
      rig.kill();
      const known = rig.disk.records.getJob('job')?.record.version ?? 0;
      await rig.start();
      await rig.pass(60_000);
      assert.deepEqual(versions(rig), [known, known], `killed at act ${act}`);
      assert.equal(deployments(rig).at(-1)?.status, 'successful', `killed at act ${act}`);
      assert.equal(living(rig), 2);
      assert.deepEqual(rig.world.violations, []);
    }
  });
});

describe('rescheduling', () => {
  const reschedule = {
    attempts: 0,
    intervalMs: 0,
    delayMs: 30_000,
    delayFunction: 'exponential',
    maxDelayMs: 60_000,
    unlimited: true,
  } as const;
  const job = aJob({ groups: [aGroup({ tasks: [aTask({ restart: never })], reschedule })] });

  it('makes a new alloc after the delay, which grows; also over the death of the agent', async () => {
    const rig = new Rig();
    await rig.agent.scheduler.register(job);
    await rig.pass(0);
    for (const delayMs of [30_000, 60_000, 60_000]) {
      const [run] = rig.world.live();
      assert.ok(run);
      rig.world.exit(run, EXIT_1);
      await rig.pass(1_000);
      rig.kill();
      await rig.start();
      await rig.pass(delayMs - 3_000);
      assert.equal(living(rig), 0, `not before ${delayMs}`);
      await rig.pass(3_000);
      assert.equal(living(rig), 1);
    }
    const [first, second] = allocsOf(rig);
    assert.equal(first?.nextAllocId, second?.id);
    assert.equal(second?.previousAllocId, first?.id);
    assert.equal(first?.desiredStatus, 'stop');
    assert.deepEqual(
      allocsOf(rig)
        .at(-1)
        ?.reschedule?.events.map(({ delayMs }) => delayMs),
      [30_000, 60_000, 60_000],
    );
    const evaluations = rig.disk.scheduling.listEvaluations().map(({ record }) => record);
    const own = evaluations.filter(({ triggeredBy }) => triggeredBy === 'alloc-failure');
    assert.deepEqual(
      own.map(({ status }) => status),
      ['complete', 'complete', 'complete'],
    );
  });

  it('ends with its attempts, and says so; a stop cancels what waits', async () => {
    const once = { ...reschedule, unlimited: false, attempts: 1, intervalMs: 3_600_000 };
    const rig = new Rig();
    await rig.agent.scheduler.register({
      ...job,
      groups: job.groups.map((group) => ({ ...group, reschedule: once })),
    });
    await rig.pass(0);
    for (let round = 0; round < 2; round++) {
      for (const run of rig.world.live()) rig.world.exit(run, EXIT_1);
      await rig.pass(120_000);
    }
    assert.equal(rig.world.spawned, 2);
    assert.match(allocsOf(rig).at(-1)?.reschedule?.gaveUp ?? '', /1 of 1 times within 1h/);
    await rig.agent.scheduler.register(job);
    await rig.pass(0);
    for (const run of rig.world.live()) rig.world.exit(run, EXIT_1);
    await rig.pass(1_000);
    await rig.agent.scheduler.stop('job', { purge: false, noShutdownDelay: false });
    await rig.pass(300_000);
    assert.equal(living(rig), 0);
    const pending = rig.disk.scheduling.listEvaluations().filter(({ record }) => record.status === 'pending');
    assert.deepEqual(pending, []);
  });
});

describe('launches', () => {
  const periodic = { crons: ['*/10 * * * *'], timeZone: 'UTC', prohibitOverlap: false, enabled: true };
  const MINUTES = 60_000;
  const children = (rig: Rig): readonly string[] =>
    rig.disk.records.listJobs().flatMap(({ record }) => (record.parentId === undefined ? [] : [record.id]));

  it('come by the clock, once each, over deaths of the agent', async () => {
    const rig = new Rig();
    await rig.agent.scheduler.register(batch({ periodic }));
    assert.equal(rig.world.spawned, 0, 'the job itself runs nothing');
    for (let n = 0; n < 6; n++) {
      await rig.pass(7 * MINUTES);
      rig.kill();
      await rig.start();
      await rig.pass(3 * MINUTES);
    }
    assert.equal(children(rig).length, 6);
    assert.equal(rig.world.spawned, 6);
  });

  it('that were missed are made up for by one, and a clock that leaps makes no storm and no second one', async () => {
    const rig = new Rig();
    await rig.agent.scheduler.register(batch({ periodic }));
    await rig.pass(15 * MINUTES);
    const before = children(rig).length;
    rig.kill();
    await rig.pass(300 * MINUTES);
    await rig.start();
    await rig.pass(1_000);
    assert.equal(children(rig).length, before + 1, 'after five hours without an agent');
    rig.clock.stepWall(24 * 60 * MINUTES);
    await rig.pass(MINUTES);
    assert.equal(children(rig).length, before + 2, 'a day forward');
    rig.clock.stepWall(-24 * 60 * MINUTES);
    await rig.pass(60 * MINUTES);
    assert.equal(children(rig).length, before + 2, 'and back');
    rig.clock.stepWall(-48 * 60 * MINUTES);
    await rig.pass(31 * MINUTES);
    assert.ok(children(rig).length > before + 2, 'two days back: the rhythm begins anew');
  });

  it('do not overlap when that is prohibited', async () => {
    const rig = new Rig();
    await rig.agent.scheduler.register(batch({ periodic: { ...periodic, prohibitOverlap: true } }));
    await rig.pass(35 * MINUTES);
    assert.equal(children(rig).length, 1);
    for (const run of rig.world.live()) rig.world.exit(run, EXIT_0);
    await rig.pass(11 * MINUTES);
    assert.equal(children(rig).length, 2);
  });

  it('of a pattern carry meta and payload, and a token is good for one', async () => {
    const rig = new Rig();
    const { scheduler } = rig.agent;
    const parameterized = { payload: 'optional', metaRequired: ['input'], metaOptional: [] } as const;
    await scheduler.register(batch({ parameterized, meta: { a: '1' } }));
    const ask = { payload: 'aGk=', meta: { input: 'x' }, idempotencyToken: 't' };
    const first = await scheduler.dispatch('job', ask);
    const second = await scheduler.dispatch('job', ask);
    assert.equal(first.jobId, second.jobId);
    const child = rig.disk.records.getJob(first.jobId)?.record;
    assert.deepEqual(child?.spec.meta, { a: '1', input: 'x' });
    assert.deepEqual([child.payload, child.dispatched, child.parentId], ['aGk=', true, 'job']);
    assert.equal(child.spec.parameterized, undefined);
    await rig.pass(0);
    assert.equal(living(rig), 1);
    const bad = [
      { ...ask, meta: {} },
      { ...ask, meta: { input: 'x', other: 'y' } },
    ];
    for (const each of bad) {
      const dispatched = scheduler.dispatch('job', { ...each, idempotencyToken: undefined });
      await assert.rejects(dispatched, { code: 'bad_request' });
    }
  });
});

describe('what is over is forgotten', () => {
  const limits = {
    intervalMs: 60_000,
    maxAllocs: 2,
    allocAgeMs: 3_600_000,
    jobAgeMs: 3_600_000,
    diskUsedPercent: 80,
    inodesUsedPercent: 70,
  };
  const collectorOf = (rig: Rig, usedPercent = 1): Collector =>
    new Collector({
      clock: rig.clock,
      logger: silentLogger,
      store: rig.agent.store,
      allocs: rig.agent.allocs,
      limits,
      diskUse: () => Promise.resolve({ usedPercent, inodesUsedPercent: 1 }),
      removeAllocDir: (id) => {
        rig.removedDirs.push(id);
        return Promise.resolve();
      },
      exclusively: (work) => rig.agent.scheduler.exclusively(work),
    });

  it('never what lives or still says how a place is', async () => {
    const rig = new Rig();
    await rig.agent.scheduler.register(batch());
    await rig.pass(0);
    for (let n = 0; n < 4; n++) {
      await rig.agent.scheduler.stopAlloc(allocsOf(rig).at(-1)?.id ?? '', false);
      await rig.pass(1_000);
    }
    for (const run of rig.world.live()) rig.world.exit(run, EXIT_0);
    await rig.pass(1_000);
    const done = allocsOf(rig).at(-1);
    const collector = collectorOf(rig);
    assert.equal(allocsOf(rig).length, 5);
    await assert.rejects(collector.collect(done?.id ?? ''), { code: 'bad_request' });
    assert.equal(await collector.collectAll(), 4);
    assert.deepEqual(
      allocsOf(rig).map(({ id }) => id),
      [done?.id],
    );
    assert.equal(rig.removedDirs.length, 4);
    await rig.agent.scheduler.register(batch());
    await rig.pass(1_000);
    assert.equal(living(rig), 0, 'it is known that the job is done');
  });

  it('by number, by age, and when the disk is full', async () => {
    for (const [usedPercent, passMs, left] of [
      [1, 0, 3],
      [1, 7_200_000, 1],
      [99, 0, 1],
    ] as const) {
      const rig = new Rig();
      await rig.agent.scheduler.register(batch());
      await rig.pass(0);
      for (let n = 0; n < 4; n++) {
        await rig.agent.scheduler.stopAlloc(allocsOf(rig).at(-1)?.id ?? '', false);
        await rig.pass(1_000);
      }
      await rig.pass(passMs);
      const collector = collectorOf(rig, usedPercent);
      collector.start();
      await rig.pass(61_000);
      assert.equal(allocsOf(rig).length, left, `${usedPercent} % after ${passMs} ms`);
      assert.equal(living(rig), 1);
      collector[Symbol.dispose]();
    }
  });
});
