/**
 * A world of workloads in memory that outlives the agents of a test, and the driver through which one agent sees it.
 * Where an executor would enforce something without the agent (a stop's deadline, the record of an end), the world does.
 * It keeps a list of everything that must never happen; a test asserts that the list is empty.
 */
import type { Clock } from '../../src/base/clock.js';
import { Deferred } from '../../src/base/deferred.js';
import { AgentError } from '../../src/base/errors.js';
import type { Driver, DriverHandle, PreparedStart, Recovered, TaskConfig } from '../../src/drivers/driver.js';
import type { ExitReport, ExitResult } from '../../src/events/exit-result.js';
import type { RunHandle, RunRecord } from '../../src/state/store.js';

export const EXIT_0: ExitResult = { kind: 'exited', code: 0, oomKilled: false };
export const EXIT_1: ExitResult = { kind: 'exited', code: 1, oomKilled: false };
const SIGKILL = 9;

export function signaled(signal: number): ExitResult {
  return { kind: 'signaled', signal, coreDumped: false, oomKilled: false };
}

/** What the next start does; when nothing is scripted it works. */
export type StartScript =
  /** Nothing is started. */
  | { readonly kind: 'fails'; readonly recoverable: boolean; readonly invalid?: boolean }
  /** It starts (or not), but the driver cannot tell. */
  | { readonly kind: 'uncertain'; readonly started: boolean };

/** One run that was really started. */
export interface Workload {
  readonly runId: string;
  readonly allocId: string;
  readonly task: string;
  readonly bootId: string;
  readonly pid: number;
  readonly startedAtMs: number;
  readonly env: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, unknown>>;
  /** Undefined while it lives. */
  report: ExitReport | undefined;
  readonly signals: number[];
}

/** One agent's life: nothing that it asks for happens, and nothing is answered to it, once it is dead. */
export interface Life {
  dead: boolean;
}

export class World {
  readonly #clock: Clock;
  readonly #runs = new Map<string, Workload>();
  readonly #released = new Set<string>();
  readonly #ended = new Map<string, Deferred<undefined>>();
  /** Everything that must never happen, as it happened. */
  readonly violations: string[] = [];
  /** Of the workloads that were ever started, as the driver was told. */
  readonly configs: TaskConfig[] = [];
  /** How many workloads were ever started. */
  spawned = 0;
  bootId = 'boot-1';
  /** For the next starts, first one first. */
  readonly starts: StartScript[] = [];
  /** What a start does for which nothing is scripted; undefined = it works. */
  startOf: (config: TaskConfig) => StartScript | undefined = () => undefined;
  /** Time between the driver being asked and the workload living; and again until the driver answers. */
  startMs = 0;
  /** False: executors cannot be spoken to by `recover`. */
  reachable = true;
  /** How long a workload takes to obey a stop; beyond the grace it is killed. */
  obeysAfterMs = 0;
  /** That many stops from now on fail at once and do nothing. */
  stopsThatFail = 0;
  /** Why what a run left must not go yet, asked when it is released; undefined = it may. */
  mayRelease: (runId: string) => string | undefined = () => undefined;
  /** Why a run must not be started, asked when the driver is told to; undefined = it may. */
  mayStart: (config: TaskConfig) => string | undefined = () => undefined;
  /** Why a run must not be given up, asked when the driver is told to; undefined = it may. */
  mayGiveUp: (config: TaskConfig) => string | undefined = () => undefined;
  /** What a set-up throws that comes before the intent is stored; undefined = it works. */
  prepareFault: (config: TaskConfig) => AgentError | undefined = () => undefined;
  /** Runs that were given up before their start, in that order. */
  readonly givenUp: string[] = [];
  readonly #prepared = new Map<string, Life>();
  /** Called after each thing that an agent asked for was done, before it is answered. */
  onActed: () => void = () => undefined;
  /** Two of these at the same time must never live. */
  placeOf: (config: TaskConfig) => string = ({ allocId, task }) => `${allocId}/${task}`;
  readonly #places = new Map<string, string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  live(): readonly Workload[] {
    return [...this.#runs.values()].filter((run) => run.report === undefined);
  }

