/** Owns the task runners of one alloc as a group: makes them, and hands on what is asked of one of them or of all. */
import { AgentError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { StateStore, TaskRecord } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { TaskRunnerDeps } from '../taskrunner/deps.js';
import { TaskRunner } from '../taskrunner/task-runner.js';
import type { AllocJournal } from './alloc-journal.js';
import type { AllocRunnerDeps, AllocSubject } from './deps.js';

/** One object, by which those who built something of it see that nothing has changed. */
const NO_PORTS: Readonly<Record<string, number>> = {};

export class TaskRunners {
  readonly #allocId: string;
  readonly #runners: ReadonlyMap<string, TaskRunner>;

  /** Takes up each task from its record. Nothing starts before its gate opens. @param onChanged a task has changed */
  constructor(
    deps: AllocRunnerDeps,
    logger: Logger,
    { alloc, job, group, isNew = false, payload }: AllocSubject,
    journal: AllocJournal,
    onChanged: () => void,
  ) {
    this.#allocId = alloc.id;
    this.#runners = new Map(
      journal.tasks().map(({ task, record }) => [
        task.name,
        new TaskRunner(
          {
            clock: deps.clock,
            bootId: deps.bootId,
            logger,
            driver: deps.driver(task.driver),
            hooks: deps.hooks,
            maxKillTimeoutMs: deps.maxKillTimeoutMs,
            agentEnv: deps.agentEnv,
            nodeFacts: deps.nodeFacts,
            ports: () => journal.alloc.ports ?? NO_PORTS,
            persist: (newest, changes, whenRefused) => journal.persistTask(newest, changes, whenRefused),
            onChanged,
            ...storeOfTask(deps.store, record, isNew),
          },
          {
            job,
            group,
            task,
            allocId: alloc.id,
            allocIndex: alloc.index,
            dirs: deps.taskDirs(alloc.id, task.name),
            payload,
            record,
          },
        ),
      ]),
    );
  }

  get(task: string): TaskRunner | undefined {
    return this.#runners.get(task);
  }

  /** @throws AgentError not_found */
  named(task: string): TaskRunner {
    const runner = this.#runners.get(task);
    if (runner !== undefined) return runner;
    throw new AgentError('not_found', `alloc ${this.#allocId} has no task ${JSON.stringify(task)}`);
  }

  all(): readonly TaskRunner[] {
    return [...this.#runners.values()];
  }

  /** Resolves when it is known of every task what became of it while no agent was there. */
  async known(): Promise<void> {
    await Promise.all(this.all().map((runner) => runner.known));
  }

  /** Resolves when every task is complete, or was let go by `shutdown`. */
  async done(): Promise<void> {
    await Promise.all(this.all().map((runner) => runner.done));
  }

  /** Lets go of every task without touching it. */
  async shutdown(): Promise<void> {
    await Promise.all(this.all().map((runner) => runner.shutdown()));
  }

  /**
   * One named task, or all that can take it: of all, those that do not run are passed over.
   * @throws AgentError not_found, or what `act` throws
   */
  async each(task: string | undefined, act: (runner: TaskRunner) => Promise<void>): Promise<void> {
    if (task !== undefined) {
      await act(this.named(task));
      return;
    }
    const results = await Promise.allSettled(this.all().map(act));
    const failures = results.filter((result) => result.status === 'rejected');
    if (failures.length === results.length && failures[0] !== undefined) throw failures[0].reason;
  }

  /** @throws AgentError not_running, not_found, bad_request, too_many, executor_failed */
  openSession(task: string, request: SessionRequest, by: string): Promise<Session> {
    return this.named(task).openSession(request, by);
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
}

/** What a task runner reads and writes of the store by itself. */
function storeOfTask(
  store: StateStore,
  { allocId, task }: TaskRecord,
  isNew: boolean,
): Pick<TaskRunnerDeps, 'storedHooks' | 'saveHook' | 'readRun' | 'lastRanForMs'> {
  return {
    storedHooks: isNew ? [] : store.listHooks(allocId, task),
    saveHook: async (hook) => {
      await store.commit([{ kind: 'put_hook', hook }], { whenRefused: 'reject' });
    },
    readRun: (runId) => store.getRun(runId),
    lastRanForMs: () => {
      const outcome = isNew ? undefined : store.listRuns(allocId, task).at(-1)?.outcome;
      return outcome?.kind === 'ended' ? outcome.report.ranForMs : undefined;
    },
  };
}
