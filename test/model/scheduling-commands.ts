/** What can be asked of the scheduler beyond one job: versions that deploy, schedules, dispatches, forgetting. */
import assert from 'node:assert/strict';
import fc from '../helpers/properties.js';
import { nextDueMs } from '../../src/jobspec/cron.js';
import type { Job, PeriodicSpec, ReschedulePolicy, UpdateStrategy } from '../../src/jobspec/types.js';
import { Collector } from '../../src/scheduler/collector.js';
import type { AllocRecord } from '../../src/state/store.js';
import { silentLogger } from '../../src/base/log.js';
import type { Rig } from '../helpers/rig.js';
import { aGroup, aJob, aPolicy, aTask } from '../helpers/specs.js';
import { answered, OnLivingAgent, Weather, type Command, type Model } from './host-commands.js';

export const WEB = 'job';
export const TICK = 'tick';
const EACH = 'each';
export const FLAKY = 'flaky';

const update: UpdateStrategy = {
  maxParallel: 1,
  healthCheck: 'task_states',
  minHealthyMs: 1_000,
  healthyDeadlineMs: 20_000,
  progressDeadlineMs: 60_000,
  staggerMs: 30_000,
  autoRevert: true,
  autoPromote: false,
  canary: 0,
};
const once = aPolicy({ attempts: 0 });

/** A task with this in its environment never starts. */
export const BROKEN = 'BROKEN';

function web(colour: string, over: Partial<UpdateStrategy> = {}, count = 3): Job {
  const env: Record<string, string> = { COLOUR: colour, ...(colour === 'broken' ? { [BROKEN]: 'yes' } : {}) };
  const task = aTask({ restart: aPolicy({ attempts: 1, delayMs: 0 }), env });
  return aJob({ id: WEB, groups: [aGroup({ count, tasks: [task], update: { ...update, ...over } })] });
}

/** Good ones, bad ones that are reverted and that are not, more and fewer at a time. */
export const WEBS: readonly Job[] = [
  web('green'),
  web('blue'),
  web('blue', { maxParallel: 2 }),
  web('red', { autoRevert: false }, 4),
  web('broken'),
  web('broken', { autoRevert: false }),
];

/** It is counted over the whole history: no time that passes gives an attempt back. */
export const RESCHEDULE: ReschedulePolicy = {
  attempts: 2,
  intervalMs: 100_000 * 3_600_000,
  delayMs: 5_000,
  delayFunction: 'constant',
  maxDelayMs: 3_600_000,
  unlimited: false,
};

const flaky = aJob({
  id: FLAKY,
  name: FLAKY,
  type: 'batch',
  groups: [
    aGroup({
      count: 2,
      reschedule: RESCHEDULE,
      tasks: [aTask({ restart: once, env: { [BROKEN]: 'yes' } })],
    }),
  ],
});

const EVERY_10_MINUTES: PeriodicSpec = {
  crons: ['*/10 * * * *'],
  timeZone: 'UTC',
  prohibitOverlap: false,
  enabled: true,
};
const runsOnce = aGroup({ tasks: [aTask({ restart: once })] });
const tick = (periodic: PeriodicSpec): Job =>
  aJob({ id: TICK, name: TICK, type: 'batch', groups: [runsOnce], periodic });
const TICKS = [tick(EVERY_10_MINUTES), tick({ ...EVERY_10_MINUTES, prohibitOverlap: true })];
const each = aJob({
  id: EACH,
  name: EACH,
  type: 'batch',
  groups: [runsOnce],
  parameterized: { payload: 'optional', metaRequired: [], metaOptional: ['colour'] },
});

/** What is seen of a host while commands run, beside what the rig sees. */
export class Watch {
  readonly #rig: Rig;
  readonly #launched = new Set<string>();
  #children = new Set<string>();
  #stopping = new Set<string>();
  #known = new Set<string>();
  /** How often somebody asked for the job that fails. */
  flakyAsked = 0;

  constructor(rig: Rig) {
    this.#rig = rig;
    const { onWritten } = rig.disk;
    rig.disk.onWritten = () => {
      this.#look();
      onWritten();
    };
  }

