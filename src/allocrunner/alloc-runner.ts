/**
 * Owns the task runners of one alloc: starts them, ends them together, and hands on what is asked of them. All that an
 * alloc does meets in `#react`. It decides nothing: what it asks of the tasks comes from the pure files beside it, and
 * the alloc's record is kept by its journal.
 */
import type { Timer } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { Session, SessionRequest } from '../executor/session.js';
import { roleOf } from '../jobspec/lifecycle.js';
import type { Job, TaskGroup } from '../jobspec/types.js';
import type { AllocRecord } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import { AllocJournal, type AllocWish } from './alloc-journal.js';
import { AllocPorts, PORT_RETRY_MS } from './alloc-ports.js';
import type { AllocChecks, KnownCheck } from './checks/alloc-checks.js';
import { askProbe } from './checks/probe.js';
import { checksOfTasks } from './checks/task-checks.js';
import { allDead } from './client-status.js';
import type { AllocRunnerDeps, AllocSubject, Neighbours } from './deps.js';
import { decideEnding, nextToEnd, type Ending } from './ending.js';
import { openRoles, tasksToRenew, whyClosed, type GatedTask } from './lifecycle-gate.js';
import { leftOfShutdownDelayMs } from './run-time.js';
import { TaskRunners } from './task-runners.js';

/** Runs one alloc until its tasks have ended, or until the agent leaves. */
export class AllocRunner {
  readonly #deps: AllocRunnerDeps;
  readonly #neighbours: Neighbours;
  readonly #logger: Logger;
  readonly #tasks: TaskRunners;
  readonly #journal: AllocJournal;
  readonly #checks: AllocChecks;
  readonly #ports: AllocPorts;
  #finished = false;
  /** The wish for a restart of all tasks is on its way to the store: nothing is done about it before it is there. */
  #restarting: Promise<void> | undefined;
  #leaving = false;
  /** The next time at which something has to be looked at although nothing has happened. */
  #alarm: Timer | undefined;