  /** Runs that left something on this host. */
  remains(): readonly Workload[] {
    return [...this.#runs.values()];
  }

  /** Runs that wait for the word of an agent that lives: those of a dead one have left. */
  prepared(): readonly string[] {
    return [...this.#prepared].filter(([, life]) => !life.dead).map(([runId]) => runId);
  }

  /** The workload ends by itself. */
  exit(run: Workload, result: ExitResult): void {
    if (run.report !== undefined) return;
    run.report = this.#report(run, result);
    this.#endOf(run.runId).resolve(undefined);
  }

  /** Power goes: whatever lived is gone and nobody saw its end. What is on disk stays. */
  reboot(): void {
    const before = this.live();
    this.bootId = `boot-${Number(this.bootId.slice('boot-'.length)) + 1}`;
    for (const run of before) {
      run.report = this.#report(run, {
        kind: 'unknown',
        reason: 'host_rebooted',
        detail: 'the host was rebooted',
      });
    }
  }

  /** The driver as one agent sees it. */
  driver(life: Life): Driver {
    return {
      name: 'scripted',
      defaultKillSignal: 'SIGINT',
      fingerprint: () => Promise.resolve({ health: 'healthy', description: '', attributes: {} }),
      start: (config) => this.#start(life, config),
      prepare: (config) => this.#prepare(life, config),
      recover: (run) => this.#answer(life, () => this.#recover(life, run)),
    };
  }

  /** No act that is counted: the store is asked at the same time, and that is one. */
  #prepare(life: Life, config: TaskConfig): Promise<PreparedStart> {
    const { runId } = config;
    if (life.dead) return new Promise(() => undefined);
    const fault = this.prepareFault(config);
    if (fault !== undefined) return Promise.reject(fault);
    if (this.#prepared.has(runId) || this.#runs.has(runId) || this.#released.has(runId))
      this.violations.push(`run ${runId} prepared twice`);
    this.#prepared.set(runId, life);
    return Promise.resolve({
      start: () => {
        this.#decide(runId);
        return this.#start(life, config);
      },
      giveUp: () => {
        if (life.dead) return new Promise(() => undefined);
        this.#decide(runId);
        const why = this.mayGiveUp(config);
        if (why !== undefined) this.violations.push(`run ${runId} is given up: ${why}`);
        this.givenUp.push(runId);
        return Promise.resolve();
      },
    });
  }

  #decide(runId: string): void {
    if (!this.#prepared.delete(runId)) this.violations.push(`run ${runId} is started or given up again`);
  }

