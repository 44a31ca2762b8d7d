/**
 * The task runner against a model: whatever happens to a host, in whatever order, at most one workload of a task lives,
 * restarts keep to the policy, nothing is told before it is stored, events come in the order of docs/events.md, and once
 * everything is at rest the records agree with the world.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import type { JobType, RestartPolicy } from '../../src/jobspec/types.js';
import { Rig } from '../helpers/rig.js';
import { aGroup, aJob, aPolicy, aTask } from '../helpers/specs.js';
import {
  assertPolicyKept,
  assertTruthAtRest,
  comeToRest,
  hostCommands,
  type Model,
} from './host-commands.js';
import { arbHistory, type History } from './history.js';
import { checkModel, countHistory, MODEL_RUNS } from './runs.js';

interface Setting {
  readonly type: JobType;
  readonly policy: RestartPolicy;
  readonly tasks: number;
  readonly shutdownDelayMs: number;
  readonly groupDelayMs: number;
  /** For batch jobs. */
  readonly maxRunMs: number | undefined;
}

const arbSetting: fc.Arbitrary<Setting> = fc.record({
  type: fc.constantFrom('service', 'batch'),
  policy: fc
    .record({
      attempts: fc.constantFrom(1, 2, 3),
      mode: fc.constantFrom('fail' as const, 'delay' as const),
      delayMs: fc.constantFrom(0, 1_000, 15_000),
      intervalMs: fc.constantFrom(60_000, 300_000),
    })
    .map((over) => aPolicy(over)),
  tasks: fc.constantFrom(1, 1, 2),
  shutdownDelayMs: fc.constantFrom(0, 0, 2_000),
  groupDelayMs: fc.constantFrom(0, 0, 3_000),
  maxRunMs: fc.constantFrom(undefined, 100_000),
});

async function live(setting: Setting, history: History<Model, Rig>): Promise<void> {
  const { policy, shutdownDelayMs } = setting;
  const tasks = ['main', 'side'].slice(0, setting.tasks).map((name) => {
    return aTask({ name, restart: policy, shutdownDelayMs });
  });
  const times = {
    shutdownDelayMs: setting.groupDelayMs,
    ...(setting.type === 'batch' && setting.maxRunMs !== undefined ? { maxRunMs: setting.maxRunMs } : {}),
  };
  const job = aJob({ type: setting.type, groups: [aGroup({ tasks, ...times })] });
  const rig = new Rig({ keepsFeed: false });
  const model: Model = { jobId: job.id, agentUp: true };
  await rig.agent.scheduler.register(job);
  await history.run(model, rig);
  await comeToRest(model, rig);
  assertTruthAtRest(model, rig);
  for (const { name } of tasks)
    assertPolicyKept(
      policy,
      rig.told.filter((row) => row.task === name),
    );
  await assertLimitsKept(setting, rig);
  await rig.agent.scheduler.stop(job.id, { purge: true, noShutdownDelay: false });
  await rig.pass(60_000);
  assertTruthAtRest(model, rig);
  countHistory(history);
}

/** What runs is judged in the end, and what has only so much time does not run beyond it. */
async function assertLimitsKept({ type }: Setting, rig: Rig): Promise<void> {
  await rig.pass(600_000);
  for (const { record } of rig.disk.records.listAllocs()) {
    if (!rig.agent.allocs.isLive(record.id)) continue;
    if (type === 'service') assert.equal(typeof record.health?.healthy, 'boolean', 'it was judged');
    assert.equal(record.runTime, undefined, 'its time is over and it runs');
  }
}

const tell = await checkModel(fc.asyncProperty(arbSetting, arbHistory(hostCommands, 60), live));

describe('task runner model', () => {
  it(`holds over ${MODEL_RUNS} histories`, (test) => {
    tell(test);
  });
});
