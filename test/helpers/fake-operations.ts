/**
 * A small real AgentOperations: it keeps jobs, allocs and tasks in a store as an agent would, but no task runs. What
 * a task would do, a test does with `startTask`, `endTask` and `addEvent`.
 */
import { isDeepStrictEqual } from 'node:util';
import { AgentError } from '../../src/base/errors.js';
import { newRunId, newUuid } from '../../src/base/ids.js';
import type { Clock } from '../../src/base/clock.js';
import type {
  AgentOperations,
  DeploymentChange,
  JobChange,
  NodeFacts,
  TreatedFinding,
} from '../../src/api/operations.js';
import type { ExitResult } from '../../src/events/exit-result.js';
import type { TaskEvent } from '../../src/events/task-event.js';
import type { Session } from '../../src/executor/session.js';
import type { Job, TaskGroup } from '../../src/jobspec/types.js';
import { planJob, type JobPlan } from '../../src/scheduler/plan.js';
import type { NodeScheduling } from '../../src/scheduler/drain.js';
import type { AllocRecord, Change, RunRecord, StateStore, TaskRecord } from '../../src/state/store.js';
import { HostSampler, type HostUsage } from '../../src/stats/host.js';
import type { UsageSample } from '../../src/stats/history.js';
import type { TaskUsage } from '../../src/stats/usage.js';
import { BOOT, evaluationRecord, taskRecord } from './records.js';

/** As many events as the alloc's state shows. */
const RECENT_EVENTS = 10;

export class FakeOperations implements AgentOperations {
  readonly #store: StateStore;
  #scheduling: NodeScheduling = { eligible: true, drain: undefined };
  readonly #clock: Clock;
  troubles: readonly string[] = [];
  #nextPid = 4000;
  readonly #usageListeners = new Set<(round: readonly UsageSample[]) => void>();