  async #start(life: Life, config: TaskConfig): Promise<DriverHandle> {
    const why = life.dead ? undefined : this.mayStart(config);
    if (why !== undefined) this.violations.push(`run ${config.runId} is started: ${why}`);
    await this.#pass(life, this.startMs);
    const script = this.starts.shift() ?? this.startOf(config);
    if (script?.kind === 'fails') {
      return this.#answer(life, () => {
        const code = script.invalid === true ? 'driver_config_invalid' : 'start_failed';
        throw new AgentError(code, 'scripted start error', { recoverable: script.recoverable });
      });
    }
    if (script?.kind === 'uncertain') {
      if (script.started) this.#spawn(config);
      return this.#answer(life, () => {
        throw new AgentError('executor_unreachable', 'no answer from the executor', { recoverable: true });
      });
    }
    const run = this.#spawn(config);
    await this.#pass(life, this.startMs);
    return this.#answer(life, () => this.#handle(life, run));
  }

  #spawn(config: TaskConfig): Workload {
    const { runId, allocId, task, env } = config;
    if (this.#runs.has(runId) || this.#released.has(runId))
      this.violations.push(`run ${runId} started twice`);
    const place = this.placeOf(config);
    for (const other of this.live()) {
      if (this.#places.get(other.runId) !== place) continue;
      this.violations.push(`run ${runId} started in ${place} while ${other.runId} lives there`);
    }
    this.#places.set(runId, place);
    this.spawned += 1;
    this.configs.push(config);
    const run: Workload = {
      runId,
      allocId,
      task,
      bootId: this.bootId,
      pid: 1000 + this.spawned,
      startedAtMs: this.#clock.wallMs(),
      env,
      config: config.config,
      report: undefined,
      signals: [],
    };
    this.#runs.set(runId, run);
    return run;
  }

  #recover(life: Life, record: RunRecord): Recovered {
    const { runId } = record;
    if (this.#released.has(runId)) this.violations.push(`run ${runId} is recovered after its release`);
    if (!this.reachable) return { kind: 'unreachable', detail: 'no answer from the executor' };
    const run = this.#runs.get(runId);
    const release = (): Promise<void> => this.#release(life, runId);
    if (run === undefined) return { kind: 'never_started', detail: 'no trace of it', release };
    if (run.report !== undefined) return { kind: 'ended', report: run.report, release };
    return { kind: 'running', handle: this.#handle(life, run) };
  }

  #handle(life: Life, run: Workload): DriverHandle {
    const ref: RunHandle = {
      executor: { pid: run.pid + 100_000, startTicks: 1 },
      workload: { pid: run.pid, startTicks: 1 },
      driverState: {},
    };
    const end = this.#endOf(run.runId).promise.then(() => run.report ?? this.#report(run, EXIT_0));
    return {
      runId: run.runId,
      ref,
      startedAtMs: run.startedAtMs,
      wait: () => end.then((report) => this.#answer(life, () => report)),
      signal: (signal) =>
        this.#answer(life, () => {
          if (run.report !== undefined) throw new AgentError('not_running', 'it has ended');
          run.signals.push(signal);
        }),
      stop: (how) => this.#stop(life, run, how),
      usage: () => Promise.resolve(undefined),
      release: () => this.#release(life, run.runId),
      detach: () => undefined,
    };
  }

  async #stop(life: Life, run: Workload, how: { signal: number; graceMs: number }): Promise<void> {
    if (life.dead) return new Promise(() => undefined);
    if (this.stopsThatFail > 0 && run.report === undefined) {
      this.stopsThatFail -= 1;
      return this.#answer(life, () => {
        throw new AgentError('kill_failed', 'something is still there', { recoverable: true });
      });
    }
    run.signals.push(how.signal);
    const obeys = this.obeysAfterMs < how.graceMs;
    const bootId = this.bootId;
    this.#clock.setTimer(Math.min(this.obeysAfterMs, how.graceMs), () => {
      if (this.bootId === bootId) this.exit(run, signaled(obeys ? how.signal : SIGKILL));
    });
    await this.#endOf(run.runId).promise;
    return this.#answer(life, () => undefined);
  }

  #release(life: Life, runId: string): Promise<void> {
    return this.#answer(life, () => {
      const why = this.mayRelease(runId);
      if (why !== undefined) this.violations.push(`run ${runId} is released too early: ${why}`);
      if (this.#runs.get(runId)?.report === undefined && this.#runs.has(runId)) {
        this.violations.push(`run ${runId} is released while it lives`);
      }
      this.#released.add(runId);
      this.#runs.delete(runId);
    });
  }

  /** Does `act` for a living agent, and answers if it lives through it. */
  #answer<T>(life: Life, act: () => T): Promise<T> {
    if (life.dead) return new Promise(() => undefined);
    try {
      const value = act();
      this.onActed();
      return isDead(life) ? new Promise(() => undefined) : Promise.resolve(value);
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Time that passes while an agent is at work; for a dead one it never ends. */
  async #pass(life: Life, ms: number): Promise<void> {
    if (ms > 0) {
      await new Promise<void>((resolve) => {
        this.#clock.setTimer(ms, resolve);
      });
    }
    this.onActed();
    if (life.dead) await new Promise(() => undefined);
  }

  #endOf(runId: string): Deferred<undefined> {
    let ended = this.#ended.get(runId);
    if (ended === undefined) {
      ended = new Deferred<undefined>();
      this.#ended.set(runId, ended);
    }
    return ended;
  }

  #report(run: Workload, result: ExitResult): ExitReport {
    const endedAtMs = this.#clock.wallMs();
    return {
      result,
      startedAtMs: run.startedAtMs,
      endedAtMs,
      ranForMs: endedAtMs - run.startedAtMs,
      usage: undefined,
      logComplete: true,
      leftoversKilled: 0,
    };
  }
}

/** A call, because the compiler does not know that an agent may be killed while it acts. */
function isDead(life: Life): boolean {
  return life.dead;
}
