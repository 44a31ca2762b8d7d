/**
 * Owns the task runners of one alloc: starts them, ends them together, and reduces their states to the alloc's
 * status, which is stored in the same transaction as the task's change. It decides nothing: what it asks of the tasks
 * comes from the pure files beside it. Over 300 lines because all that an alloc does meets in `#react`.
 */
import { AgentError, describeError } from '../base/errors.js';
import type { Clock, Timer } from '../base/clock.js';
import type { Logger } from '../base/log.js';
import type { Driver, TaskDirs } from '../drivers/driver.js';
import type { Session, SessionRequest } from '../executor/session.js';
import { roleOf } from '../jobspec/lifecycle.js';
import type { Job, JobType, TaskGroup } from '../jobspec/types.js';
import { updateOf } from '../jobspec/update-rules.js';
import type { AllocRecord, Change, Moment, StateStore, TaskRecord, WhenRefused } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { TaskHook } from '../taskrunner/hooks/hook.js';
import { newTaskRecord } from '../taskrunner/machine.js';
import { askProbe, type Probe } from './checks/probe.js';
import type { AllocChecks, KnownCheck } from './checks/alloc-checks.js';
import { checksOfTasks } from './checks/task-checks.js';
import { AllocPorts, PORT_RETRY_MS } from './alloc-ports.js';
import type { TaskRunnerDeps } from '../taskrunner/deps.js';
import { TaskRunner } from '../taskrunner/task-runner.js';
import { allDead, reduceClientStatus } from './client-status.js';
import { decideHealth, isLost, whyTaskIsNotWell, type HealthState, type WatchedTask } from './health.js';
import { decideEnding, nextToEnd, type Ending } from './ending.js';
import { openRoles, staleTasks, type GatedTask } from './lifecycle-gate.js';
import { decideRunTime, leftOfShutdownDelayMs } from './run-time.js';

/** An alloc with what it is specified as now. */
export interface AllocSubject {
  readonly alloc: AllocRecord;
  readonly job: Job;
  readonly group: TaskGroup;
}

export interface AllocRunnerDeps {
  readonly clock: Clock;
  readonly bootId: string;
  readonly logger: Logger;
  readonly store: StateStore;
  /** The driver of that name, or one that says it does not exist. */
  readonly driver: (name: string) => Driver;
  readonly hooks: readonly TaskHook[];
  /** The cap of every kill_timeout as it is now. */
  readonly maxKillTimeoutMs: () => number;
  readonly agentEnv: Readonly<Record<string, string | undefined>>;
  readonly nodeFacts: Readonly<Record<string, string>>;
  readonly taskDirs: (allocId: string, task: string) => TaskDirs;
  /** How checks ask; the real world when it is not given. */
  readonly probe?: Probe;
}

/** What an alloc knows of the others on its host. */
export interface Neighbours {
  /** Who has a port, in words; without this alloc. */
  portHolders(allocId: string): ReadonlyMap<number, string>;
}

/** Runs one alloc until its tasks have ended, or until the agent leaves. */
export class AllocRunner {
  readonly #deps: AllocRunnerDeps;
  readonly #neighbours: Neighbours;
  readonly #logger: Logger;
  readonly #runners: ReadonlyMap<string, TaskRunner>;
  readonly #records = new Map<string, TaskRecord>();
  #alloc: AllocRecord;
  #group: TaskGroup;
  #jobType: JobType;
  readonly #checks: AllocChecks;
  readonly #ports: AllocPorts;
  #finished = false;
  /** The wish for a restart of all tasks is on its way to the store: nothing is done about it before it is there. */
  #restarting: Promise<void> | undefined;
  #leaving = false;
  /** The store has refused the record, with an intent: it goes with the next change. */
  #isOwed = false;
  /** The next time at which something has to be looked at although nothing has happened. */
  #alarm: Timer | undefined;

