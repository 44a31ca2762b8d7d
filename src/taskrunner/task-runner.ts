/**
 * Owns one task: takes what happens to it from a mailbox, one at a time, asks step.ts what it means, stores that, and
 * then does what it was told, feeding the answers back as events. It decides nothing itself.
 * Over 300 lines because the order store, act, tell is kept here and each effect is a method of a few lines.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { AgentError, describeError, isRecoverable } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import type { Clock, Timer } from '../base/clock.js';
import { Deferred } from '../base/deferred.js';
import { newRunId } from '../base/ids.js';
import type { Logger } from '../base/log.js';
import { Mailbox } from '../base/mailbox.js';
import { signalNumber } from '../base/signals.js';
import type { Driver, DriverHandle, Recovered, TaskConfig, TaskDirs, TaskPaths } from '../drivers/driver.js';
import type { ExecOptions, ExecResult } from '../drivers/sessions.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { TaskEvent } from '../events/task-event.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { Change, HookRecord, RunRecord, TaskRecord, WhenRefused } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { StepResult } from './draft.js';
import type { TaskHook } from './hooks/hook.js';
import { TaskHooks, type PhaseContext } from './hooks/run-hooks.js';
import type { Effect, HookPhase, RunnerEvent, RunnerState } from './machine.js';
import { step } from './step.js';
import { buildTaskEnv, interpolateDeep, type TaskEnv } from './task-env.js';

/** What a task runner needs of the rest of the agent. */
export interface TaskRunnerDeps {
  readonly clock: Clock;
  readonly bootId: string;
  readonly logger: Logger;
  readonly driver: Driver;
  readonly hooks: readonly TaskHook[];
  readonly storedHooks: readonly HookRecord[];
  /** The cap of every kill_timeout as it is now. */
  readonly maxKillTimeoutMs: () => number;
  readonly agentEnv: Readonly<Record<string, string | undefined>>;
  readonly nodeFacts: Readonly<Record<string, string>>;
  /** Ports of the alloc, by label. */
  readonly ports: () => Readonly<Record<string, number>>;
  /** Stores changes of this task together with its new record (the alloc's status goes along). */
  readonly persist: (
    record: TaskRecord,
    changes: readonly Change[],
    whenRefused: WhenRefused,
  ) => Promise<'stored' | 'kept'>;
  readonly saveHook: (record: HookRecord) => Promise<void>;
  readonly readRun: (runId: string) => RunRecord | undefined;
  /** Of the newest ended run, for the restart policy after a restart of the agent. */
  readonly lastRanForMs: () => number | undefined;
  /** Told after each change was handed to the store, and when the runner has got to another point. */
  readonly onChanged: (record: TaskRecord) => void;
}

/** Which task of which alloc, and as what it is specified now. */
export interface TaskRunnerSubject {
  readonly job: Job;
  readonly group: TaskGroup;
  readonly task: Task;
  readonly allocId: string;
  readonly allocIndex: number;
  readonly dirs: TaskDirs;
  /** What the job was dispatched with: bytes, or their base64 text. */
  readonly payload?: Uint8Array | string | undefined;
  /** As stored, or a new one. */
  readonly record: TaskRecord;
}

/** What became of a change: `later` = it is on its way to the store, and nothing that was asked for waits for it. */
type Stored = 'stored' | 'kept' | 'later';

/** The record is for people: who wants more of it has the agent's log. */
const LONGEST_COMMAND_SAID = 200;

interface Message {
  readonly event: RunnerEvent;
  readonly reply?: { readonly resolve: () => void; readonly reject: (error: unknown) => void };
}

export class TaskRunner {
  readonly #deps: TaskRunnerDeps;
  readonly #logger: Logger;
  readonly #mailbox: Mailbox<Message>;
  readonly #hooks: TaskHooks;
  readonly #done = new Deferred<undefined>();
  readonly #known = new Deferred<undefined>();
  #subject: TaskRunnerSubject;
  #state: RunnerState;
  #handle: DriverHandle | undefined;
  /** The limits that the latest start was given. */
  #startedWith: Task['resources'] | undefined;
  /** What the handle is to be found by has changed since it was stored. */
  #isRefChanged = false;
  readonly #releases = new Map<string, () => Promise<void>>();
  /** Of runs whose end waits for a disk that refuses writes: until it is stored what they left is evidence. */
  readonly #owedReleases: { readonly runId: string; readonly release: () => Promise<void> }[] = [];
  #timer: { readonly id: number; readonly timer: Timer } | undefined;
  /** The run in hand, as last handed to the store (which may be a moment behind) or read from it. */
  #openRun: RunRecord | undefined;
  /** As last handed to the store, and taken by it. */
  #handedOver: TaskRecord;
  /** Of the hook phases at work: a slow poststart may still be when the exited hooks begin. */
  readonly #hookAborts = new Set<AbortController>();
  /** Of what hooks do beside the workload. */
  #watchAbort: AbortController | undefined;
  /** Updates of hooks come one after the other. */
  #updates: Promise<void> = Promise.resolve();

