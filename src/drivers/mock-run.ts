/** Owns one scripted run of `mock_driver`: its timers, its output, its end. */
import { appendFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Clock, Timer } from '../base/clock.js';
import { Deferred } from '../base/deferred.js';
import { AgentError } from '../base/errors.js';
import type { ExitReport, ExitResult } from '../events/exit-result.js';
import type { MockConfig, MockOutput } from '../jobspec/driver-config.js';
import type { TaskConfig } from './driver.js';

/** Runs from its construction on. */
export class MockRun {
  readonly startedAtMs: number;
  readonly #clock: Clock;
  readonly #script: MockConfig;
  readonly #config: TaskConfig;
  readonly #startedMonoMs: number;
  readonly #ended = new Deferred<ExitReport>();
  readonly #timers = new Set<Timer>();
  #report: ExitReport | undefined;

  constructor(clock: Clock, script: MockConfig, config: TaskConfig) {
    this.#clock = clock;
    this.#script = script;
    this.#config = config;
    this.startedAtMs = clock.wallMs();
    this.#startedMonoMs = clock.monoMs();
    this.#print('stdout', script.stdout);
    this.#print('stderr', script.stderr);
    this.#after(script.runForMs, () => {
      this.#end(this.#scriptedResult());
    });
  }

  /** How it ended; undefined while it runs. */
  get report(): ExitReport | undefined {
    return this.#report;
  }

  get ended(): Promise<ExitReport> {
    return this.#ended.promise;
  }

  /** It lives through every signal. @throws AgentError not_running, or the scripted failure */
  signal(): Promise<void> {
    if (this.#report !== undefined)
      return Promise.reject(new AgentError('not_running', 'the task has ended'));
    const { signalError } = this.#script;
    if (signalError !== undefined) return Promise.reject(new AgentError('executor_failed', signalError));
    return Promise.resolve();
  }

  /** Ends by `signal` after the scripted time, or by SIGKILL when the grace is shorter. */
  async stop(how: { readonly signal: number; readonly graceMs: number }): Promise<void> {
    if (this.#report !== undefined) return;
    const polite = how.signal !== 0 && this.#script.killAfterMs <= how.graceMs;
    const signal = polite ? how.signal : constants.signals.SIGKILL;
    const delayMs = polite ? this.#script.killAfterMs : how.graceMs;
    // Several stops: whichever comes due first ends it, so that a later one can only bring the end forward.
    this.#after(delayMs, () => {
      this.#end({ kind: 'signaled', signal, coreDumped: false, oomKilled: false });
    });
    await this.ended;
  }

  #scriptedResult(): ExitResult {
    const { exitErrMsg, exitSignal, exitCode } = this.#script;
    if (exitErrMsg !== undefined) return { kind: 'unknown', reason: 'driver_error', detail: exitErrMsg };
    if (exitSignal !== undefined)
      return { kind: 'signaled', signal: exitSignal, coreDumped: false, oomKilled: false };
    return { kind: 'exited', code: exitCode, oomKilled: false };
  }

  #print(stream: 'stdout' | 'stderr', output: MockOutput): void {
    if (output.text === '' || this.#config.logs.disabled) return;
    const file = join(this.#config.dirs.logDir, `${this.#config.task}.${stream}.0`);
    const write = (timesLeft: number): void => {
      try {
        appendFileSync(file, output.text);
      } catch {
        // As an executor does: output that cannot be written must not end the task.
      }
      if (timesLeft > 0) {
        this.#after(output.everyMs, () => {
          write(timesLeft - 1);
        });
      }
    };
    write(output.repeat);
  }

  #after(delayMs: number, act: () => void): void {
    const timer = this.#clock.setTimer(delayMs, () => {
      this.#timers.delete(timer);
      act();
    });
    this.#timers.add(timer);
  }

  #end(result: ExitResult): void {
    this.#report = {
      result,
      startedAtMs: this.startedAtMs,
      endedAtMs: this.#clock.wallMs(),
      ranForMs: this.#clock.monoMs() - this.#startedMonoMs,
      usage: undefined,
      logComplete: true,
      leftoversKilled: 0,
    };
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#ended.resolve(this.#report);
  }
}
