/**
 * Owns the driver `mock_driver`: runs nothing, and behaves as its config scripts it. For tests, and for people who try
 * a job file. A mock run lives in a MockWorld, in this process only: with that gone, nobody saw its end.
 */
import type { Clock } from '../base/clock.js';
import { sleep } from '../base/clock.js';
import { AgentError } from '../base/errors.js';
import type { ExitReport } from '../events/exit-result.js';
import type { RunRecord } from '../state/store.js';
import type { Driver, DriverFingerprint, DriverHandle, Recovered, TaskConfig } from './driver.js';
import { MockRun } from './mock-run.js';

/** The runs that are there, whatever becomes of the agent that started them. Give it to several drivers in turn. */
export class MockWorld {
  /** Runs by id, until they are released. Undefined = fenced: it can never start. */
  readonly runs = new Map<string, MockRun | undefined>();
}

export class MockDriver implements Driver {
  readonly name = 'mock_driver';
  readonly defaultKillSignal = 'SIGINT';
  readonly #clock: Clock;
  readonly #bootId: string;
  readonly #world: MockWorld;

  constructor(deps: { readonly clock: Clock; readonly bootId: string; readonly world: MockWorld }) {
    this.#clock = deps.clock;
    this.#bootId = deps.bootId;
    this.#world = deps.world;
  }

  fingerprint(): Promise<DriverFingerprint> {
    return Promise.resolve({
      health: 'healthy',
      description: 'runs nothing, for tests',
      attributes: { 'driver.mock_driver': '1' },
    });
  }

  async start(config: TaskConfig): Promise<DriverHandle> {
    // Late: what finds the tasks again after a start does not need it.
    const { parseMockConfig } = await import('../jobspec/driver-config.js');
    const script = parseMockConfig(config.config, `task ${config.task}`);
    if (script.startBlockForMs > 0) await sleep(this.#clock, script.startBlockForMs);
    if (script.startError !== undefined)
      throw new AgentError('start_failed', script.startError, { recoverable: script.startErrorRecoverable });
    if (this.#world.runs.has(config.runId))
      throw new AgentError('already_running', `run ${config.runId} was started before`);
    const run = new MockRun(this.#clock, script, config);
    this.#world.runs.set(config.runId, run);
    return this.#handle(config.runId, run);
  }

  recover(run: RunRecord): Promise<Recovered> {
    const { runs } = this.#world;
    const release = (): Promise<void> => {
      runs.delete(run.runId);
      return Promise.resolve();
    };
    const found = runs.get(run.runId);
    if (found?.report !== undefined) return Promise.resolve({ kind: 'ended', report: found.report, release });
    if (found !== undefined)
      return Promise.resolve({ kind: 'running', handle: this.#handle(run.runId, found) });
    if (run.handle !== undefined || run.bootId !== this.#bootId)
      return Promise.resolve({ kind: 'ended', report: this.#unseenEnd(run), release });
    runs.set(run.runId, undefined);
    return Promise.resolve({ kind: 'never_started', detail: 'no such mock run was started', release });
  }

  #handle(runId: string, run: MockRun): DriverHandle {
    let detached = false;
    const ended = new Promise<ExitReport>((resolve) => {
      void run.ended.then((report) => {
        if (!detached) resolve(report);
      });
    });
    return {
      runId,
      ref: { executor: undefined, workload: undefined, driverState: {} },
      startedAtMs: run.startedAtMs,
      wait: () => ended,
      signal: () => run.signal(),
      stop: (how) => run.stop(how),
      usage: () => Promise.resolve(undefined),
      release: () => {
        if (run.report === undefined)
          return Promise.reject(new AgentError('internal', `run ${runId} was to be released while it runs`));
        this.#world.runs.delete(runId);
        return Promise.resolve();
      },
      detach: () => {
        detached = true;
      },
    };
  }

  #unseenEnd(run: RunRecord): ExitReport {
    const rebooted = run.bootId !== this.#bootId;
    return {
      result: {
        kind: 'unknown',
        reason: rebooted ? 'host_rebooted' : 'executor_lost',
        detail: rebooted
          ? 'the host was restarted while the task was running'
          : 'a mock task lives in the agent that started it',
      },
      startedAtMs: run.startedAtMs,
      endedAtMs: this.#clock.wallMs(),
      ranForMs: undefined,
      usage: undefined,
      logComplete: false,
      leftoversKilled: 0,
    };
  }
}
