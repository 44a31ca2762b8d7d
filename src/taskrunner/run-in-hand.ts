/**
 * Owns the hold on the run in hand: asks the driver to start it or to find it again, and whoever holds it to stop,
 * signal, limit, measure and join it. What comes of that is posted as an event. Decides nothing.
 */
import { isDeepStrictEqual } from 'node:util';
import { AgentError, describeError, isRecoverable } from '../base/errors.js';
import { signalNumber } from '../base/signals.js';
import type { Driver, DriverHandle, PreparedStart, Recovered, TaskConfig } from '../drivers/driver.js';
import type { ExecOptions, ExecResult } from '../drivers/sessions.js';
import type { TaskEvent } from '../events/task-event.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { Task } from '../jobspec/types.js';
import type { RunHandle, RunRecord } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { RunnerEvent, RunnerState } from './machine.js';
import type { Releases } from './releases.js';
import type { TaskSpec } from './task-spec.js';

export interface RunInHandDeps {
  readonly driver: Driver;
  readonly spec: TaskSpec;
  readonly releases: Releases;
  readonly state: () => RunnerState;
  readonly readRun: (runId: string) => RunRecord | undefined;
  readonly post: (event: RunnerEvent) => void;
}

export class RunInHand {
  readonly #deps: RunInHandDeps;
  #prepared: Promise<PreparedStart> | undefined;
  #handle: DriverHandle | undefined;
  /** The limits that the latest start was given. */
  #startedWith: Task['resources'] | undefined;
  /** What the handle is to be found by has changed since it was stored. */
  #isRefChanged = false;

  constructor(deps: RunInHandDeps) {
    this.#deps = deps;
  }

  /**
   * Sets up a run while its intent is being stored; nothing of the task runs before `start`. One of `start` and `giveUp`
   * follows; what went wrong is told by that. Nothing for a task whose run before may hold what only one can have.
   */
  prepare(runId: string): void {
    const { driver } = this.#deps;
    const prepare = this.#isExclusive() ? undefined : driver.prepare?.bind(driver);
    this.#prepared = prepare === undefined ? undefined : this.#setUp(prepare, runId);
    this.#prepared?.catch(() => undefined);
  }

  /** The intent was refused. */
  async giveUp(): Promise<void> {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    // What could not be set up, or is not let go of now, holds nothing that the next sweep does not find.
    await (await prepared?.catch(() => undefined))?.giveUp().catch(() => undefined);
  }

