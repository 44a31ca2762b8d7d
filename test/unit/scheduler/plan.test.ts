/** What a plan says is what registering then does: the table in words, and the comparison with the real scheduler. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import type { Job } from '../../../src/jobspec/types.js';
import { planJob, type JobPlan } from '../../../src/scheduler/plan.js';
import { allocRecord, jobRecord } from '../../helpers/records.js';
import { Rig } from '../../helpers/rig.js';
import { aGroup, aJob, aPolicy, aTask } from '../../helpers/specs.js';

const task = aTask({ restart: aPolicy({ attempts: 0 }) });
const spec = (count: number, tasks = [task]): Job => aJob({ groups: [aGroup({ name: 'g', count, tasks })] });
const words = ({ places }: JobPlan): readonly string[] =>
  places.map(({ group, index, action }) => `${action} ${group}[${index}]`);

async function hostWith(job: Job): Promise<Rig> {
  const rig = new Rig();
  await rig.agent.scheduler.register(job);
  await rig.pass(0);
  return rig;
}

describe('plan', () => {
  it('of a new job: everything is created', () => {
    const plan = new Rig().agent.scheduler.plan(spec(2));
    assert.equal(plan.before, undefined);
    assert.equal(plan.after.version, 0);
    assert.deepEqual(words(plan), ['create g[0]', 'create g[1]']);
    assert.deepEqual(plan.places[0]?.tasks, { main: 'create' });
  });

  it('of the same job: nothing, and the version stays', async () => {
    const rig = await hostWith(spec(2));
    const plan = rig.agent.scheduler.plan(spec(2));
    assert.equal(plan.after, plan.before?.record);
    assert.deepEqual(words(plan), ['none g[0]', 'none g[1]']);
  });

  it('says it by task: what is replaced, what comes, what goes', async () => {
    const side = aTask({ name: 'side' });
    const late = aTask({ name: 'late' });
    const rig = await hostWith(spec(1, [task, side]));
    const plan = rig.agent.scheduler.plan(spec(1, [{ ...task, env: { X: '1' } }, late]));
    assert.deepEqual(words(plan), ['replace g[0]']);
    assert.deepEqual(plan.places[0]?.tasks, { main: 'replace', late: 'create', side: 'stop' });
  });

  it('in place: only the task whose settings differ is touched', async () => {
    const side = aTask({ name: 'side' });
    const rig = await hostWith(spec(1, [task, side]));
    const plan = rig.agent.scheduler.plan(spec(1, [{ ...task, killTimeoutMs: 1 }, side]));
    assert.deepEqual(words(plan), ['update_in_place g[0]']);
    assert.deepEqual(plan.places[0]?.tasks, { main: 'update_in_place', side: 'none' });
  });

  it('count down, and a group that is gone: those allocs stop', async () => {
    const rig = await hostWith(aJob({ groups: [aGroup({ name: 'g', count: 2 }), aGroup({ name: 'h' })] }));
    const plan = rig.agent.scheduler.plan(aJob({ groups: [aGroup({ name: 'g', count: 1 })] }));
    assert.deepEqual(words(plan), ['update_in_place g[0]', 'stop g[1]', 'stop h[0]']);
    assert.equal(plan.places.find(({ group }) => group === 'h')?.why, 'group is not in the job any more');
  });

  it('an alloc that is stopping: a new one follows', () => {
    const stopping = allocRecord({ id: 'a', jobId: 'job', group: 'g', desiredStatus: 'stop' });
    const record = jobRecord({ id: 'job', spec: spec(1) });
    const plan = planJob({ record, createIndex: 1, modifyIndex: 1 }, spec(1), {
      allocs: [stopping],
      isLive: () => true,
      specOf: () => spec(1),
      nowMs: 0,
    });
    assert.deepEqual(words(plan), ['create g[0]']);
    assert.match(plan.places[0]?.why ?? '', /is stopping/);
  });

  it('changes nothing', async () => {
    const rig = await hostWith(spec(1));
    await rig.pass(60_000);
    const index = rig.disk.history.index();
    rig.agent.scheduler.plan(spec(3, [{ ...task, env: { X: '1' } }]));
    await rig.pass(60_000);
    assert.equal(rig.disk.history.index(), index);
    assert.equal(rig.world.spawned, 1);
  });

  it('is what registering does, for any two jobs', async () => {
    const anyJob = fc
      .array(fc.record({ count: fc.nat(2), env: fc.nat(1), killTimeoutMs: fc.constantFrom(1, 2) }), {
        minLength: 1,
        maxLength: 2,
      })
      .map((groups) =>
        aJob({
          groups: groups.map(({ count, env, killTimeoutMs }, at) =>
            aGroup({
              name: `g${at}`,
              count,
              tasks: [{ ...task, killTimeoutMs, env: { V: String(env) } }],
            }),
          ),
        }),
      );
    await fc.assert(
      fc.asyncProperty(anyJob, anyJob, async (first, second) => {
        const rig = await hostWith(first);
        const allocs = () => rig.disk.records.listAllocs().map(({ record }) => record);
        const known = new Set(allocs().map(({ id }) => id));
        const plan = rig.agent.scheduler.plan(second);
        const done = await rig.agent.scheduler.register(second);
        await rig.pass(60_000);
        assert.equal(done.version, plan.after.version);
        const fresh = allocs().filter(({ id }) => !known.has(id));
        const place = (it: { group: string; index: number }): string => `${it.group}[${it.index}]`;
        const planned = (...actions: string[]): string[] =>
          plan.places.filter(({ action }) => actions.includes(action)).map(place);
        assert.deepEqual(fresh.map(place).sort(), planned('create', 'replace').sort());
        const stopped = allocs().filter(({ id, desiredStatus }) => known.has(id) && desiredStatus === 'stop');
        assert.deepEqual(stopped.map(place).sort(), planned('replace', 'stop').sort());
        const left = allocs().filter(({ id, desiredStatus }) => known.has(id) && desiredStatus === 'run');
        assert.deepEqual(left.map(place).sort(), planned('none', 'update_in_place').sort());
        for (const alloc of left) assert.equal(alloc.jobVersion, plan.after.version);
      }),
      { numRuns: 40 },
    );
  });
});
