/**
 * The task runner against a model: whatever happens to a host, in whatever order, at most one workload of a task lives,
 * restarts keep to the policy, nothing is told before it is stored, events come in the order of docs/events.md, and once
 * everything is at rest the records agree with the world. HOLDFAST_MODEL_RUNS scales it; a failure prints its seed.
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
import { checkModel, MODEL_RUNS } from './runs.js';

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

async function live(setting: Setting, commands: Iterable<fc.AsyncCommand<Model, Rig>>): Promise<void> {
  const { policy, shutdownDelayMs } = setting;
  const tasks = ['main', 'side'].slice(0, setting.tasks).map((name) => {
    return aTask({ name, restart: policy, shutdownDelayMs });
  });
  const times = {
    shutdownDelayMs: setting.groupDelayMs,
    ...(setting.type === 'batch' && setting.maxRunMs !== undefined ? { maxRunMs: setting.maxRunMs } : {}),
  };
  const job = aJob({ type: setting.type, groups: [aGroup({ tasks, ...times })] });
  const rig = new Rig();
  const model: Model = { jobId: job.id, agentUp: true };
  await rig.agent.scheduler.register(job);
  await fc.asyncModelRun(() => ({ model, real: rig }), commands);
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

describe('task runner model', () => {
  it(`holds over ${MODEL_RUNS} histories`, async (test) => {
    const commands = fc.commands(hostCommands, { maxCommands: 140, size: 'max' });
    await checkModel(test, fc.asyncProperty(arbSetting, commands, live));
  });
});