  /** Starts a run whose intent is durable. */
  async start(runId: string): Promise<void> {
    const { post } = this.#deps;
    const prepared = this.#prepared;
    this.#prepared = undefined;
    try {
      const emit = (event: TaskEvent): void => {
        if (!this.#isSaid(event)) post({ kind: 'say', event });
      };
      if (this.#isExclusive()) await this.#deps.releases.settled();
      const handle = await (prepared === undefined
        ? this.#deps.driver.start(this.#configOf(runId), emit)
        : (await prepared).start(emit));
      this.#attach(handle, 'started');
    } catch (error) {
      const text = describeError(error);
      if (error instanceof AgentError && error.code === 'executor_unreachable') {
        post({ kind: 'start_uncertain', runId, error: text });
        return;
      }
      const invalid = error instanceof AgentError && error.code === 'driver_config_invalid';
      post({
        kind: 'start_failed',
        runId,
        event: invalid ? { type: 'Failed Validation', error: text } : { type: 'Driver Failure', error: text },
        error: text,
        recoverable: isRecoverable(error),
      });
    }
  }

  /** Finds out what became of a run of which this agent, or the one before, lost sight. */
  async recover(runId: string): Promise<void> {
    const { post, releases } = this.#deps;
    const found = await this.#find(runId);
    if (found.kind !== 'running' && found.kind !== 'unreachable') releases.know(runId, found.release);
    switch (found.kind) {
      case 'running':
        this.#attach(found.handle, 'recovered_running');
        return;
      case 'ended':
        post({ kind: 'exited', runId, report: found.report });
        return;
      case 'start_failed':
        post({
          kind: 'recovered_start_failed',
          runId,
          error: found.error,
          recoverable: found.recoverable,
        });
        return;
      case 'never_started':
        post({ kind: 'recovered_never_started', runId, detail: found.detail });
        return;
      case 'unreachable':
        post({ kind: 'unreachable', runId, detail: found.detail });
    }
  }

  /** Asks the run to end; a failure is posted. */
  async stop(runId: string, signal: string, graceMs: number): Promise<void> {
    try {
      await this.#handle?.stop({ signal: signalNumber(signal), graceMs });
    } catch (error) {
      this.#deps.post({ kind: 'stop_failed', runId, error: describeError(error) });
    }
  }

  /** @throws AgentError not_running, or what the driver says */
  async signal(signal: string): Promise<void> {
    if (this.#handle === undefined) throw this.#notRunning('nothing runs that could be signalled');
    await this.#handle.signal(signalNumber(signal));
  }

  /** Lets go of the run without touching it. */
  detach(): void {
    this.#handle?.detach();
  }

  /** Gives the run the limits that its task has now. @param before the task as it was */
  changeLimits(before: Task): void {
    const { resources } = this.#deps.spec.task;
    if (isDeepStrictEqual(before.resources, resources)) return;
    const unmet = this.#limit();
    if (unmet === undefined) return;
    this.#isRefChanged = true;
    const message = unmet.length === 0 ? 'Limits changed' : `Limits changed, but ${unmet.join('; ')}`;
    this.#deps.post({ kind: 'say', event: { type: 'Driver', message } });
  }

  /** What the run is to be found by now, if that has changed since this was last asked. */
  takeChangedRef(runId: string): RunHandle | undefined {
    if (!this.#isRefChanged || this.#handle?.runId !== runId) return undefined;
    this.#isRefChanged = false;
    return this.#handle.ref;
  }

  /** Runs a command in the workload, to its end. @throws AgentError not_running, bad_request, timeout, cancelled, … */
  async exec(command: string, args: readonly string[], options: ExecOptions): Promise<ExecResult> {
    const handle = this.#handle;
    const { name, driver } = this.#deps.spec.task;
    if (handle === undefined) throw new AgentError('not_running', `${name} does not run`);
    if (handle.exec === undefined) {
      throw new AgentError('bad_request', `driver ${driver} cannot run a command in its tasks`);
    }
    return handle.exec(command, args, options);
  }

  /**
   * Begins a session in the workload.
   * @param announce tells of it, and stores that, before anything is run
   * @throws AgentError not_running, bad_request, too_many, executor_failed
   */
  async openSession(request: SessionRequest, announce: () => Promise<void>): Promise<Session> {
    const handle = this.#handle;
    const { name, driver } = this.#deps.spec.task;
    if (handle === undefined) throw this.#notRunning('nothing runs that could be joined');
    if (handle.openSession === undefined) {
      throw new AgentError('bad_request', `${name}: the driver ${driver} cannot run commands in a task`);
    }
    await announce();
    return handle.openSession(request);
  }

  /** What the workload uses; undefined when none runs or nothing can be measured. */
  usage(): Promise<TaskUsage | undefined> {
    return this.#handle?.usage() ?? Promise.resolve(undefined);
  }

  /**
   * A driver says the same of each start, a limit that cannot be had for example: it is not told
   * again while it stands among the recent events.
   */
  #isSaid(event: TaskEvent): boolean {
    return (
      event.type === 'Driver' &&
      this.#deps.state().record.recentEvents.some((said) => isDeepStrictEqual(said.event, event))
    );
  }

  /** Async, so that what it throws is told by `start`. */
  async #setUp(prepare: NonNullable<Driver['prepare']>, runId: string): Promise<PreparedStart> {
    return prepare(this.#configOf(runId));
  }

  /** Cores are free when the cgroup of the run before is gone, which is after its end is stored. */
  #isExclusive(): boolean {
    return (this.#deps.spec.task.resources.cores ?? 0) > 0;
  }

  #configOf(runId: string): TaskConfig {
    const { spec } = this.#deps;
    this.#startedWith = spec.task.resources;
    return spec.forRun(runId);
  }

  async #find(runId: string): Promise<Recovered> {
    const { driver, post, readRun } = this.#deps;
    try {
      const run = readRun(runId);
      if (run === undefined) return { kind: 'unreachable', detail: `the record of run ${runId} is missing` };
      return await driver.recover(run, (event) => {
        post({ kind: 'say', event });
      });
    } catch (error) {
      return { kind: 'unreachable', detail: describeError(error) };
    }
  }

  #attach(handle: DriverHandle, kind: 'started' | 'recovered_running'): void {
    const { post, releases, spec, state } = this.#deps;
    const { runId, startedAtMs } = handle;
    if (state().mode.at === 'left') {
      handle.detach();
      return;
    }
    this.#handle = handle;
    // What was changed while it was started, or while no agent was there: nothing is told of it.
    if (kind === 'recovered_running' || this.#startedWith !== spec.task.resources) this.#limit();
    releases.know(runId, () => handle.release());
    post({ kind, runId, ref: handle.ref, startedAtMs });
    void handle.wait().then((report) => {
      if (this.#handle === handle) this.#handle = undefined;
      post({ kind: 'exited', runId, report });
    });
  }

  /** @returns what cannot be had; undefined when nothing runs, or its limits cannot be changed */
  #limit(): readonly string[] | undefined {
    return this.#handle?.changeLimits?.(this.#deps.spec.task.resources);
  }

  #notRunning(why: string): AgentError {
    return new AgentError('not_running', `${this.#deps.spec.task.name}: ${why}`);
  }
}
