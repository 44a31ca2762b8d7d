/** Which allocs a drain stops and when, and what an evaluation may do meanwhile. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  drainLeftMs,
  ELIGIBLE,
  parseNodeScheduling,
  planDrain,
  whileIneligible,
  type Drain,
} from '../../../src/scheduler/drain.js';
import { Rig } from '../../helpers/rig.js';
import { allocRecord } from '../../helpers/records.js';
import { aGroup, aJob, aPolicy, aTask } from '../../helpers/specs.js';

const service = { allocId: 's', type: 'service' } as const;
const batch = { allocId: 'b', type: 'batch' } as const;
const system = { allocId: 'y', type: 'system' } as const;

describe('what a drain stops', () => {
  const cases = [
    { live: [service, batch, system], due: false, stop: ['s'], wait: ['b', 'y'] },
    { live: [batch, system], due: false, stop: [], wait: ['b', 'y'] },
    { live: [system], due: false, stop: ['y'], wait: [] },
    { live: [service, batch, system], due: true, stop: ['s', 'b', 'y'], wait: [] },
    { live: [], due: false, stop: [], wait: [] },
  ];
  for (const { live, due, stop, wait } of cases) {
    it(`${live.map(({ type }) => type).join(', ') || 'nothing'}${due ? ', at the deadline' : ''}`, () => {
      assert.deepEqual(planDrain(live, { ignoreSystemJobs: false }, due), { stop, wait });
    });
  }

  it('system jobs stay when they are to be ignored, also at the deadline', () => {
    assert.deepEqual(planDrain([system], { ignoreSystemJobs: true }, false), { stop: [], wait: [] });
    assert.deepEqual(planDrain([batch, system], { ignoreSystemJobs: true }, true), { stop: ['b'], wait: [] });
  });
});

describe('how long a drain may take', () => {
  const drain: Drain = {
    startedAtMs: 0,
    deadlineMs: 60_000,
    dueAt: { wallMs: 1_000_000, monoMs: 50_000, bootId: 'now' },
    ignoreSystemJobs: false,
  };
  it('within a boot the wall clock does not matter', () => {
    assert.equal(drainLeftMs(drain, { wallMs: 9e12, monoMs: 20_000, bootId: 'now' }), 30_000);
    assert.equal(drainLeftMs(drain, { wallMs: 0, monoMs: 60_000, bootId: 'now' }), 0);
  });
  it('after a reboot only the wall clock is left; set back, it makes the wait no longer than it was', () => {
    assert.equal(drainLeftMs(drain, { wallMs: 990_000, monoMs: 5, bootId: 'next' }), 10_000);
    assert.equal(drainLeftMs(drain, { wallMs: -9e9, monoMs: 5, bootId: 'next' }), 60_000);
  });
  it('without a deadline it may take for ever', () => {
    const endless = { ...drain, dueAt: undefined, deadlineMs: undefined };
    assert.equal(drainLeftMs(endless, { wallMs: 0, monoMs: 0, bootId: 'now' }), undefined);
  });
});

it('what cannot be read is a host that takes what comes', () => {
  for (const text of [undefined, '', '{', '{}']) assert.deepEqual(parseNodeScheduling(text), ELIGIBLE);
  assert.equal(parseNodeScheduling('{"eligible":false}').eligible, false);
});

describe('while nothing new is taken', () => {
  const group = aGroup({ count: 1 });
  const job = { stopped: false, spec: aJob({ groups: [group] }) };
  const create = { kind: 'create', group, index: 0 } as const;
  const stop = (index: number) =>
    ({ kind: 'stop', alloc: { ...allocRecord(), group: group.name, index }, why: '' }) as const;

  it('nothing is created, and what would be replaced stays', () => {
    assert.deepEqual(whileIneligible([create, stop(0)], job), []);
  });
  it('what nobody wants any more is stopped', () => {
    assert.equal(whileIneligible([stop(1)], job).length, 1);
    assert.equal(whileIneligible([stop(0)], { ...job, stopped: true }).length, 1);
  });
});

it('a job that is registered while nothing new is taken starts as soon as that is over', async () => {
  const rig = new Rig({ mayPlace: () => isEligible });
  let isEligible = false;
  await rig.agent.scheduler.register(
    aJob({ groups: [aGroup({ tasks: [aTask({ restart: aPolicy({ attempts: 0 }) })] })] }),
  );
  await rig.pass(1_000);
  assert.equal(rig.world.spawned, 0);
  isEligible = true;
  rig.agent.scheduler.reconsiderAll();
  await rig.pass(1_000);
  assert.equal(rig.world.spawned, 1);
});