  /** Called for each directory that is to be removed. */
  onRemoved(allocId: string): void {
    const { world, disk } = this.#rig;
    if (world.live().some((run) => run.allocId === allocId))
      this.#violate(`alloc ${allocId} is collected and lives`);
    const alloc = disk.records.getAlloc(allocId)?.record;
    const job = alloc === undefined ? undefined : disk.records.getJob(alloc.jobId)?.record;
    if (alloc === undefined || job === undefined || job.stopped || job.parentId !== undefined) return;
    const group = job.spec.groups.find(({ name }) => name === alloc.group);
    const newest = newestOf(this.#rig, alloc.jobId).get(`${alloc.group}/${alloc.index}`);
    if (newest?.id === allocId && alloc.index < (group?.count ?? 0))
      this.#violate(`alloc ${allocId} is collected and fills its place`);
  }

  #look(): void {
    this.#lookAtLaunches();
    this.#lookAtStops();
    this.#lookAtRefills();
    this.#lookAtSuccessors();
  }

  #lookAtLaunches(): void {
    const jobs = this.#rig.disk.records.listJobs().map(({ record }) => record);
    const now = new Set(jobs.filter(({ parentId }) => parentId !== undefined).map(({ id }) => id));
    for (const id of now) {
      if (!this.#children.has(id) && this.#launched.has(id)) this.#violate(`${id} is launched twice`);
      this.#launched.add(id);
    }
    this.#children = now;
    const tokens = jobs.flatMap(({ parentId, idempotencyToken }) =>
      parentId === EACH && idempotencyToken !== undefined ? [idempotencyToken] : [],
    );
    if (new Set(tokens).size < tokens.length) this.#violate(`a token gave two jobs: ${tokens.join(' ')}`);
  }

  /** Whatever is stopped for a newer version may be stopped only when so many others are well. */
  #lookAtStops(): void {
    const { records, scheduling } = this.#rig.disk;
    const job = records.getJob(WEB)?.record;
    const allocs = records.listAllocs({ jobId: WEB }).map(({ record }) => record);
    const stopped = allocs.filter(
      ({ desiredStatus, desiredDescription }) =>
        desiredStatus === 'stop' && desiredDescription.startsWith('job was updated'),
    );
    const fresh = stopped.filter(({ id }) => !this.#stopping.has(id));
    this.#stopping = new Set(stopped.map(({ id }) => id));
    const group = job?.spec.groups[0];
    if (fresh.length === 0 || job === undefined || group?.update === undefined) return;
    const deployment = scheduling.listDeployments({ jobId: WEB }).at(-1)?.record;
    if (deployment?.status === 'failed') this.#violate('a place is replaced by a deployment that has failed');
    const moving = [...newestOf(this.#rig, WEB).values()].filter(
      (alloc) => alloc.index < group.count && isMoving(alloc, job.version),
    ).length;
    if (moving > group.update.maxParallel)
      this.#violate(`${moving} places are on their way, ${group.update.maxParallel} may be`);
  }

  /** What has failed does not spread to places that held something else, when there is something stable. */
  #lookAtRefills(): void {
    const { records, scheduling } = this.#rig.disk;
    const job = records.getJob(WEB)?.record;
    const deployments = scheduling.listDeployments({ jobId: WEB }).map(({ record }) => record);
    const allocs = records.listAllocs({ jobId: WEB }).map(({ record }) => record);
    const fresh = allocs.filter(({ id }) => !this.#known.has(id));
    this.#known = new Set(allocs.map(({ id }) => id));
    const failed = deployments.findLast(({ jobVersion }) => jobVersion === job?.version);
    const hasStable = deployments.some(({ jobVersion, status }) => {
      const version = records.getJobVersion(WEB, jobVersion)?.record;
      return status === 'successful' && version !== undefined && !version.stopped;
    });
    if (failed?.status !== 'failed' || !hasStable) return;
    for (const alloc of fresh) {
      const before = allocs.filter(({ index, id }) => index === alloc.index && id !== alloc.id).at(-1);
      if (alloc.jobVersion !== job?.version || before === undefined) continue;
      if (before.jobVersion !== job.version)
        this.#violate(`place ${alloc.index} is filled with what has failed`);
    }
  }

  #lookAtSuccessors(): void {
    const seen = new Set<string>();
    for (const { record } of this.#rig.disk.records.listAllocs({ jobId: FLAKY })) {
      const before = record.previousAllocId;
      if (before === undefined) continue;
      if (seen.has(before)) this.#violate(`alloc ${before} has two successors`);
      seen.add(before);
      const tries = record.reschedule?.events.length ?? 0;
      if (tries > RESCHEDULE.attempts) this.#violate(`alloc ${record.id} is reschedule ${tries}`);
    }
  }

  #violate(what: string): void {
    this.#rig.world.violations.push(what);
  }
}