  /** Restores the tasks from the store; what is not there is new. Nothing starts before `run`. */
  constructor(deps: AllocRunnerDeps, { alloc, job, group }: AllocSubject, neighbours: Neighbours) {
    this.#deps = deps;
    this.#neighbours = neighbours;
    this.#alloc = alloc;
    this.#group = group;
    this.#jobType = job.type;
    this.#logger = deps.logger.child({ alloc_id: alloc.id });
    for (const task of group.tasks) {
      const record = deps.store.getTask(alloc.id, task.name) ?? newTaskRecord(alloc.id, task.name);
      this.#records.set(task.name, record);
    }
    this.#runners = new Map(
      group.tasks.map((task) => [
        task.name,
        new TaskRunner(this.#taskDeps(task.name, task.driver), {
          job,
          group,
          task,
          allocId: alloc.id,
          allocIndex: alloc.index,
          dirs: deps.taskDirs(alloc.id, task.name),
          payload: deps.store.getJob(alloc.jobId)?.record.payload,
          record: this.#records.get(task.name) ?? newTaskRecord(alloc.id, task.name),
        }),
      ]),
    );
    this.#checks = checksOfTasks(
      {
        clock: deps.clock,
        logger: this.#logger,
        allocId: alloc.id,
        probe: deps.probe ?? askProbe,
        runners: this.#runners,
        ports: () => this.#alloc.ports ?? {},
        onStatus: () => {
          this.#react();
        },
      },
      group,
    );
    this.#ports = this.#newPorts();
  }

  /** The newest record, perhaps a moment ahead of the store. */
  get alloc(): AllocRecord {
    return this.#alloc;
  }

  /** Starts or resumes the tasks. Call once. */
  run(): void {
    this.#react();
  }

  /** Resolves when it is known of every task what became of it while no agent was there. */
  async known(): Promise<void> {
    await Promise.all([...this.#runners.values()].map((runner) => runner.known));
  }

  /** Resolves when every task is complete, or was let go by `shutdown`. */
  async done(): Promise<void> {
    await Promise.all([...this.#runners.values()].map((runner) => runner.done));
  }

  /**
   * Changes what is wanted of the alloc and gives the record to be stored. From now on every change of a task is stored
   * with it, so that no older wish can overwrite it; nothing is done about it before `update` or `stop`.
   */
  want(
    wish: Partial<
      Pick<
        AllocRecord,
        'desiredStatus' | 'desiredDescription' | 'noShutdownDelay' | 'jobVersion' | 'deploymentId' | 'health'
      >
    >,
  ): AllocRecord {
    const isNewVersion = wish.jobVersion !== undefined && wish.jobVersion !== this.#alloc.jobVersion;
    this.#change({ ...wish, ...(isNewVersion ? { health: undefined } : {}) });
    return this.#alloc;
  }

  /** Acts on the stored wish: the job has a newer version that needs no new run. */
  update(job: Job, group: TaskGroup): void {
    this.#group = group;
    this.#jobType = job.type;
    this.#checks.update(group);
    for (const task of group.tasks) this.#runners.get(task.name)?.update(job, group, task);
    this.#react();
  }

  /** Acts on the stored wish: the alloc shall stop. */
  stop(): void {
    this.#react();
  }

  /**
   * Starts the whole alloc anew, in the order of its first start: what has ended runs again. Resolves when that is
   * stored; from then on it is carried out, by the next agent if need be.
   * @throws AgentError not_running when it is over or is being ended; store_unavailable
   */
  restartAll(): Promise<void> {
    // Asked again before the first answer: it is the same wish.
    this.#restarting ??= this.#storeRestart().finally(() => {
      this.#restarting = undefined;
      this.#react();
    });
    return this.#restarting;
  }

  async #storeRestart(): Promise<void> {
    const tasks = this.#tasks();
    const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
    const ending = decideEnding(this.#alloc, tasks);
    if (ending !== undefined || others.every(({ record }) => record.state === 'dead')) {
      const why = ending === undefined ? 'its tasks have ended' : ending.reason;
      throw new AgentError('not_running', `alloc ${this.#alloc.id} cannot be restarted any more: ${why}`);
    }
    const generation = this.#alloc.generation ?? 0;
    this.#change({ generation: generation + 1 });
    try {
      await this.#deps.store.commit([{ kind: 'put_alloc', alloc: this.#alloc }], { whenRefused: 'reject' });
    } catch (error) {
      this.#change({ generation });
      // It may have gone to the store with a change of a task.
      this.#isOwed = true;
      throw error;
    }
  }

  /** @throws AgentError not_running, not_found */
  async restart(task: string | undefined, reason: string): Promise<void> {
    await this.#each(task, (runner) => runner.restart(reason));
  }

  /** @throws AgentError not_running, not_found, signal_unknown */
  async signal(task: string | undefined, signal: string, reason: string): Promise<void> {
    await this.#each(task, (runner) => runner.signal(signal, reason));
  }

  /** The checks of the alloc, and how they stand. */
  checks(): readonly KnownCheck[] {
    return this.#checks.list();
  }

  /** @throws AgentError not_running, not_found, bad_request, too_many, executor_failed */
  openSession(task: string, request: SessionRequest, by: string): Promise<Session> {
    const runner = this.#runners.get(task);
    if (runner !== undefined) return runner.openSession(request, by);
    throw new AgentError('not_found', `alloc ${this.#alloc.id} has no task ${JSON.stringify(task)}`);
  }

  /** Usage of each task that runs, by name. */
  async usage(): Promise<Readonly<Record<string, TaskUsage>>> {
    const usages: Record<string, TaskUsage> = {};
    for (const [name, runner] of this.#runners) {
      const usage = await runner.usage();
      if (usage !== undefined) usages[name] = usage;
    }
    return usages;
  }

  /** The agent leaves: every task goes on without it. */
  async shutdown(): Promise<void> {
    this.#leaving = true;
    this.#checks.close();
    this.#alarm?.[Symbol.dispose]();
    await Promise.all([...this.#runners.values()].map((runner) => runner.shutdown()));
  }

  /** One named task, or all that can take it: of all, those that do not run are passed over. */
  async #each(task: string | undefined, act: (runner: TaskRunner) => Promise<void>): Promise<void> {
    if (task !== undefined) {
      const runner = this.#runners.get(task);
      if (runner === undefined) {
        throw new AgentError('not_found', `alloc ${this.#alloc.id} has no task ${JSON.stringify(task)}`);
      }
      await act(runner);
      return;
    }
    const results = await Promise.allSettled([...this.#runners.values()].map(act));
    const failures = results.filter((result) => result.status === 'rejected');
    if (failures.length === results.length && failures[0] !== undefined) throw failures[0].reason;
  }

  #taskDeps(task: string, driver: string): TaskRunnerDeps {
    const { store } = this.#deps;
    const allocId = this.#alloc.id;
    return {
      clock: this.#deps.clock,
      bootId: this.#deps.bootId,
      logger: this.#logger,
      driver: this.#deps.driver(driver),
      hooks: this.#deps.hooks,
      storedHooks: store.listHooks(allocId, task),
      maxKillTimeoutMs: this.#deps.maxKillTimeoutMs,
      agentEnv: this.#deps.agentEnv,
      nodeFacts: this.#deps.nodeFacts,
      ports: () => this.#alloc.ports ?? {},
      persist: (record, changes, whenRefused) => this.#persist(record, changes, whenRefused),
      saveHook: async (hook) => {
        await store.commit([{ kind: 'put_hook', hook }], { whenRefused: 'reject' });
      },
      readRun: (runId) => store.getRun(runId),
      lastRanForMs: () => {
        const outcome = store.listRuns(allocId, task).at(-1)?.outcome;
        return outcome?.kind === 'ended' ? outcome.report.ranForMs : undefined;
      },
      onChanged: () => {
        this.#react();
      },
    };
  }

  #persist(
    record: TaskRecord,
    changes: readonly Change[],
    whenRefused: WhenRefused,
  ): Promise<'stored' | 'kept'> {
    this.#records.set(record.task, record);
    const before = this.#alloc;
    this.#reduce();
    if (this.#alloc === before && !this.#isOwed) return this.#deps.store.commit(changes, { whenRefused });
    this.#isOwed = false;
    const commit = this.#deps.store.commit([...changes, { kind: 'put_alloc', alloc: this.#alloc }], {
      whenRefused,
    });
    commit.catch(() => {
      this.#isOwed = true;
    });
    return commit;
  }

  #change(fields: Partial<AllocRecord>): void {
    this.#alloc = { ...this.#alloc, ...fields, modifiedAtMs: this.#deps.clock.wallMs() };
  }

  /** Brings the record of the alloc up to what is known of its tasks. */
  #reduce(): readonly number[] {
    const runTime = this.#watchRunTime();
    const { status, description } = reduceClientStatus(
      [...this.#records.values()],
      this.#alloc.runTime?.isOver,
    );
    if (status !== this.#alloc.clientStatus || description !== this.#alloc.clientDescription) {
      this.#change({ clientStatus: status, clientDescription: description });
    }
    const judged = this.#judge();
    if (judged === undefined) return [runTime].flatMap((ms) => ms ?? []);
    const { health, watch } = judged;
    const hadVerdict = this.#alloc.health !== undefined;
    if (health !== this.#alloc.health || watch !== this.#alloc.healthWatch) {
      this.#change({ health, healthWatch: watch });
    }
    if (health?.healthy === false && !hadVerdict) this.#tellUnhealthy(health.detail);
    return [runTime, judged.lookAgainInMs].flatMap((ms) => ms ?? []);
  }

  /** @returns when to look again */
  #watchRunTime(): number | undefined {
    if (this.#finished || this.#leaving || decideEnding(this.#alloc, this.#tasks()) !== undefined) return;
    const { runTime, lookAgainInMs } = decideRunTime(this.#alloc, this.#group, this.#now());
    if (runTime !== this.#alloc.runTime) this.#change({ runTime });
    return lookAgainInMs;
  }

  /** What is to be said of the alloc's health now; undefined while that must not be said. */
  #judge(): HealthState | undefined {
    if (this.#finished || this.#leaving || this.#alloc.desiredStatus === 'stop') return undefined;
    const tasks = this.#watched();
    if (tasks === undefined) return undefined;
    return decideHealth({
      alloc: this.#alloc,
      strategy: updateOf(this.#jobType, this.#group),
      tasks,
      checks: this.#checks.verdict(),
      now: this.#now(),
    });
  }

  /** Undefined while this agent does not know yet what became of a run of the agent before. */
  #watched(): readonly WatchedTask[] | undefined {
    const watched = this.#tasks().map((one) => ({
      ...one,
      supervision: this.#runners.get(one.task.name)?.supervision ?? 'not_known_yet',
    }));
    if (watched.some(({ supervision }) => supervision === 'not_known_yet')) return undefined;
    return watched.map((one) => ({ ...one, isSupervised: one.supervision === 'yes' }));
  }

  /** Said to the tasks that are to blame; what has failed or ended has said so itself. */
  #tellUnhealthy(message: string): void {
    const tasks = this.#watched() ?? [];
    if (tasks.some(isLost)) return;
    const toBlame = tasks.filter((one) => whyTaskIsNotWell(one) !== undefined);
    for (const { task } of toBlame.length > 0 ? toBlame : tasks) {
      this.#runners.get(task.name)?.say({ type: 'Alloc Unhealthy', message });
    }
  }

  /** Brings the record up to date, and stores it when that has changed anything. @returns when to look again */
  #keepUp(fields: Partial<AllocRecord> = {}): readonly number[] {
    const before = this.#alloc;
    if (Object.keys(fields).length > 0) this.#change(fields);
    const lookAgainInMs = this.#reduce();
    if (this.#alloc !== before) {
      this.#deps.store
        .commit([{ kind: 'put_alloc', alloc: this.#alloc }], { whenRefused: 'keep' })
        .catch((error: unknown) => {
          this.#logger.error({ error: describeError(error) }, 'a change can never be stored, ignoring');
        });
    }
    return lookAgainInMs;
  }

  #setAlarm(lookAgainInMs: readonly number[]): void {
    this.#alarm?.[Symbol.dispose]();
    this.#alarm = undefined;
    if (lookAgainInMs.length === 0 || this.#finished || this.#leaving) return;
    this.#alarm = this.#deps.clock.setTimer(Math.min(...lookAgainInMs), () => {
      this.#react();
    });
  }

  #now(): Moment {
    const { clock, bootId } = this.#deps;
    return { wallMs: clock.wallMs(), monoMs: clock.monoMs(), bootId };
  }

  /**
   * What the alloc's wish and its tasks' states ask of the tasks: to start, to end, to clean up. All of it may be asked
   * again and again: a task does it once.
   */
  #react(): void {
    if (this.#leaving) return;
    if (!this.#finished) this.#checks.follow();
    const lookAgainInMs = [...this.#keepUp()];
    const tasks = this.#tasks();
    const ending = decideEnding(this.#alloc, tasks);
    // Before the gates: what already has to end must not be set up first.
    if (ending !== undefined) lookAgainInMs.push(...this.#end(ending, tasks));
    else if (this.#restarting === undefined) this.#renew(tasks);
    const open = openRoles(tasks, ending === undefined ? this.#alloc.generation : 0);
    const mayStart = ending !== undefined || this.#ports.has(this.#group.ports ?? [], this.#alloc.ports);
    if (!mayStart) lookAgainInMs.push(PORT_RETRY_MS);
    else for (const { task } of tasks) if (open.has(roleOf(task))) this.#runners.get(task.name)?.openGate();
    if (!this.#finished && allDead(tasks.map(({ record }) => record))) {
      this.#finished = true;
      this.#checks.close();
      this.#logger.debug({ status: this.#alloc.clientStatus }, 'all tasks of the alloc are dead');
      for (const runner of this.#runners.values()) runner.finish();
    }
    this.#setAlarm(lookAgainInMs);
  }

  #newPorts(): AllocPorts {
    const { clock, store } = this.#deps;
    return new AllocPorts({
      clock,
      logger: this.#logger,
      holders: () => this.#neighbours.portHolders(this.#alloc.id),
      note: (ports) => {
        this.#change({ ports });
      },
      store: () => store.commit([{ kind: 'put_alloc', alloc: this.#alloc }], { whenRefused: 'reject' }),
      hold: (why) => {
        for (const runner of this.#runners.values()) runner.hold(why);
      },
      onTaken: () => {
        this.#react();
      },
      onRefused: () => {
        this.#setAlarm([PORT_RETRY_MS]);
      },
    });
  }

  /** Ends who is next, after the group's `shutdown_delay`. @returns when to look again */
  #end(ending: Ending, tasks: readonly GatedTask[]): readonly number[] {
    const next = nextToEnd(tasks, ending.alsoPoststop);
    if (next.length === 0) return [];
    const leftMs = leftOfShutdownDelayMs(this.#alloc, this.#group, this.#now());
    if (leftMs > 0) {
      if (this.#alloc.endingSince === undefined) {
        this.#keepUp({ endingSince: this.#now() });
        for (const { task, record } of tasks) {
          if (record.state !== 'running') continue;
          this.#runners.get(task.name)?.say({ type: 'Waiting for Shutdown Delay', delayMs: leftMs });
        }
      }
      return [leftMs];
    }
    for (const { task } of next) this.#kill(task.name, ending);
    return [];
  }

  /** Takes the tasks into the generation of the alloc: what has ended at once, what runs in the order of an ending. */
  #renew(tasks: readonly GatedTask[]): void {
    const generation = this.#alloc.generation ?? 0;
    const stale = staleTasks(tasks, generation);
    const ended = stale.filter(({ record }) => record.state === 'dead');
    for (const { task } of [...ended, ...nextToEnd(stale)]) {
      this.#runners.get(task.name)?.renew(generation, 'all tasks of the alloc are restarted, as asked');
    }
  }

  #kill(task: string, { reason, because }: Ending): void {
    this.#runners.get(task)?.kill({
      reason,
      skipDelay: this.#alloc.noShutdownDelay,
      ...(because === undefined ? {} : { because }),
    });
  }

  #tasks(): readonly GatedTask[] {
    return this.#group.tasks.flatMap((task) => {
      const record = this.#records.get(task.name);
      return record === undefined ? [] : [{ task, record }];
    });
  }
}

/** Logs what ends an alloc runner unexpectedly; nothing of it may take the agent down. */
export function watchAllocRunner(runner: AllocRunner, logger: Logger, onDone: () => void): void {
  runner.done().then(onDone, (error: unknown) => {
    logger.error({ alloc_id: runner.alloc.id, error: describeError(error) }, 'alloc runner fault');
  });
}
