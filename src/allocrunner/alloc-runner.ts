/**
 * Owns the task runners of one alloc: starts them, ends them together, and reduces their states to the alloc's
 * status, which is stored in the same transaction as the task's change.
 */
import { AgentError, describeError } from '../base/errors.js';
import type { Clock } from '../base/clock.js';
import type { Logger } from '../base/log.js';
import type { Driver, TaskDirs } from '../drivers/driver.js';
import { roleOf } from '../jobspec/lifecycle.js';
import type { Job, TaskGroup } from '../jobspec/types.js';
import type { AllocRecord, Change, StateStore, TaskRecord, WhenRefused } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { TaskHook } from '../taskrunner/hooks/hook.js';
import { newTaskRecord } from '../taskrunner/machine.js';
import { TaskRunner, type TaskRunnerDeps } from '../taskrunner/task-runner.js';
import { allDead, reduceClientStatus } from './client-status.js';
import { decideEnding, nextToEnd, type Ending } from './ending.js';
import { openRoles, type GatedTask } from './lifecycle-gate.js';

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
}

/** Runs one alloc until its tasks have ended, or until the agent leaves. */
export class AllocRunner {
  readonly #deps: AllocRunnerDeps;
  readonly #logger: Logger;
  readonly #runners: ReadonlyMap<string, TaskRunner>;
  readonly #records = new Map<string, TaskRecord>();
  #alloc: AllocRecord;
  #group: TaskGroup;
  #finished = false;

  /** Restores the tasks from the store; what is not there is new. Nothing starts before `run`. */
  constructor(deps: AllocRunnerDeps, alloc: AllocRecord, job: Job, group: TaskGroup) {
    this.#deps = deps;
    this.#alloc = alloc;
    this.#group = group;
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
          record: this.#records.get(task.name) ?? newTaskRecord(alloc.id, task.name),
        }),
      ]),
    );
  }

  /** The newest record, perhaps a moment ahead of the store. */
  get alloc(): AllocRecord {
    return this.#alloc;
  }

  /** Starts or resumes the tasks. Call once. */
  run(): void {
    this.#react();
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
      Pick<AllocRecord, 'desiredStatus' | 'desiredDescription' | 'noShutdownDelay' | 'jobVersion'>
    >,
  ): AllocRecord {
    this.#alloc = { ...this.#alloc, ...wish, modifiedAtMs: this.#deps.clock.wallMs() };
    return this.#alloc;
  }

  /** Acts on the stored wish: the job has a newer version that needs no new run. */
  update(job: Job, group: TaskGroup): void {
    this.#group = group;
    for (const task of group.tasks) this.#runners.get(task.name)?.update(job, group, task);
    this.#react();
  }

  /** Acts on the stored wish: the alloc shall stop. */
  stop(): void {
    this.#react();
  }

  /** @throws AgentError not_running, not_found */
  async restart(task: string | undefined, reason: string): Promise<void> {
    await this.#each(task, (runner) => runner.restart(reason));
  }

  /** @throws AgentError not_running, not_found, signal_unknown */
  async signal(task: string | undefined, signal: string, reason: string): Promise<void> {
    await this.#each(task, (runner) => runner.signal(signal, reason));
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
    const { status, description } = reduceClientStatus([...this.#records.values()]);
    if (status === this.#alloc.clientStatus && description === this.#alloc.clientDescription) {
      return this.#deps.store.commit(changes, { whenRefused });
    }
    this.#alloc = {
      ...this.#alloc,
      clientStatus: status,
      clientDescription: description,
      modifiedAtMs: this.#deps.clock.wallMs(),
    };
    return this.#deps.store.commit([...changes, { kind: 'put_alloc', alloc: this.#alloc }], { whenRefused });
  }

  /**
   * What the alloc's wish and its tasks' states ask of the tasks: to start, to end, to clean up. All of it may be asked
   * again and again: a task does it once.
   */
  #react(): void {
    const tasks = this.#tasks();
    const ending = decideEnding(this.#alloc, tasks);
    // Before the gates: what already has to end must not be set up first.
    if (ending !== undefined) {
      for (const { task } of nextToEnd(tasks)) this.#kill(task.name, ending);
    }
    const open = openRoles(tasks);
    for (const { task } of tasks) if (open.has(roleOf(task))) this.#runners.get(task.name)?.openGate();
    if (this.#finished || !allDead(tasks.map(({ record }) => record))) return;
    this.#finished = true;
    this.#logger.debug({ status: this.#alloc.clientStatus }, 'all tasks of the alloc are dead');
    for (const runner of this.#runners.values()) runner.finish();
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