/** What lives and was well, and has failed by itself, is not what the deployment moves. */
function isMoving(
  { desiredStatus, health, clientStatus, jobVersion }: AllocRecord,
  version: number,
): boolean {
  if (desiredStatus === 'stop') return true;
  if (jobVersion !== version) return false;
  return health?.healthy !== true && (clientStatus === 'pending' || clientStatus === 'running');
}

export function newestOf(rig: Rig, jobId: string): ReadonlyMap<string, AllocRecord> {
  const newest = new Map<string, AllocRecord>();
  for (const { record } of rig.disk.records.listAllocs({ jobId }))
    newest.set(`${record.group}/${record.index}`, record);
  return newest;
}

/** Ids of the launches of a job that are remembered. */
export function launchesOf(rig: Rig, jobId: string): readonly string[] {
  return rig.disk.records
    .listJobs()
    .filter(({ record }) => record.parentId === jobId)
    .map(({ record }) => record.id);
}

/** The newest due time that is over. */
export function lastDueMs(nowMs: number): number {
  const period = 600_000;
  return (nextDueMs(EVERY_10_MINUTES, nowMs) ?? 0) - period;
}

class RegisterOther extends OnLivingAgent {
  readonly #job: Job;
  readonly #watch: () => Watch;
  constructor(job: Job, watch: () => Watch) {
    super();
    this.#job = job;
    this.#watch = watch;
  }
  async act(_model: Model, rig: Rig): Promise<void> {
    if (this.#job.id === FLAKY) this.#watch().flakyAsked += 1;
    await answered(rig, rig.agent.scheduler.register(this.#job));
  }
  toString(): string {
    const { id, groups } = this.#job;
    return `register ${id} ${JSON.stringify(groups[0]?.tasks[0]?.env)} ${JSON.stringify(groups[0]?.update)}`;
  }
}

class Dispatch extends OnLivingAgent {
  readonly #token: string | undefined;
  constructor(token: string | undefined) {
    super();
    this.#token = token;
  }
  async act(_model: Model, rig: Rig): Promise<void> {
    if (rig.disk.records.getJob(EACH) === undefined) return;
    const asked = { payload: undefined, meta: {}, idempotencyToken: this.#token };
    const answer = rig.agent.scheduler.dispatch(EACH, asked).then(({ jobId }) => {
      if (!rig.agent.dead) assert.ok(rig.disk.records.getJob(jobId), 'what was answered is stored');
    });
    await answered(rig, answer);
  }
  toString(): string {
    return `dispatch(${this.#token ?? ''})`;
  }
}

class Collect extends OnLivingAgent {
  readonly #watch: () => Watch;
  constructor(watch: () => Watch) {
    super();
    this.#watch = watch;
  }
  async act(_model: Model, rig: Rig): Promise<void> {
    const { agent } = rig;
    const collector = new Collector({
      clock: rig.clock,
      logger: silentLogger,
      store: agent.store,
      allocs: agent.allocs,
      limits: LIMITS,
      diskUse: () => Promise.resolve({ usedPercent: 0, inodesUsedPercent: 0 }),
      removeAllocDir: (allocId) => {
        if (agent.dead) return new Promise(() => undefined);
        this.#watch().onRemoved(allocId);
        return Promise.resolve();
      },
      exclusively: (work) => agent.scheduler.exclusively(work),
    });
    await answered(rig, collector.collectAll());
  }
  toString(): string {
    return 'collect';
  }
}

const LIMITS = {
  maxAllocs: 0,
  allocAgeMs: 0,
  jobAgeMs: 0,
  intervalMs: 60_000,
  diskUsedPercent: 100,
  inodesUsedPercent: 100,
};

/** @param watch of the history that runs */
export function schedulingCommands(watch: () => Watch): fc.Arbitrary<Command>[] {
  const register = (...jobs: readonly Job[]): fc.Arbitrary<Command> =>
    fc.constantFrom(...jobs).map((job) => new RegisterOther(job, watch));
  return [
    register(...WEBS),
    register(...WEBS),
    register(...WEBS),
    register(flaky),
    register(...TICKS),
    register(each),
    fc.constantFrom('a', 'b', undefined).map((token) => new Dispatch(token)),
    fc.constantFrom('a', 'b', undefined).map((token) => new Dispatch(token)),
    fc.constant(new Collect(watch)),
    fc.constantFrom(-90_000_000 * 2, -3_600_000, -1_000, 60_000, 7_200_000).map((ms) => {
      return new Weather(`the clock is set by ${ms}`, (rig) => {
        rig.clock.stepWall(ms);
      });
    }),
  ];
}