  constructor(deps: TaskRunnerDeps, subject: TaskRunnerSubject) {
    this.#deps = deps;
    this.#subject = subject;
    this.#logger = deps.logger.child({ task: subject.task.name });
    this.#hooks = new TaskHooks(
      {
        hooks: deps.hooks,
        clock: deps.clock,
        bootId: deps.bootId,
        logger: this.#logger,
        save: deps.saveHook,
      },
      { allocId: subject.allocId, task: subject.task.name },
      deps.storedHooks,
    );
    this.#handedOver = subject.record;
    this.#state = {
      record: subject.record,
      mode: { at: 'new' },
      task: subject.task,
      jobType: subject.job.type,
      gateOpen: false,
      timer: 0,
      skipDelay: false,
    };
    this.#mailbox = new Mailbox<Message>(
      (message) => this.#handleMessage(message),
      (fault, { event, reply }) => {
        this.#logger.error({ event: event.kind, error: describeError(fault) }, 'task runner fault');
        reply?.reject(fault);
      },
    );
    this.#post({ kind: 'begin', lastRanForMs: deps.lastRanForMs() });
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
    return this.#env().interpolate(text);
  }

  /** Runs a command in the task, to its end. @throws AgentError not_running, timeout, cancelled, … */
  async exec(command: string, args: readonly string[], options: ExecOptions): Promise<ExecResult> {
    const handle = this.#handle;
    if (handle === undefined) throw new AgentError('not_running', `${this.#subject.task.name} does not run`);
    if (handle.exec === undefined) {
      const { driver } = this.#subject.task;
      throw new AgentError('bad_request', `driver ${driver} cannot run a command in its tasks`);
    }
    return handle.exec(command, args, options);
  }

  /** Tells something of the task that its own life does not tell. */
  say(event: TaskEvent): void {
    this.#post({ kind: 'say', event });
  }

  /** Lets a new task start; nothing for one that runs already. */
  openGate(): void {
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
    this.#subject = { ...this.#subject, job, group, task };
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
    await this.#hooks.run('shutdown', this.#phaseContext('shutdown', this.#state.record.attempts));
  }

  /** Begins a session in the running workload. @throws AgentError not_running, bad_request, too_many, executor_failed */
  async openSession(request: SessionRequest, by: string): Promise<Session> {
    const name = this.#subject.task.name;
    const handle = this.#handle;
    if (handle === undefined)
      throw new AgentError('not_running', `${name}: nothing runs that could be joined`);
    if (handle.openSession === undefined) {
      const { driver } = this.#subject.task;
      throw new AgentError('bad_request', `${name}: the driver ${driver} cannot run commands in a task`);
    }
    const command = request.argv.join(' ').slice(0, LONGEST_COMMAND_SAID);
    // Said, and stored, before anything is run.
    await this.#ask({ kind: 'say', event: { type: 'Exec', command, by } });
    return handle.openSession(request);
  }

  /** What the running workload uses; undefined when none runs or nothing can be measured. */
  usage(): Promise<TaskUsage | undefined> {
    return this.#handle?.usage() ?? Promise.resolve(undefined);
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
      reply?.reject(new AgentError('not_running', `${this.#subject.task.name}: ${result.refused}`));
      return undefined;
    }
    const stored = await this.#persist(result, reply !== undefined);
    if (typeof stored === 'object') return stored.refusal;
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

  /** @param isAwaited somebody is told that it is done as soon as this returns */
  async #persist(result: StepResult, isAwaited: boolean): Promise<Stored | { readonly refusal: string }> {
    const { record } = result.state;
    // A task that waits for a full disk or a lost executor says the same again with each try.
    if (result.runChanges.length === 0 && isDeepStrictEqual(record, this.#handedOver)) return 'stored';
    const changes: Change[] = [
      ...this.#refreshedRun(),
      ...result.runChanges.flatMap((change) => this.#runChange(change)),
      { kind: 'put_task', task: record },
      ...result.events.map((event): Change => ({
        kind: 'add_task_event',
        allocId: record.allocId,
        task: record.task,
        event,
      })),
    ];
    const isIntent = result.effects.some((effect) => effect.kind === 'start');
    const commit = this.#deps.persist(record, changes, isIntent ? 'reject' : 'keep');
    if (!isIntent) this.#handedOver = record;
    if (!isIntent && !isAwaited && result.effects.every(canRunBeforeStored)) {
      // The store keeps the order; waiting here would only make the next event wait. What waits is the cleaning up.
      commit.then(
        (how) => {
          this.#releaseAll(result.effects, how);
        },
        (error: unknown) => {
          this.#logger.error({ error: describeError(error) }, 'a change can never be stored, ignoring');
          this.#releaseAll(result.effects, 'kept');
        },
      );
      return 'later';
    }
    try {
      const how = await commit;
      this.#handedOver = record;
      return how;
    } catch (error) {
      this.#logger.error({ error: describeError(error) }, 'cannot store a change of the task');
      return isIntent ? { refusal: describeError(error) } : 'kept';
    }
  }

  /** What is on record of the run in hand, when its limits were changed. */
  #refreshedRun(): Change[] {
    const [run, handle] = [this.#openRun, this.#handle];
    if (!this.#isRefChanged || run === undefined || handle?.runId !== run.runId) return [];
    this.#isRefChanged = false;
    this.#openRun = { ...run, handle: handle.ref };
    return [{ kind: 'put_run', run: this.#openRun }];
  }

  #runChange(change: StepResult['runChanges'][number]): Change[] {
    const { allocId, task } = this.#subject;
    if (change.kind === 'intend') {
      const run: RunRecord = {
        runId: change.runId,
        allocId,
        task: task.name,
        attempt: change.attempt,
        driver: task.driver,
        bootId: this.#deps.bootId,
        specHash: createHash('sha256').update(JSON.stringify(task)).digest('hex'),
        intendedAtMs: this.#deps.clock.wallMs(),
        handle: undefined,
        startedAtMs: undefined,
        outcome: undefined,
      };
      this.#openRun = run;
      return [{ kind: 'put_run', run }];
    }
    const open = this.#openRun;
    if (open?.runId !== change.runId) return [];
    const run: RunRecord =
      change.kind === 'started'
        ? { ...open, handle: change.ref, startedAtMs: change.startedAtMs }
        : {
            ...open,
            outcome: change.outcome,
            startedAtMs:
              open.startedAtMs ??
              (change.outcome.kind === 'ended' ? change.outcome.report.startedAtMs : undefined),
          };
    this.#openRun = run;
    return [{ kind: 'put_run', run }];
  }

  // ---- effects ---------------------------------------------------------------------------------------------------

  #perform(effect: Effect, stored: Stored, reply: Message['reply']): void {
    switch (effect.kind) {
      case 'run_hooks':
        if (effect.phase === 'pre_kill' || effect.phase === 'exited') this.#watchAbort?.abort();
        if (effect.phase === 'poststart') this.#watch(effect.attempt);
        void this.#runHooks(effect.phase, effect.attempt);
        return;
      case 'run_update_hooks':
        this.#runUpdateHooks(effect.attempt, effect.before);
        return;
      case 'abort_hooks':
        for (const hooks of this.#hookAborts) hooks.abort();
        this.#watchAbort?.abort();
        return;
      case 'start':
        void this.#start(effect.runId);
        return;
      case 'recover':
        void this.#recover(effect.runId);
        return;
      case 'stop':
        void this.#stop(effect.runId, effect.signal, effect.graceMs);
        return;
      case 'signal':
        void this.#signal(effect.signal, reply);
        return;
      case 'release':
        if (stored !== 'later') this.#release(effect.runId, stored);
        return;
      case 'set_timer':
        this.#setTimer(effect.id, effect.delayMs);
        return;
      case 'detach':
        this.#handle?.detach();
        return;
      case 'done':
        if (stored === 'stored' && this.#state.mode.at === 'complete') this.#payReleases();
        this.#done.resolve(undefined);
        return;
    }
  }

  #setTimer(id: number, delayMs: number): void {
    this.#timer?.timer[Symbol.dispose]();
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

  async #runHooks(phase: HookPhase, attempt: number): Promise<void> {
    const abort = new AbortController();
    if (phase !== 'stop') this.#hookAborts.add(abort);
    const answer = await this.#answerOfHooks(phase, attempt, this.#phaseContext(phase, attempt, abort));
    this.#hookAborts.delete(abort);
    this.#post(answer);
  }

  async #answerOfHooks(phase: HookPhase, attempt: number, context: PhaseContext): Promise<RunnerEvent> {
    if (phase === 'prestart') {
      const result = await this.#hooks.prestart(context);
      return result.kind === 'done'
        ? { kind: 'hooks_done', phase, attempt }
        : { ...result, kind: 'prestart_failed' };
    }
    await this.#hooks.run(phase === 'pre_kill' ? 'preKill' : phase, context);
    return { kind: 'hooks_done', phase, attempt };
  }

  /**
   * The limits of a running task follow the job file. Also after a restart of the agent, which may have died between
   * the two; then nothing is told.
   */
  #changeLimits(before: Task | undefined): void {
    const { resources } = this.#subject.task;
    if (before !== undefined && isDeepStrictEqual(before.resources, resources)) return;
    const unmet = this.#handle?.changeLimits?.(resources);
    if (unmet === undefined || before === undefined) return;
    this.#isRefChanged = true;
    const message = unmet.length === 0 ? 'Limits changed' : `Limits changed, but ${unmet.join('; ')}`;
    this.#post({ kind: 'say', event: { type: 'Driver', message } });
  }

  #runUpdateHooks(attempt: number, before: Task): void {
    this.#changeLimits(before);
    const abort = new AbortController();
    this.#hookAborts.add(abort);
    const context = this.#phaseContext('update', attempt, abort);
    this.#updates = this.#updates.then(async () => {
      if (!abort.signal.aborted) await this.#hooks.update(context, before);
      this.#hookAborts.delete(abort);
    });
  }

  #watch(attempt: number): void {
    this.#watchAbort?.abort();
    const abort = new AbortController();
    this.#watchAbort = abort;
    this.#hooks.watch({
      ...this.#phaseContext('watch', attempt, abort),
      restart: (reason) => this.restart(reason),
      sendSignal: (signal, reason) => this.signal(signal, reason),
      exec: (command, args, options) => this.exec(command, args, options),
      kill: (reason, because) => {
        this.kill({ reason, because });
      },
    });
  }

  #phaseContext(
    phase: HookPhase | 'update' | 'shutdown' | 'watch',
    attempt: number,
    abort = new AbortController(),
  ): PhaseContext {
    const { job, group, task, allocId, allocIndex, dirs, payload } = this.#subject;
    return {
      allocId,
      allocIndex,
      job,
      group,
      task,
      dirs,
      payload: typeof payload === 'string' ? Buffer.from(payload, 'base64') : payload,
      attempt,
      env: () => this.#env(),
      hostEnv: () => this.#env(dirs),
      config: () => this.#resolvedConfig(this.#env()),
      emit: (event) => {
        this.#post({ kind: 'say', event });
      },
      waitFor: (what) => {
        if (phase === 'update' || phase === 'shutdown' || phase === 'watch') return;
        this.#post({ kind: 'waiting_on', phase, attempt, what });
      },
      signal: abort.signal,
    };
  }

  async #start(runId: string): Promise<void> {
    try {
      const handle = await this.#deps.driver.start(this.#taskConfig(runId), (event) => {
        if (!this.#isSaid(event)) this.#post({ kind: 'say', event });
      });
      this.#attach(handle, 'started');
    } catch (error) {
      const text = describeError(error);
      if (error instanceof AgentError && error.code === 'executor_unreachable') {
        this.#post({ kind: 'start_uncertain', runId, error: text });
        return;
      }
      const invalid = error instanceof AgentError && error.code === 'driver_config_invalid';
      this.#post({
        kind: 'start_failed',
        runId,
        event: invalid ? { type: 'Failed Validation', error: text } : { type: 'Driver Failure', error: text },
        error: text,
        recoverable: isRecoverable(error),
      });
    }
  }

  /** A driver says the same of each start, a limit that cannot be had for example: it is told once. */
  #isSaid(event: TaskEvent): boolean {
    return (
      event.type === 'Driver' &&
      this.#state.record.recentEvents.some((said) => isDeepStrictEqual(said.event, event))
    );
  }

  #attach(handle: DriverHandle, kind: 'started' | 'recovered_running'): void {
    const { runId, startedAtMs } = handle;
    if (this.#state.mode.at === 'left') {
      handle.detach();
      return;
    }
    this.#handle = handle;
    // What was changed while it was started, or while no agent was there.
    if (kind === 'recovered_running' || this.#startedWith !== this.#subject.task.resources)
      this.#changeLimits(undefined);
    this.#releases.set(runId, () => handle.release());
    this.#post({ kind, runId, ref: handle.ref, startedAtMs });
    void handle.wait().then((report) => {
      if (this.#handle === handle) this.#handle = undefined;
      this.#post({ kind: 'exited', runId, report });
    });
  }

  async #recover(runId: string): Promise<void> {
    const emit = (event: TaskEvent): void => {
      this.#post({ kind: 'say', event });
    };
    let found: Recovered;
    try {
      const run = this.#openRun?.runId === runId ? this.#openRun : this.#deps.readRun(runId);
      this.#openRun = run;
      found =
        run === undefined
          ? { kind: 'unreachable', detail: `the record of run ${runId} is missing` }
          : await this.#deps.driver.recover(run, emit);
    } catch (error) {
      found = { kind: 'unreachable', detail: describeError(error) };
    }
    if (found.kind !== 'running' && found.kind !== 'unreachable') this.#releases.set(runId, found.release);
    switch (found.kind) {
      case 'running':
        this.#attach(found.handle, 'recovered_running');
        return;
      case 'ended':
        this.#post({ kind: 'exited', runId, report: found.report });
        return;
      case 'start_failed':
        this.#post({
          kind: 'recovered_start_failed',
          runId,
          error: found.error,
          recoverable: found.recoverable,
        });
        return;
      case 'never_started':
        this.#post({ kind: 'recovered_never_started', runId, detail: found.detail });
        return;
      case 'unreachable':
        this.#post({ kind: 'unreachable', runId, detail: found.detail });
    }
  }

  async #stop(runId: string, signal: string, graceMs: number): Promise<void> {
    try {
      await this.#handle?.stop({ signal: signalNumber(signal), graceMs });
    } catch (error) {
      this.#post({ kind: 'stop_failed', runId, error: describeError(error) });
    }
  }

  async #signal(signal: string, reply: Message['reply']): Promise<void> {
    try {
      if (this.#handle === undefined) {
        throw new AgentError(
          'not_running',
          `${this.#subject.task.name}: nothing runs that could be signalled`,
        );
      }
      await this.#handle.signal(signalNumber(signal));
      reply?.resolve();
    } catch (error) {
      reply?.reject(error);
    }
  }

  /**
   * What a run left is evidence until its end is durable; then it goes. The store keeps the order, so whatever was owed
   * before something was stored is stored as well. What is still owed when the agent ends is found by its next start.
   */
  #release(runId: string, stored: 'stored' | 'kept'): void {
    const release = this.#releases.get(runId);
    this.#releases.delete(runId);
    if (release !== undefined) this.#owedReleases.push({ runId, release });
    if (stored === 'stored') this.#payReleases();
  }

  #releaseAll(effects: readonly Effect[], stored: 'stored' | 'kept'): void {
    for (const effect of effects) if (effect.kind === 'release') this.#release(effect.runId, stored);
  }

  #payReleases(): void {
    for (const { runId, release } of this.#owedReleases.splice(0)) {
      failpoint('run.before_release');
      release().catch((error: unknown) => {
        this.#logger.warn(
          { run_id: runId, error: describeError(error) },
          'cannot clean up after a run, ignoring',
        );
      });
    }
  }

  // ---- what is run -----------------------------------------------------------------------------------------------

  #env(paths: TaskPaths = this.#deps.driver.taskPaths ?? this.#subject.dirs): TaskEnv {
    const { job, group, task, allocId, allocIndex } = this.#subject;
    return buildTaskEnv({
      job,
      group,
      task,
      allocId,
      allocIndex,
      paths,
      agentEnv: this.#deps.agentEnv,
      node: this.#deps.nodeFacts,
      hookEnv: this.#hooks.env(),
      cgroup: undefined,
      ports: this.#deps.ports(),
    });
  }

  #resolvedConfig({ interpolate }: TaskEnv): Readonly<Record<string, unknown>> {
    const { config } = this.#subject.task;
    return Object.fromEntries(
      Object.entries(config).map(([key, value]) => [key, interpolateDeep(value, interpolate)]),
    );
  }

  #taskConfig(runId: string): TaskConfig {
    const { job, group, task, allocId, dirs } = this.#subject;
    this.#startedWith = task.resources;
    const env = this.#env();
    return {
      runId,
      allocId,
      jobId: job.id,
      group: group.name,
      task: task.name,
      config: this.#resolvedConfig(env),
      env: env.env,
      user: task.user === undefined ? undefined : env.interpolate(task.user),
      resources: task.resources,
      logs: task.logs,
      leftovers: task.leftovers,
      dirs,
      mounts: this.#hooks.mounts(),
    };
  }
}

/** Effects that are harmless if the agent dies before the record is stored: they are simply done again. */
function canRunBeforeStored(effect: Effect): boolean {
  return (
    effect.kind === 'release' ||
    effect.kind === 'run_hooks' ||
    effect.kind === 'run_update_hooks' ||
    effect.kind === 'set_timer' ||
    effect.kind === 'abort_hooks' ||
    effect.kind === 'detach'
  );
}
