/**
 * Deployments, rescheduling, schedules, dispatches and forgetting, together and in whatever order, with an agent that is
 * killed between any two effects and a clock that is set: no place holds two, no more places are on their way than may
 * be, a deployment ends, a revert ends at what was stable, nothing is launched twice or missed, nothing that is needed
 * is forgotten.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import { isActive } from '../../src/scheduler/deployment.js';
import { Rig } from '../helpers/rig.js';
import { assertTruthAtRest, comeToRest, hostCommands, type Model } from './host-commands.js';
import { arbHistory, type History } from './history.js';
import { checkModel, countHistory, MODEL_RUNS } from './runs.js';
import {
  BROKEN,
  FLAKY,
  lastDueMs,
  launchesOf,
  newestOf,
  RESCHEDULE,
  schedulingCommands,
  TICK,
  Watch,
  WEB,
  WEBS,
} from './scheduling-commands.js';

let watch: Watch;

async function live(history: History<Model, Rig>): Promise<void> {
  const rig = new Rig({ keepsFeed: false });
  watch = new Watch(rig);
  rig.world.placeOf = ({ allocId, group, task }) => {
    const alloc = rig.disk.records.getAlloc(allocId)?.record;
    return `${alloc?.jobId} ${group}[${alloc?.index}].${task}`;
  };
  rig.world.startOf = ({ env }) =>
    env[BROKEN] === undefined ? undefined : { kind: 'fails', recoverable: false };
  const model: Model = { jobId: WEB, agentUp: true };
  const [first] = WEBS;
  assert.ok(first);
  await rig.agent.scheduler.register(first);
  await history.run(model, rig);
  await makeWell(model, rig);
  await assertScheduleKept(rig);
  if (rig.disk.records.getJob(TICK) !== undefined)
    await rig.agent.scheduler.stop(TICK, { purge: false, noShutdownDelay: false });
  await comeToRest(model, rig);
  await rig.pass(600_000);
  assertTruthAtRest(model, rig);
  assertDeploymentsOver(rig);
  assertPlacesFilled(rig);
  assertLaunchedOnce(rig);
  assertNotRefunded(rig);
  countHistory(history);
}

/** Nothing stands in the way any more, and an agent is up. */
async function makeWell(model: Model, rig: Rig): Promise<void> {
  rig.disk.refusing = false;
  Object.assign(rig.world, { reachable: true, stopsThatFail: 0, startMs: 0, obeysAfterMs: 0 });
  rig.hooksTakeMs = 0;
  rig.world.starts.length = 0;
  if (model.agentUp) rig.kill();
  await rig.start();
  model.agentUp = true;
  await rig.pass(60_000);
}

/** What was due is launched by now; and from here on one launch for each due time, unless the clock was set back. */
async function assertScheduleKept(rig: Rig): Promise<void> {
  const job = rig.disk.records.getJob(TICK)?.record;
  if (job === undefined || job.stopped) return;
  const mark = (): number => Number(rig.disk.records.getHost(`periodic/${TICK}`));
  assert.ok(mark() >= lastDueMs(rig.clock.wallMs()), 'nothing that was due is forgotten');
  const isAhead = mark() > rig.clock.wallMs();
  const isOverlap = job.spec.periodic?.prohibitOverlap === true;
  const before = launchesOf(rig, TICK);
  await rig.pass(600_000);
  const made = launchesOf(rig, TICK).filter((id) => !before.includes(id));
  if (isAhead) assert.ok(made.length <= 1, 'the clock was set back');
  else if (!isOverlap) assert.equal(made.length, 1, `one launch in ten minutes: ${made.join(' ')}`);
  else assert.ok(made.length <= 1);
}

function assertDeploymentsOver(rig: Rig): void {
  const { records, scheduling } = rig.disk;
  const deployments = scheduling.listDeployments({ jobId: WEB }).map(({ record }) => record);
  assert.deepEqual(deployments.filter(isActive), [], 'a deployment ends');
  const job = records.getJob(WEB)?.record;
  const newest = deployments.findLast(({ jobVersion }) => jobVersion === job?.version);
  if (job === undefined || job.stopped || newest?.status !== 'failed') return;
  if (!Object.values(newest.groups).some(({ autoRevert }) => autoRevert)) return;
  const stable = records
    .listJobVersions(WEB)
    .map(({ record }) => record)
    .find(
      ({ version, stopped }) =>
        version < job.version &&
        !stopped &&
        deployments.some(({ jobVersion, status }) => jobVersion === version && status === 'successful'),
    );
  assert.ok(
    stable === undefined || isDeepStrictEqual(stable.spec, job.spec),
    'it went back to what was stable',
  );
}

/** Each place of a version that was deployed holds it; after a failure, no place is left that held something good. */
function assertPlacesFilled(rig: Rig): void {
  const { records, scheduling } = rig.disk;
  const job = records.getJob(WEB)?.record;
  if (job === undefined || job.stopped) return;
  const deployment = scheduling.listDeployments({ jobId: WEB }).at(-1)?.record;
  const count = job.spec.groups[0]?.count ?? 0;
  for (let index = 0; index < count; index++) {
    const alloc = newestOf(rig, WEB).get(`group/${index}`);
    assert.ok(alloc, `place ${index} was filled`);
    assert.equal(alloc.desiredStatus, 'run', `place ${index} is filled`);
    if (deployment?.status === 'successful')
      assert.equal(alloc.jobVersion, job.version, 'by the newest version');
  }
}

/** A launch is one alloc, and those that follow a failure. */
function assertLaunchedOnce(rig: Rig): void {
  for (const { record } of rig.disk.records.listJobs()) {
    if (record.parentId === undefined) continue;
    const first = rig.disk.records
      .listAllocs({ jobId: record.id })
      .filter((alloc) => alloc.record.previousAllocId === undefined);
    assert.ok(first.length <= 1, `${record.id} is run once`);
  }
}

function assertNotRefunded(rig: Rig): void {
  const job = rig.disk.records.getJob(FLAKY)?.record;
  if (job === undefined) return;
  for (const alloc of newestOf(rig, FLAKY).values()) {
    // A start that nobody could answer for may have worked.
    if (alloc.clientStatus !== 'failed') continue;
    assert.equal(alloc.reschedule?.events.length, RESCHEDULE.attempts, 'all attempts were made');
    assert.notEqual(alloc.reschedule.gaveUp, undefined, 'and no more');
  }
}

const own = schedulingCommands(() => watch);
const tell = await checkModel(fc.asyncProperty(arbHistory([...hostCommands, ...own, ...own], 50), live));

describe('scheduling model', () => {
  it(`holds over ${MODEL_RUNS} histories`, (test) => {
    tell(test);
  });
});
