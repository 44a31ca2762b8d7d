/** Jobs on one host, over real alloc runners and a real store in memory. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import type { Job } from '../../../src/jobspec/types.js';
import { Rig } from '../../helpers/rig.js';
import { EXIT_0, EXIT_1 } from '../../helpers/scripted-driver.js';
import { aGroup, aJob, aPolicy, aTask } from '../../helpers/specs.js';

const once = aTask({ restart: aPolicy({ attempts: 0 }) });
const withCount = (count: number, over: Partial<Job> = {}): Job =>
  aJob({ groups: [aGroup({ count, tasks: [once] })], ...over });
const STOP = { purge: false, noShutdownDelay: false };
const codeIs = (code: string) => (error: unknown) => error instanceof AgentError && error.code === code;

async function hostWith(job: Job): Promise<Rig> {
  const rig = new Rig();
  await rig.agent.scheduler.register(job);
  await rig.pass(0);
  return rig;
}
const allocsOf = (rig: Rig) => rig.disk.records.listAllocs().map(({ record }) => record);

describe('scheduler', () => {
  it('an unchanged job is a no-op', async () => {
    const rig = await hostWith(withCount(2));
    const before = rig.disk.history.index();
    const again = await rig.agent.scheduler.register(withCount(2));
    assert.equal(again.unchanged, true);
    assert.equal(again.version, 0);
    const told = rig.disk.history.readFeed(before, 9).map(({ payload }) => payload.topic);
    assert.deepEqual(told, ['Evaluation'], 'nothing but that somebody asked');
    assert.equal(rig.world.spawned, 2);
  });

  it('a job that is registered while its stop still waits for the disk runs: the stop is written first', async () => {
    const update = {
      maxParallel: 1,
      healthCheck: 'task_states' as const,
      minHealthyMs: 1_000,
      healthyDeadlineMs: 20_000,
      progressDeadlineMs: 60_000,
      staggerMs: 30_000,
      autoRevert: false,
      autoPromote: false,
      canary: 0,
    };
    const job = aJob({ groups: [aGroup({ count: 2, tasks: [once], update })] });
    const rig = await hostWith(job);
    rig.disk.refusing = true;
    await rig.agent.scheduler.stop('job', STOP);
    await assert.rejects(rig.agent.scheduler.register(job), codeIs('store_unavailable'));
    rig.disk.refusing = false;
    const { unchanged, version } = await rig.agent.scheduler.register(job);
    assert.deepEqual({ unchanged, version }, { unchanged: false, version: 2 });
    await rig.pass(60_000);
    assert.equal(rig.world.live().length, 2);
    assert.deepEqual(
      rig.disk.scheduling.listDeployments().map(({ record }) => [record.jobVersion, record.status]),
      [
        [0, 'cancelled'],
        [2, 'successful'],
      ],
    );
  });

  it('a new job is stored together with its allocs, and nothing of either when the disk refuses', async () => {
    const rig = new Rig();
    const seen = new Set<string>();
    rig.disk.onWritten = () => seen.add(`${rig.disk.records.listJobs().length} ${allocsOf(rig).length}`);
    rig.disk.refusing = true;
    await assert.rejects(rig.agent.scheduler.register(withCount(2)), codeIs('store_unavailable'));
    await rig.pass(1_000);
    assert.equal(rig.world.spawned, 0);
    rig.disk.refusing = false;
    await rig.agent.scheduler.register(withCount(2));
    await rig.pass(0);
    assert.equal(rig.world.spawned, 2);
    seen.delete('0 0');
    assert.deepEqual([...seen], ['1 2']);
  });

  it('a stop is stored together with what it asks of the allocs', async () => {
    const rig = await hostWith(withCount(2));
    const seen = new Set<string>();
    rig.disk.onWritten = () => {
      const isStopped = rig.disk.records.getJob('job')?.record.stopped ?? false;
      seen.add([isStopped, ...allocsOf(rig).map(({ desiredStatus }) => desiredStatus)].join(' '));
    };
    await rig.agent.scheduler.stop('job', STOP);
    await rig.pass(0);
    assert.deepEqual([...seen], ['true stop stop']);
    assert.deepEqual(rig.world.live(), []);
  });

  it('registering at the same time from two sides fills each place once', async () => {
    const rig = new Rig();
    const { scheduler } = rig.agent;
    await Promise.all([1, 2, 3].map(() => scheduler.register(withCount(2))));
    await rig.pass(0);
    assert.equal(allocsOf(rig).length, 2);
    assert.equal(rig.disk.records.listJobVersions('job').length, 1);
  });

  it('check index: a job that has changed meanwhile is a conflict', async () => {
    const rig = await hostWith(withCount(1));
    const index = rig.disk.records.getJob('job')?.modifyIndex ?? 0;
    await rig.agent.scheduler.register(withCount(2), index);
    await assert.rejects(rig.agent.scheduler.register(withCount(3), index), codeIs('conflict'));
    await assert.rejects(rig.agent.scheduler.register(aJob({ id: 'new' }), 7), codeIs('conflict'));
    await rig.pass(0);
    assert.equal(rig.world.live().length, 2);
  });

  it('a newer version that needs a new run: the old one ends before the new one starts', async () => {
    const rig = await hostWith(withCount(1));
    rig.world.placeOf = () => 'the one place';
    rig.world.obeysAfterMs = 3_000;
    await rig.agent.scheduler.register(aJob({ groups: [aGroup({ tasks: [{ ...once, env: { V: '2' } }] })] }));
    await rig.pass(2_000);
    assert.equal(rig.world.spawned, 1);
    await rig.pass(2_000);
    assert.deepEqual(rig.world.violations, []);
    assert.equal(rig.world.live()[0]?.env['V'], '2');
    assert.deepEqual(
      allocsOf(rig).map(({ jobVersion, clientStatus }) => [jobVersion, clientStatus]),
      [
        [0, 'complete'],
        [1, 'running'],
      ],
    );
  });

  it('in place: settings reach the runner and the record, the workload is not touched', async () => {
    const rig = await hostWith(withCount(1));
    const task = { ...once, killTimeoutMs: 1_000 };
    await rig.agent.scheduler.register(aJob({ groups: [aGroup({ tasks: [task] })] }));
    assert.equal(allocsOf(rig)[0]?.jobVersion, 1);
    rig.world.obeysAfterMs = 60_000;
    await rig.agent.scheduler.stop('job', STOP);
    await rig.pass(1_000);
    assert.equal(rig.world.live().length, 0);
    assert.equal(rig.world.spawned, 1);
  });

  it('a failed place is filled when the job is asked for again, a complete one is not', async () => {
    const rig = await hostWith(withCount(2, { type: 'batch' }));
    const [first, second] = rig.world.live();
    assert.ok(first && second);
    rig.world.exit(first, EXIT_0);
    rig.world.exit(second, EXIT_1);
    await rig.pass(60_000);
    assert.equal(rig.world.spawned, 2);
    await rig.agent.scheduler.register(withCount(2, { type: 'batch' }));
    await rig.pass(0);
    assert.equal(rig.world.spawned, 3);
  });

  it('asked for again in the very moment it fails: filled all the same', async () => {
    for (let turns = 0; turns < 12; turns++) {
      const rig = await hostWith(withCount(1));
      const [run] = rig.world.live();
      assert.ok(run);
      rig.world.exit(run, EXIT_1);
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
      const { scheduler, allocs } = rig.agent;
      const isLive = allocs.liveCount() > 0;
      await scheduler.register(withCount(1));
      await rig.pass(0);
      // While it is live the failure is not known yet, and asking again is asking for what there is.
      assert.equal(rig.world.spawned, isLive ? 1 : 2, `after ${turns} turns`);
    }
  });

  it('stop alloc: its place is filled again', async () => {
    const rig = await hostWith(withCount(1));
    const [alloc] = allocsOf(rig);
    await rig.agent.scheduler.stopAlloc(alloc?.id ?? '', false);
    await rig.pass(0);
    assert.equal(rig.world.spawned, 2);
    assert.equal(rig.world.live().length, 1);
    await assert.rejects(rig.agent.scheduler.stopAlloc('nope', false), codeIs('not_found'));
  });

  it('stop, then stop at once: the shutdown delay that is under way is cut short', async () => {
    const task = { ...once, shutdownDelayMs: 60_000 };
    const rig = await hostWith(aJob({ groups: [aGroup({ tasks: [task] })] }));
    await rig.agent.scheduler.stop('job', STOP);
    await rig.pass(1_000);
    assert.equal(rig.world.live().length, 1);
    await rig.agent.scheduler.stop('job', { purge: false, noShutdownDelay: true });
    await rig.pass(0);
    assert.equal(rig.world.live().length, 0);
    await assert.rejects(rig.agent.scheduler.stop('nope', STOP), codeIs('not_found'));
  });

  describe('purge', () => {
    const PURGE = { purge: true, noShutdownDelay: false };

    it('is not over, and nothing is forgotten, as long as a directory is left', async () => {
      const rig = await hostWith(withCount(1));
      rig.dirsStay = true;
      await rig.agent.scheduler.stop('job', PURGE);
      await rig.pass(0);
      assert.equal(allocsOf(rig).length, 1);
      assert.ok(rig.disk.records.getJob('job'));
      rig.kill();
      await rig.start();
      rig.dirsStay = false;
      await rig.pass(5_000);
      assert.equal(rig.removedDirs.length, 1);
      assert.deepEqual([allocsOf(rig), rig.disk.records.getJob('job')], [[], undefined]);
    });

    it('while it runs: forgotten only when the last alloc is over', async () => {
      const rig = await hostWith(withCount(2));
      rig.world.obeysAfterMs = 2_000;
      await rig.agent.scheduler.stop('job', PURGE);
      await rig.pass(1_000);
      assert.equal(allocsOf(rig).length, 2);
      assert.equal(rig.world.live().length, 2);
      await rig.pass(2_000);
      assert.deepEqual(allocsOf(rig), []);
      assert.equal(rig.disk.records.getJob('job'), undefined);
      assert.equal(rig.removedDirs.length, 2);
      assert.deepEqual(rig.world.violations, []);
      assert.deepEqual(rig.world.remains(), []);
    });

    it('is finished by the next agent when this one is killed', async () => {
      for (let act = 1; act <= 14; act++) {
        const rig = await hostWith(withCount(1));
        rig.killAtAct(act);
        void rig.agent.scheduler.stop('job', PURGE).catch(() => undefined);
        await rig.pass(10_000);
        rig.bury();
        const asked =
          rig.disk.records.getHost('purge/job') === 'yes' || rig.disk.records.getJob('job') === undefined;
        rig.kill();
        await rig.start();
        await rig.pass(10_000);
        assert.equal(rig.disk.records.getJob('job') === undefined, asked, `killed at act ${act}`);
        assert.equal(rig.world.live().length, asked ? 0 : 1);
        assert.deepEqual(rig.world.violations, []);
      }
    });

    it('is taken back by registering the job again before it is over', async () => {
      const rig = await hostWith(withCount(1));
      rig.world.obeysAfterMs = 2_000;
      await rig.agent.scheduler.stop('job', PURGE);
      await rig.agent.scheduler.register(withCount(1));
      await rig.pass(10_000);
      assert.notEqual(rig.disk.records.getJob('job'), undefined);
      assert.equal(rig.world.live().length, 1);
      assert.equal(rig.world.spawned, 2);
    });
  });

  describe('when the disk refuses writes', () => {
    it('a registration is refused and leaves nothing', async () => {
      const rig = new Rig();
      rig.disk.refusing = true;
      await assert.rejects(rig.agent.scheduler.register(withCount(1)), codeIs('store_unavailable'));
      rig.disk.refusing = false;
      await rig.pass(60_000);
      assert.equal(rig.disk.records.getJob('job'), undefined);
      assert.equal(rig.world.spawned, 0);
    });

    it('a stop acts: a task may be what fills it', async () => {
      const rig = await hostWith(withCount(1));
      rig.disk.refusing = true;
      await rig.agent.scheduler.stop('job', { purge: true, noShutdownDelay: false });
      await rig.pass(1_000);
      assert.equal(rig.world.live().length, 0);
      rig.disk.refusing = false;
      await rig.pass(60_000);
      assert.equal(rig.disk.records.getJob('job'), undefined, 'and is remembered as soon as it can be');
      assert.deepEqual(rig.world.violations, []);
    });

    it('a place that falls empty meanwhile is filled when it takes them again', async () => {
      const rig = await hostWith(withCount(1));
      const [alloc] = allocsOf(rig);
      await rig.agent.scheduler.stopAlloc(alloc?.id ?? '', false);
      rig.disk.refusing = true;
      await rig.pass(60_000);
      assert.equal(rig.world.live().length, 0);
      rig.disk.refusing = false;
      await rig.pass(60_000);
      assert.equal(rig.world.live().length, 1);
    });

    it('after a job was stored, what it asks for is carried out later, and nothing claims that it was', async () => {
      const rig = await hostWith(withCount(1));
      const [alloc] = allocsOf(rig);
      assert.ok(alloc);
      const { onWritten } = rig.disk;
      rig.disk.onWritten = () => {
        rig.disk.refusing = true;
      };
      await assert.rejects(rig.agent.scheduler.register(withCount(2)), codeIs('store_unavailable'));
      assert.equal(rig.agent.allocs.get(alloc.id)?.alloc.jobVersion, 0);
      rig.disk.onWritten = onWritten;
      rig.disk.refusing = false;
      await rig.pass(60_000);
      assert.deepEqual(
        allocsOf(rig).map(({ jobVersion }) => jobVersion),
        [1, 1],
      );
      assert.equal(rig.world.live().length, 2);
      assert.equal(rig.world.spawned, 2);
    });

    it('at the start of the agent: every job is looked at again later', async () => {
      const rig = await hostWith(withCount(1));
      const other = { ...withCount(1), id: 'other', name: 'other' };
      await rig.agent.scheduler.register(other);
      await rig.pass(0);
      for (const alloc of allocsOf(rig)) {
        const record = { ...alloc, desiredStatus: 'stop' as const };
        await rig.agent.store.commit([{ kind: 'put_alloc', alloc: record }]);
      }
      rig.kill();
      rig.disk.refusing = true;
      await rig.start();
      await rig.pass(10_000);
      rig.disk.refusing = false;
      await rig.pass(60_000);
      assert.equal(rig.world.live().length, 2);
      assert.equal(rig.world.spawned, 4);
    });
  });
});
