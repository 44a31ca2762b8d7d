/**
 * The scheduler against the wish: whatever versions of a job are registered, stopped and restored in whatever order,
 * no place ever holds two live workloads, and at rest exactly what the newest version asks for lives.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import type { Job } from '../../src/jobspec/types.js';
import { Rig } from '../helpers/rig.js';
import { aGroup, aJob, aPolicy, aTask } from '../helpers/specs.js';
import {
  assertTruthAtRest,
  comeToRest,
  hostCommands,
  jobCommands,
  wishOf,
  type Model,
} from './host-commands.js';
import { arbHistory, type History } from './history.js';
import { checkModel, countHistory, MODEL_RUNS } from './runs.js';

const once = aTask({ restart: aPolicy({ attempts: 1, delayMs: 0 }) });
const version = (count: number, task = once): Job => aJob({ groups: [aGroup({ count, tasks: [task] })] });

/** Fewer, more, another run, no new run, none at all. */
const JOBS: readonly Job[] = [
  version(1),
  version(3),
  version(2, { ...once, env: { COLOUR: 'green' } }),
  version(2, { ...once, killTimeoutMs: 1_000 }),
  version(0),
];

async function live(history: History<Model, Rig>): Promise<void> {
  const rig = new Rig({ keepsFeed: false });
  rig.world.placeOf = ({ allocId, group, task }) => {
    return `${group}[${rig.disk.records.getAlloc(allocId)?.record.index}].${task}`;
  };
  const job = version(1);
  const model: Model = { jobId: job.id, agentUp: true };
  await rig.agent.scheduler.register(job);
  await history.run(model, rig);
  await comeToRest(model, rig);
  assertTruthAtRest(model, rig);
  assertPlacesFilled(model, rig);
  countHistory(history);
}

/** Each place of the wish holds one alloc that lives, or one that is over and is not to be tried again. */
function assertPlacesFilled(model: Model, rig: Rig): void {
  const stored = rig.disk.records.getJob(model.jobId)?.record;
  const [group] = wishOf(model, rig)?.groups ?? [];
  for (let index = 0; index < (group?.count ?? 0); index++) {
    const newest = rig.disk.records
      .listAllocs()
      .filter(({ record }) => record.index === index)
      .at(-1)?.record;
    assert.ok(newest, `place ${index} was filled`);
    assert.equal(newest.desiredStatus, 'run');
    assert.equal(newest.jobVersion, stored?.version, 'by the newest version');
  }
  for (const run of rig.world.live()) {
    assert.equal(run.env['COLOUR'], group?.tasks[0]?.env['COLOUR'], 'what lives is what is wished');
  }
}

const all = [...hostCommands, ...jobCommands(JOBS), ...jobCommands(JOBS), ...jobCommands(JOBS)];
const tell = await checkModel(fc.asyncProperty(arbHistory(all, 55), live));

describe('scheduler model', () => {
  it(`holds over ${MODEL_RUNS} histories`, (test) => {
    tell(test);
  });
});
