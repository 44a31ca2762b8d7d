/**
 * Owns one task: takes what happens to it from a mailbox, one at a time, asks step.ts what it means, stores that, and
 * then does what it was told. It decides nothing itself, and what it does is done by the parts beside it: the journal
 * (what is stored), the run in hand (the driver), the hook phases, and what ended runs left. Their answers come back as
 * events. A little over 300 lines because whatever can be asked of a task has its method here.
 */
import { AgentError, describeError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import type { Timer } from '../base/clock.js';
import { Deferred } from '../base/deferred.js';
import { newRunId } from '../base/ids.js';
import type { Logger } from '../base/log.js';
import { Mailbox } from '../base/mailbox.js';
import { signalNumber } from '../base/signals.js';
import type { ExecOptions, ExecResult } from '../drivers/sessions.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { TaskEvent } from '../events/task-event.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { TaskRecord } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { TaskRunnerDeps, TaskRunnerSubject } from './deps.js';
import { HookPhases } from './hooks/phases.js';
import { TaskHooks } from './hooks/run-hooks.js';
import { newRunnerState, type Effect, type RunnerEvent, type RunnerState } from './machine.js';
import { Releases } from './releases.js';
import { RunInHand } from './run-in-hand.js';
import { step } from './step.js';
import { TaskJournal, type Stored } from './task-journal.js';
import { TaskSpec } from './task-spec.js';

/** The record is for people: who wants more of it has the agent's log. */
const LONGEST_COMMAND_SAID = 200;

interface Message {
  readonly event: RunnerEvent;
  readonly reply?: { readonly resolve: () => void; readonly reject: (error: unknown) => void };
}

export class TaskRunner {
  readonly #deps: TaskRunnerDeps;
  readonly #mailbox: Mailbox<Message>;
  readonly #spec: TaskSpec;
  readonly #journal: TaskJournal;
  readonly #releases: Releases;
  readonly #run: RunInHand;
  readonly #phases: HookPhases;
  readonly #done = new Deferred<undefined>();
  readonly #known = new Deferred<undefined>();
  #state: RunnerState;
  #timer: { readonly id: number; readonly timer: Timer } | undefined;
  /** A timer of nothing may fire within the turn of the event loop. */
  #mayHurry = false;

  constructor(deps: TaskRunnerDeps, subject: TaskRunnerSubject) {
    this.#deps = deps;
    const { task, allocId, record } = subject;
    const { clock, bootId, driver } = deps;
    const logger = deps.logger.child({ task: task.name });
    const post = (event: RunnerEvent): void => {
      this.#post(event);
    };
    const hooks = new TaskHooks(
      { hooks: deps.hooks, clock, bootId, logger, save: deps.saveHook },
      { allocId, task: task.name },
      deps.storedHooks,
    );
    this.#spec = new TaskSpec(deps, hooks, subject);
    this.#journal = new TaskJournal(deps, logger, this.#spec);
    this.#releases = new Releases(logger);
    this.#run = new RunInHand({
      driver,
      spec: this.#spec,
      releases: this.#releases,
      state: () => this.#state,
      readRun: (runId) => this.#journal.openRun(runId),
      post,
    });
    this.#phases = new HookPhases(hooks, this.#spec, post, {
      restart: (reason) => this.restart(reason),
      sendSignal: (signal, reason) => this.signal(signal, reason),
      exec: (command, args, options) => this.exec(command, args, options),
      kill: (reason, because) => {
        this.kill({ reason, because });
      },
    });
    this.#state = newRunnerState(record, task, subject.job.type);
    this.#mailbox = this.#newMailbox(logger);
    // Of a run in hand it is the driver that says how it went.
    const lastRanForMs = subject.record.runId === undefined ? deps.lastRanForMs() : undefined;
    this.#post({ kind: 'begin', lastRanForMs });
  }

  /** Resolves when the stop hooks ran, or when the agent let go of the task. */
  get done(): Promise<unknown> {
    return this.#done.promise;
  }

  /** Resolves when this agent has found out what its record is about: at once for a task that has never run. */
  get known(): Promise<unknown> {
    return this.#known.promise;
  }

  /** The newest record, perhaps a moment ahead of the store. */
  get record(): TaskRecord {
    return this.#state.record;
  }

  /** How sure this agent is of what the record says of a run: after its start it has to find out first. */
  get supervision(): 'yes' | 'no' | 'not_known_yet' {
    const { mode } = this.#state;
    if (mode.at === 'new' || (mode.at === 'recovering' && mode.tries === 0)) return 'not_known_yet';
    return mode.at === 'running' ? 'yes' : 'no';
  }

  /** Why the task may not start yet, for people; '' = as its lifecycle has it. */
  hold(why: string): void {
    this.#post({ kind: 'held', why });
  }

  /** Resolves `${…}` as in the task's own settings. */
  interpolate(text: string): string {
    return this.#spec.env().interpolate(text);
  }

  /** Runs a command in the task, to its end. @throws AgentError not_running, timeout, cancelled, … */
  exec(command: string, args: readonly string[], options: ExecOptions): Promise<ExecResult> {
    return this.#run.exec(command, args, options);
  }

  /** Tells something of the task that its own life does not tell. */
  say(event: TaskEvent): void {
    this.#post({ kind: 'say', event });
  }

  /** Lets a new task start; nothing for one that runs already. Asked again after every change of the alloc. */
  openGate(): void {
    const { gateOpen, mode } = this.#state;
    // Nothing that waits in the mailbox may close it.
    if (gateOpen && mode.at !== 'waiting' && this.#mailbox.isEmpty) return;
    this.#post({ kind: 'gate_open' });
  }

  /** The task must end and stay ended. */
  kill(options: {
    readonly reason: string;
    readonly skipDelay?: boolean;
    readonly because?: TaskEvent;
  }): void {
    this.#post({
      kind: 'kill',
      reason: options.reason,
      skipDelay: options.skipDelay ?? false,
      because: options.because,
    });
  }

  /** Ends the run in hand and starts a new one, outside the policy. @throws AgentError not_running */
  restart(reason: string, options: { readonly byPolicy?: boolean } = {}): Promise<void> {
    return this.#ask({ kind: 'restart', reason, byPolicy: options.byPolicy ?? false });
  }

  /** The whole alloc starts anew, as `generation`. Asking again for the same does nothing. */
  renew(generation: number, reason: string): void {
    this.#post({ kind: 'renew', generation, reason });
  }

  /** @throws AgentError not_running, signal_unknown, or what the driver says */
  async signal(signal: string, reason: string): Promise<void> {
    signalNumber(signal);
    await this.#ask({ kind: 'signal', signal, reason });
  }

  /** All tasks of the alloc are dead: runs the stop hooks, then `done` resolves. */
  finish(): void {
    this.#post({ kind: 'finish' });
  }

  /** A newer job version that needs no new run. Read by the next decision that uses it. */
  update(job: Job, group: TaskGroup, task: Task): void {
    this.#spec.update(job, group, task);
    this.#post({ kind: 'update', task, jobType: job.type });
  }

  /**
   * Lets go of the task without touching it. Resolves when this runner decides and stores nothing any more; a start or a
   * hook in flight is not waited for, its answer is ignored, and the next agent finds out what came of it.
   */
  async shutdown(): Promise<void> {
    this.#post({ kind: 'shutdown' });
    await this.done;
    await this.#mailbox.idle();
    if (this.#state.mode.at !== 'left') return;
    await this.#phases.shutdown(this.#state.record.attempts);
  }

  /** Begins a session in the running workload. @throws AgentError not_running, bad_request, too_many, executor_failed */
  openSession(request: SessionRequest, by: string): Promise<Session> {
    const command = request.argv.join(' ').slice(0, LONGEST_COMMAND_SAID);
    return this.#run.openSession(request, () =>
      this.#ask({ kind: 'say', event: { type: 'Exec', command, by } }),
    );
  }

  /** What the running workload uses; undefined when none runs or nothing can be measured. */
  usage(): Promise<TaskUsage | undefined> {
    return this.#run.usage();
  }

  #newMailbox(logger: Logger): Mailbox<Message> {
    return new Mailbox<Message>(
      (message) => this.#handleMessage(message),
      (fault, { event, reply }) => {
        logger.error({ event: event.kind, error: describeError(fault) }, 'task runner fault');
        reply?.reject(fault);
      },
    );
  }

  #post(event: RunnerEvent): void {
    this.#mailbox.post({ event });
  }

  #ask(event: RunnerEvent): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#mailbox.post({ event, reply: { resolve, reject } });
    });
  }

  // ---- persist, then act, then tell ------------------------------------------------------------------------------

  async #handleMessage({ event, reply }: Message): Promise<void> {
    const refusal = await this.#take(event, reply);
    // At once, before any other event: nothing may be stored that names a run whose intent is not.
    if (refusal !== undefined) await this.#take({ kind: 'not_stored', error: refusal }, undefined);
  }

  /** @returns why the intent that this led to was refused by the store; undefined when all went well */
  async #take(event: RunnerEvent, reply: Message['reply']): Promise<string | undefined> {
    const { clock, bootId, driver, maxKillTimeoutMs } = this.#deps;
    const before = this.#state;
    const result = step(before, event, {
      wallMs: clock.wallMs(),
      monoMs: clock.monoMs(),
      bootId,
      roll: clock.roll(),
      freshRunId: newRunId(),
      defaultKillSignal: driver.defaultKillSignal,
      maxKillTimeoutMs: maxKillTimeoutMs(),
    });
    this.#state = result.state;
    if (this.supervision !== 'not_known_yet') this.#known.resolve(undefined);
    if (result.refused !== undefined) {
      reply?.reject(new AgentError('not_running', `${this.#spec.task.name}: ${result.refused}`));
      return undefined;
    }
    const intent = result.effects.find((effect) => effect.kind === 'start');
    if (intent !== undefined) this.#run.prepare(intent.runId);
    const stored = await this.#journal.write(result, {
      isAwaited: reply !== undefined,
      changedRef: (runId) => this.#run.takeChangedRef(runId),
      onLater: (how) => {
        for (const effect of result.effects) this.#release(effect, how);
      },
    });
    if (typeof stored === 'object') {
      void this.#run.giveUp();
      return stored.refusal;
    }
    failpoint('task.before_act');
    for (const effect of result.effects) this.#perform(effect, stored, reply);
    failpoint('task.after_act');
    this.#dropStaleTimer();
    const replyLater = result.effects.some((effect) => effect.kind === 'signal');
    if (!replyLater) reply?.resolve();
    if (result.state.record !== before.record || result.state.mode !== before.mode)
      this.#deps.onChanged(result.state.record);
    return undefined;
  }

  #perform(effect: Effect, stored: Stored, reply: Message['reply']): void {
    switch (effect.kind) {
      case 'run_hooks':
        this.#phases.begin(effect.phase, effect.attempt);
        return;
      case 'run_update_hooks':
        this.#run.changeLimits(effect.before);
        this.#phases.update(effect.attempt, effect.before);
        return;
      case 'abort_hooks':
        this.#phases.abort();
        return;
      case 'start':
        this.#mayHurry = true;
        void this.#run.start(effect.runId);
        return;
      case 'recover':
        void this.#run.recover(effect.runId);
        return;
      case 'stop':
        void this.#run.stop(effect.runId, effect.signal, effect.graceMs);
        return;
      case 'signal':
        void this.#run.signal(effect.signal).then(
          () => reply?.resolve(),
          (error: unknown) => reply?.reject(error),
        );
        return;
      case 'release':
        if (stored !== 'later') this.#release(effect, stored);
        return;
      case 'set_timer':
        this.#setTimer(effect.id, effect.delayMs);
        return;
      case 'detach':
        this.#run.detach();
        return;
      case 'done':
        if (stored === 'stored' && this.#state.mode.at === 'complete') this.#releases.pay();
        this.#done.resolve(undefined);
        return;
    }
  }

  /** What a run left goes when its end is stored. */
  #release(effect: Effect, stored: 'stored' | 'kept'): void {
    if (effect.kind === 'release') this.#releases.release(effect.runId, stored);
  }

  /**
   * A wait of nothing is none: the intent of the next start shares the commit of the end. Only once a start, which waits for
   * its own commit: a set-up that fails at once, again and again, must leave the agent its turn.
   */
  #setTimer(id: number, delayMs: number): void {
    this.#timer?.timer[Symbol.dispose]();
    this.#timer = undefined;
    if (delayMs <= 0 && this.#mayHurry) {
      this.#mayHurry = false;
      this.#post({ kind: 'timer', id });
      return;
    }
    const timer = this.#deps.clock.setTimer(delayMs, () => {
      this.#post({ kind: 'timer', id });
    });
    this.#timer = { id, timer };
  }

  #dropStaleTimer(): void {
    if (this.#timer === undefined || this.#timer.id === this.#state.timer) return;
    this.#timer.timer[Symbol.dispose]();
    this.#timer = undefined;
  }
}