  constructor(store: StateStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  async registerJob(job: Job, options: { readonly checkIndex?: number }): Promise<JobChange> {
    const beganAfter = this.#store.index();
    const old = this.#store.getJob(job.id);
    if (options.checkIndex !== undefined && options.checkIndex !== (old?.modifyIndex ?? 0)) {
      throw new AgentError('conflict', `job ${job.id} was changed at ${old?.modifyIndex ?? 0}`);
    }
    const unchanged = old !== undefined && !old.record.stopped && isDeepStrictEqual(old.record.spec, job);
    if (!unchanged) {
      const version = old === undefined ? 0 : old.record.version + 1;
      const record = { id: job.id, version, spec: job, stopped: false, submittedAtMs: this.#clock.wallMs() };
      await this.#store.commit([
        { kind: 'put_job', job: record },
        ...this.#stopAllocs(this.#living(job.id)),
        ...job.groups.flatMap((group) => this.#placeGroup(job.id, version, group)),
      ]);
    }
    return this.#change(job.id, unchanged, beganAfter);
  }

  usageHistory(): ReadonlyMap<string, readonly TaskUsage[]> {
    return new Map();
  }

  /** Gives a round of samples to who listens. */
  sample(round: readonly UsageSample[]): void {
    for (const listener of this.#usageListeners) listener(round);
  }

  onUsage(listener: (round: readonly UsageSample[]) => void): Disposable {
    this.#usageListeners.add(listener);
    return {
      [Symbol.dispose]: () => {
        this.#usageListeners.delete(listener);
      },
    };
  }

  openSession(): Promise<Session> {
    return Promise.reject(new AgentError('bad_request', 'nothing runs here'));
  }

  planJob(job: Job): JobPlan {
    const living = new Set(this.#living(job.id).map(({ id }) => id));
    return planJob(this.#store.getJob(job.id), job, {
      allocs: this.#store.listAllocs({ jobId: job.id }).map(({ record }) => record),
      isLive: (id) => living.has(id),
      specOf: (version) => this.#store.getJobVersion(job.id, version)?.record.spec,
      nowMs: this.#clock.wallMs(),
    });
  }

  async stopJob(
    jobId: string,
    options: { readonly purge: boolean; readonly noShutdownDelay: boolean },
  ): Promise<JobChange> {
    const beganAfter = this.#store.index();
    const job = this.#store.getJob(jobId);
    if (job === undefined) throw new AgentError('not_found', `job ${jobId} not found`);
    await this.#store.commit([
      { kind: 'put_job', job: { ...job.record, stopped: true } },
      ...this.#stopAllocs(this.#living(jobId)),
    ]);
    const change = await this.#change(jobId, false, beganAfter);
    if (!options.purge) return change;
    const allocs = this.#store.listAllocs({ jobId });
    await this.#store.commit([
      ...allocs.map(({ record }): Change => ({ kind: 'delete_alloc', allocId: record.id })),
      { kind: 'delete_job', jobId },
    ]);
    return { ...change, index: this.#store.index() };
  }

  async stopAlloc(allocId: string): Promise<{ readonly evalId: string; readonly index: number }> {
    const beganAfter = this.#store.index();
    const alloc = this.#alloc(allocId);
    const group = this.#store
      .getJobVersion(alloc.jobId, alloc.jobVersion)
      ?.record.spec.groups.find(({ name }) => name === alloc.group);
    await this.#store.commit([
      ...this.#stopAllocs([alloc]),
      ...(group === undefined ? [] : this.#placeOne(alloc.jobId, alloc.jobVersion, group, alloc.index)),
    ]);
    return { evalId: await this.#note(alloc.jobId, beganAfter), index: this.#store.index() };
  }

  async restartAlloc(
    allocId: string,
    options: { readonly task: string | undefined; readonly allTasks: boolean },
  ): Promise<void> {
    for (const task of this.#running(allocId, options.task)) {
      await this.addEvent(allocId, task.task, { type: 'Restart Signaled', reason: 'User requested restart' });
      await this.endTask(allocId, task.task, {
        kind: 'signaled',
        signal: 15,
        coreDumped: false,
        oomKilled: false,
      });
      await this.startTask(allocId, task.task);
    }
  }

  async signalAlloc(
    allocId: string,
    options: { readonly task: string | undefined; readonly signal: string },
  ): Promise<void> {
    for (const task of this.#running(allocId, options.task)) {
      await this.addEvent(allocId, task.task, { type: 'Signaling', signal: options.signal, reason: '' });
    }
  }

  allocChecks(): readonly [] {
    return [];
  }

  allocUsage(allocId: string): Promise<Readonly<Record<string, TaskUsage>>> {
    const running = this.#store.listTasks(allocId).filter(({ state }) => state === 'running');
    return Promise.resolve(
      Object.fromEntries(
        running.map(({ task }): [string, TaskUsage] => [
          task,
          {
            atMs: this.#clock.wallMs(),
            cpuPercent: 12.5,
            cpuTotalMs: 340,
            memoryBytes: 8 * 2 ** 20,
            memoryLimitBytes: 256 * 2 ** 20,
            processes: 3,
            memoryPeakBytes: 9 * 2 ** 20,
            throttledPeriods: 4,
            throttledMs: 120,
            oomKills: 0,
            cpuUserMs: 300,
            cpuSystemMs: 40,
            memoryRssBytes: 7 * 2 ** 20,
            memoryCacheBytes: 2 ** 20,
            ioReadBytes: 4096,
            ioWriteBytes: 8192,
            pressure: { cpuPercent: 1.5, memoryPercent: 0, ioPercent: 0 },
            source: 'cgroup',
          },
        ]),
      ),
    );
  }

  hostUsage(): Promise<HostUsage> {
    return new HostSampler(this.#clock, '/').sample();
  }

  scheduling(): NodeScheduling {
    return this.#scheduling;
  }

  drain(): Promise<void> {
    this.#scheduling = {
      eligible: false,
      drain: { startedAtMs: 1, deadlineMs: undefined, dueAt: undefined, ignoreSystemJobs: false },
    };
    return this.#putScheduling();
  }

  endDrain({ keepIneligible }: { readonly keepIneligible: boolean }): Promise<void> {
    this.#scheduling = { eligible: !keepIneligible, drain: undefined };
    return this.#putScheduling();
  }

  setEligible(eligible: boolean): Promise<void> {
    this.#scheduling = { ...this.#scheduling, eligible };
    return this.#putScheduling();
  }

  async #putScheduling(): Promise<void> {
    const value = JSON.stringify(this.#scheduling);
    await this.#store.commit([{ kind: 'put_host', key: 'node_scheduling', value }]);
  }

  node(): NodeFacts {
    return {
      nodeId: '0de00000-aaaa-4bbb-8ccc-000000000001',
      name: 'testhost',
      version: '0.1.0',
      bootId: BOOT,
      dataDir: '/nowhere',
      socket: '/nowhere/s',
      nodeVersion: process.version,
      cgroupMode: 'none',
      cgroupsDelegated: [],
      capabilities: [{ name: 'limit memory', available: false, detail: 'no cgroup', cure: 'be root' }],
      startedAtMs: 1_700_000_000_000,
      attributes: { 'cpu.numcores': '2', 'kernel.name': 'linux' },
      drivers: {
        raw_exec: { health: 'healthy', description: 'Healthy', attributes: { 'driver.raw_exec': '1' } },
      },
      cpuMhzTotal: 4000,
      memoryMibTotal: 2048,
    };
  }

  doctor(): Promise<readonly TreatedFinding[]> {
    return Promise.resolve([]);
  }

  warnings(): readonly string[] {
    return this.troubles;
  }

  /** The task begins to run. @returns its run id */
  async startTask(allocId: string, name: string): Promise<string> {
    const task = this.#task(allocId, name);
    const nowMs = this.#clock.wallMs();
    const pid = this.#nextPid++;
    const run: RunRecord = {
      runId: newRunId(),
      allocId,
      task: name,
      attempt: task.attempts + 1,
      driver: 'raw_exec',
      bootId: BOOT,
      specHash: 'ab'.repeat(32),
      intendedAtMs: nowMs,
      handle: { executor: undefined, workload: { pid, startTicks: 1 }, driverState: {} },
      startedAtMs: nowMs,
      outcome: undefined,
    };
    const running: TaskRecord = {
      ...task,
      state: 'running',
      phase: 'running',
      runId: run.runId,
      attempts: run.attempt,
      startedAtMs: nowMs,
    };
    const changes = this.#withEvent(running, { type: 'Started', pid });
    await this.#store.commit([
      { kind: 'put_run', run },
      ...changes,
      { kind: 'put_alloc', alloc: { ...this.#alloc(allocId), clientStatus: 'running', modifiedAtMs: nowMs } },
    ]);
    return run.runId;
  }

  /** The task's run ends. */
  async endTask(allocId: string, name: string, result: ExitResult): Promise<void> {
    const task = this.#task(allocId, name);
    const run = task.runId === undefined ? undefined : this.#store.getRun(task.runId);
    const nowMs = this.#clock.wallMs();
    const report = {
      result,
      startedAtMs: run?.startedAtMs,
      endedAtMs: nowMs,
      ranForMs: 1500,
      usage: { cpuUserMs: 10, cpuSystemMs: 5, peakMemoryBytes: 9 * 2 ** 20 },
      logComplete: true,
      leftoversKilled: 0,
    };
    const changes = this.#withEvent(
      { ...task, state: 'dead', phase: 'dead', runId: undefined, lastExit: result, finishedAtMs: nowMs },
      { type: 'Terminated', result },
    );
    await this.#store.commit([
      ...(run === undefined
        ? []
        : [{ kind: 'put_run', run: { ...run, outcome: { kind: 'ended', report } } } satisfies Change]),
      ...changes,
    ]);
  }

  /** Something happens to the task. */
  async addEvent(allocId: string, name: string, event: TaskEvent): Promise<void> {
    const changes = this.#withEvent(this.#task(allocId, name), event);
    await this.#store.commit(changes);
  }

  #withEvent(task: TaskRecord, event: TaskEvent): readonly Change[] {
    const stamped = { seq: task.lastEventSeq + 1, atMs: this.#clock.wallMs(), event };
    const recentEvents = [...task.recentEvents, stamped].slice(-RECENT_EVENTS);
    return [
      { kind: 'put_task', task: { ...task, lastEventSeq: stamped.seq, recentEvents } },
      { kind: 'add_task_event', allocId: task.allocId, task: task.task, event: stamped },
    ];
  }

  #placeGroup(jobId: string, version: number, group: TaskGroup): Change[] {
    return Array.from({ length: group.count }, (_, index) =>
      this.#placeOne(jobId, version, group, index),
    ).flat();
  }

  #placeOne(jobId: string, jobVersion: number, group: TaskGroup, index: number): Change[] {
    const nowMs = this.#clock.wallMs();
    const alloc: AllocRecord = {
      id: newUuid(),
      jobId,
      jobVersion,
      group: group.name,
      index,
      desiredStatus: 'run',
      desiredDescription: '',
      noShutdownDelay: false,
      clientStatus: 'pending',
      clientDescription: '',
      createdAtMs: nowMs,
      modifiedAtMs: nowMs,
    };
    return [
      { kind: 'put_alloc', alloc },
      ...group.tasks.map(({ name }): Change => ({
        kind: 'put_task',
        task: taskRecord({ allocId: alloc.id, task: name }),
      })),
    ];
  }

  #stopAllocs(allocs: readonly AllocRecord[]): Change[] {
    return allocs.flatMap((alloc): Change[] => [
      {
        kind: 'put_alloc',
        alloc: { ...alloc, desiredStatus: 'stop', desiredDescription: 'stopped', clientStatus: 'complete' },
      },
      ...this.#store.listTasks(alloc.id).map((task): Change => ({
        kind: 'put_task',
        task: { ...task, state: 'dead', phase: 'complete', killReason: 'stopped', runId: undefined },
      })),
    ]);
  }

  #living(jobId: string): readonly AllocRecord[] {
    return this.#store
      .listAllocs({ jobId })
      .map(({ record }) => record)
      .filter(({ desiredStatus }) => desiredStatus === 'run');
  }

  #running(allocId: string, name: string | undefined): readonly TaskRecord[] {
    const tasks = name === undefined ? this.#store.listTasks(allocId) : [this.#task(allocId, name)];
    const running = tasks.filter(({ state }) => state === 'running');
    if (running.length === 0) throw new AgentError('not_running', `no task of alloc ${allocId} is running`);
    return running;
  }

  #alloc(allocId: string): AllocRecord {
    const alloc = this.#store.getAlloc(allocId);
    if (alloc === undefined) throw new AgentError('not_found', `alloc ${allocId} not found`);
    return alloc.record;
  }

  #task(allocId: string, name: string): TaskRecord {
    const task = this.#store.getTask(allocId, name);
    if (task === undefined) throw new AgentError('not_found', `alloc ${allocId} has no task ${name}`);
    return task;
  }

  async #change(jobId: string, unchanged: boolean, beganAfter: number): Promise<JobChange> {
    const job = this.#store.getJob(jobId);
    const jobModifyIndex = job?.modifyIndex ?? 0;
    const evalId = await this.#note(jobId, beganAfter);
    const index = this.#store.index();
    const version = job?.record.version ?? 0;
    return { jobId, version, evalId, beganAfter, index, jobModifyIndex, unchanged };
  }

  async #note(jobId: string, beganAfter: number): Promise<string> {
    const evaluation = evaluationRecord({ id: newUuid(), jobId, beganAfter });
    await this.#store.commit([{ kind: 'put_evaluation', evaluation }]);
    return evaluation.id;
  }

  dispatchJob(jobId: string): Promise<JobChange> {
    return Promise.reject(new AgentError('bad_request', `job ${jobId} is no pattern`));
  }

  forcePeriodic(jobId: string): Promise<JobChange> {
    return Promise.reject(new AgentError('bad_request', `job ${jobId} is not periodic`));
  }

  nextLaunchMs(): number | undefined {
    return undefined;
  }

  failDeployment(id: string): Promise<DeploymentChange> {
    return Promise.reject(new AgentError('not_found', `no deployment ${id}`));
  }

  pauseDeployment(id: string): Promise<DeploymentChange> {
    return this.failDeployment(id);
  }

  setAllocHealth(id: string): Promise<DeploymentChange> {
    return this.failDeployment(id);
  }

  collectGarbage(): Promise<number> {
    return Promise.resolve(0);
  }

  collectAlloc(): Promise<void> {
    return Promise.resolve();
  }
}