  /** Restores the tasks from the store; what is not there is new. Nothing starts before `run`. */
  constructor(deps: AllocRunnerDeps, subject: AllocSubject, neighbours: Neighbours) {
    const { alloc, group } = subject;
    this.#deps = deps;
    this.#neighbours = neighbours;
    this.#logger = deps.logger.child({ alloc_id: alloc.id });
    this.#journal = new AllocJournal(
      {
        clock: deps.clock,
        bootId: deps.bootId,
        logger: this.#logger,
        store: deps.store,
        isAtRest: () => this.#finished || this.#leaving,
        supervision: (task) => this.#tasks.get(task)?.supervision,
        checks: () => this.#checks.verdict(),
        say: (task, event) => this.#tasks.get(task)?.say(event),
      },
      subject,
    );
    this.#tasks = new TaskRunners(deps, this.#logger, subject, this.#journal, () => {
      this.#react();
    });
    this.#checks = checksOfTasks(
      {
        clock: deps.clock,
        logger: this.#logger,
        allocId: alloc.id,
        probe: deps.probe ?? askProbe,
        runners: this.#tasks,
        ports: () => this.alloc.ports ?? {},
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
    return this.#journal.alloc;
  }

  /** Starts or resumes the tasks. Call once. */
  run(): void {
    this.#react();
  }

  /** Resolves when it is known of every task what became of it while no agent was there. */
  known(): Promise<void> {
    return this.#tasks.known();
  }

  /** Resolves when every task is complete, or was let go by `shutdown`. */
  done(): Promise<void> {
    return this.#tasks.done();
  }

  /**
   * Changes what is wanted of the alloc and gives the record to be stored. From now on every change of a task is stored
   * with it, so that no older wish can overwrite it; nothing is done about it before `update` or `stop`.
   */
  want(wish: AllocWish): AllocRecord {
    this.#journal.want(wish);
    return this.#journal.alloc;
  }

  /** Acts on the stored wish: the job has a newer version that needs no new run. */
  update(job: Job, group: TaskGroup): void {
    this.#journal.update(job, group);
    this.#checks.update(group);
    for (const task of group.tasks) this.#tasks.get(task.name)?.update(job, group, task);
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
    const tasks = this.#journal.tasks();
    const others = tasks.filter(({ task }) => roleOf(task) !== 'poststop');
    const ending = decideEnding(this.alloc, tasks);
    if (ending !== undefined || others.every(({ record }) => record.state === 'dead')) {
      const why = ending === undefined ? 'its tasks have ended' : ending.reason;
      throw new AgentError('not_running', `alloc ${this.alloc.id} cannot be restarted any more: ${why}`);
    }
    await this.#journal.beginGeneration();
  }

  /** @throws AgentError not_running, not_found */
  async restart(task: string | undefined, reason: string): Promise<void> {
    await this.#tasks.each(task, (runner) => runner.restart(reason));
  }

  /** @throws AgentError not_running, not_found, signal_unknown */
  async signal(task: string | undefined, signal: string, reason: string): Promise<void> {
    await this.#tasks.each(task, (runner) => runner.signal(signal, reason));
  }

  /** The checks of the alloc, and how they stand. */
  checks(): readonly KnownCheck[] {
    return this.#checks.list();
  }

  /** @throws AgentError not_running, not_found, bad_request, too_many, executor_failed */
  openSession(task: string, request: SessionRequest, by: string): Promise<Session> {
    return this.#tasks.openSession(task, request, by);
  }

  /** Usage of each task that runs, by name. */
  usage(): Promise<Readonly<Record<string, TaskUsage>>> {
    return this.#tasks.usage();
  }

  /** The agent leaves: every task goes on without it. */
  async shutdown(): Promise<void> {
    this.#leaving = true;
    this.#checks.close();
    this.#alarm?.[Symbol.dispose]();
    await this.#tasks.shutdown();
  }

  #setAlarm(lookAgainInMs: readonly number[]): void {
    this.#alarm?.[Symbol.dispose]();
    this.#alarm = undefined;
    if (lookAgainInMs.length === 0 || this.#finished || this.#leaving) return;
    this.#alarm = this.#deps.clock.setTimer(Math.min(...lookAgainInMs), () => {
      this.#react();
    });
  }

  /**
   * What the alloc's wish and its tasks' states ask of the tasks: to start, to end, to clean up. All of it may be asked
   * again and again: a task does it once.
   */
  #react(): void {
    if (this.#leaving) return;
    if (!this.#finished) this.#checks.follow();
    const lookAgainInMs = [...this.#journal.keepUp()];
    const tasks = this.#journal.tasks();
    const ending = decideEnding(this.alloc, tasks);
    // Before the gates: what already has to end must not be set up first.
    if (ending !== undefined) lookAgainInMs.push(...this.#end(ending, tasks));
    const stale = ending === undefined ? tasksToRenew(tasks, this.alloc.generation) : [];
    if (this.#restarting === undefined) this.#renew(stale);
    const open = openRoles(tasks, stale.length > 0 ? this.alloc.generation : 0);
    const mayStart =
      ending !== undefined || this.#ports.has(this.#journal.group.ports ?? [], this.alloc.ports);
    if (!mayStart) lookAgainInMs.push(PORT_RETRY_MS);
    else {
      for (const one of tasks) {
        const runner = this.#tasks.get(one.task.name);
        if (open.has(roleOf(one.task))) runner?.openGate();
        else if (ending === undefined) runner?.hold(whyClosed(one, tasks, this.alloc.generation));
      }
    }
    const mayFinish = stale.length === 0 && this.#restarting === undefined;
    if (!this.#finished && mayFinish && allDead(tasks.map(({ record }) => record))) {
      this.#finished = true;
      this.#checks.close();
      this.#logger.debug({ status: this.alloc.clientStatus }, 'all tasks of the alloc are dead');
      for (const runner of this.#tasks.all()) runner.finish();
    }
    this.#setAlarm(lookAgainInMs);
  }

  #newPorts(): AllocPorts {
    return new AllocPorts({
      clock: this.#deps.clock,
      logger: this.#logger,
      holders: () => this.#neighbours.portHolders(this.alloc.id),
      note: (ports) => {
        this.#journal.change({ ports });
      },
      store: () => this.#journal.put('reject'),
      hold: (why) => {
        for (const runner of this.#tasks.all()) runner.hold(why);
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
    const leftMs = leftOfShutdownDelayMs(this.alloc, this.#journal.group, this.#journal.now());
    if (leftMs > 0) {
      if (this.alloc.endingSince === undefined) {
        this.#journal.keepUp({ endingSince: this.#journal.now() });
        for (const { task, record } of tasks) {
          if (record.state !== 'running') continue;
          this.#tasks.get(task.name)?.say({ type: 'Waiting for Shutdown Delay', delayMs: leftMs });
        }
      }
      return [leftMs];
    }
    for (const { task } of next) this.#kill(task.name, ending);
    return [];
  }

  /** Takes the tasks into the generation of the alloc: what has ended at once, what runs in the order of an ending. */
  #renew(stale: readonly GatedTask[]): void {
    const generation = this.alloc.generation ?? 0;
    const ended = stale.filter(({ record }) => record.state === 'dead');
    for (const { task } of [...ended, ...nextToEnd(stale)]) {
      this.#tasks.get(task.name)?.renew(generation, 'all tasks of the alloc are restarted, as asked');
    }
  }

  #kill(task: string, { reason, because }: Ending): void {
    this.#tasks.get(task)?.kill({
      reason,
      skipDelay: this.alloc.noShutdownDelay,
      ...(because === undefined ? {} : { because }),
    });
  }
}

/** Logs what ends an alloc runner unexpectedly; nothing of it may take the agent down. */
export function watchAllocRunner(runner: AllocRunner, logger: Logger, onDone: () => void): void {
  runner.done().then(onDone, (error: unknown) => {
    logger.error({ alloc_id: runner.alloc.id, error: describeError(error) }, 'alloc runner fault');
  });
}
