/**
 * Owns the contract between the task runner and whatever runs workloads. A driver decides nothing about restarts and
 * writes nothing to the store: facts come back as values.
 */
import type { TaskEvent } from '../events/task-event.js';
import type { ExitReport } from '../events/exit-result.js';
import type { LogConfig, Resources } from '../jobspec/types.js';
import type { RunHandle, RunRecord } from '../state/store.js';
import type { TaskUsage } from '../stats/usage.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { ExecOptions, ExecResult } from './sessions.js';

/** Everything needed to start one run; values are interpolated, paths absolute. */
export interface TaskConfig {
  readonly runId: string;
  readonly allocId: string;
  readonly jobId: string;
  readonly group: string;
  readonly task: string;
  /** The job file's `config` block, interpolated; each driver checks it by its schema in jobspec/driver-config.ts. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string | undefined;
  readonly resources: Resources;
  readonly logs: LogConfig;
  readonly leftovers: 'kill' | 'keep';
  readonly leftoversTimeoutMs?: number | undefined;
  readonly dirs: TaskDirs;
  /** What hooks want the task to see besides its own directories, in order; for drivers with a root of their own. */
  readonly mounts?: readonly TaskMount[];
}

/** One file or directory of the host that a task sees. */
export interface TaskMount {
  /** Absolute, on the host. */
  readonly source: string;
  /** Absolute, as the task sees it. */
  readonly target: string;
  readonly readOnly: boolean;
}

/** Directories of one task; all exist when the driver starts it. */
export interface TaskDirs {
  /** `<data>/alloc/<id>/alloc`, shared by the tasks of the alloc. */
  readonly allocDir: string;
  /** `<data>/alloc/<id>/<task>`: the working directory. */
  readonly taskDir: string;
  readonly localDir: string;
  readonly secretsDir: string;
  /** `<allocDir>/logs`. */
  readonly logDir: string;
}

/** A task's own directories, as it sees them. */
export interface TaskPaths {
  readonly allocDir: string;
  readonly localDir: string;
  readonly secretsDir: string;
}

/** Tells the task runner of something worth an event while a run goes on. Must not throw. */
export type EmitTaskEvent = (event: TaskEvent) => void;

/** One started workload. Methods may be called at any time, also after the end. */
export interface DriverHandle {
  readonly runId: string;
  /** What to store so that `recover` finds the workload again. */
  readonly ref: RunHandle;
  readonly startedAtMs: number;
  /**
   * Resolves when the workload has ended, perhaps before its report is durable: whoever asks makes it durable before
   * anything follows from it. Never rejects; every call gives the same.
   */
  wait(): Promise<ExitReport>;
  /**
   * Delivers one signal to the leader.
   * @throws AgentError not_running when it has ended
   */
  signal(signal: number): Promise<void>;
  /**
   * Asks for the end: `signal` to the leader, SIGKILL to the whole tree after `graceMs`. Asking again can only shorten
   * the deadline. Resolves when nothing of the tree is left; then `wait` resolves as well. Ended already = resolves.
   * @throws AgentError kill_failed (recoverable) when something is still there well after the deadline
   */
  stop(how: { readonly signal: number; readonly graceMs: number }): Promise<void>;
  /** What the whole tree uses now; undefined once it has ended or when nothing can be measured. */
  usage(): Promise<TaskUsage | undefined>;
  /**
   * Runs one command in the task to its end, without input. Absent: this driver cannot.
   * @throws AgentError timeout, cancelled, not_running, start_failed
   */
  exec?(command: string, args: readonly string[], options: ExecOptions): Promise<ExecResult>;
  /** Begins a session in the task. Absent: this driver cannot. @throws AgentError not_running, executor_failed */
  openSession?(request: SessionRequest): Promise<Session>;
  /**
   * Changes the limits of the running workload and looks at what the kernel made of them; absent = this driver has
   * none. The same again is allowed.
   * @returns what is not in force now and why, for people; a workload without limits at all gives one such line
   */
  changeLimits?(resources: Resources): readonly string[];
  /** Frees what the run holds on this host (run dir, cgroup). Only after its end is stored. Twice is allowed. */
  release(): Promise<void>;
  /** Lets go without touching the workload: the agent is leaving. */
  detach(): void;
}

/** What `recover` found out about a run whose end is not stored. */
export type Recovered =
  | { readonly kind: 'running'; readonly handle: DriverHandle }
  /** It ended; `release` frees what it left. An end that nobody saw has an `unknown` result. */
  | { readonly kind: 'ended'; readonly report: ExitReport; readonly release: () => Promise<void> }
  /** It never began to run. `recoverable` as `start` would have said it. */
  | {
      readonly kind: 'start_failed';
      readonly error: string;
      readonly recoverable: boolean;
      readonly release: () => Promise<void>;
    }
  /** The intent was never acted upon, and now it cannot be any more. */
  | { readonly kind: 'never_started'; readonly detail: string; readonly release: () => Promise<void> }
  /** It may be running but cannot be spoken to: try again later, never start another one. */
  | { readonly kind: 'unreachable'; readonly detail: string };

/** Whether a driver can be used on this host, for people. */
export interface DriverFingerprint {
  readonly health: 'healthy' | 'unhealthy' | 'undetected';
  readonly description: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** A run that is set up and has not been started. One of the two is called, once. */
export interface PreparedStart {
  /** As `Driver.start`. */
  start(emit: EmitTaskEvent): Promise<DriverHandle>;
  /** The intent was refused: removes what is there, as far as it can. */
  giveUp(): Promise<void>;
}

export interface Driver {
  readonly name: string;
  /** The signal used when a task names none. */
  readonly defaultKillSignal: string;
  /** Where a task sees its directories when it has a root of its own; absent = where they are on the host. */
  readonly taskPaths?: TaskPaths;
  fingerprint(): Promise<DriverFingerprint>;
  /**
   * Starts one run. The intent is durable before this is called. On failure nothing is left behind.
   * @throws AgentError start_failed, driver_config_invalid, executor_failed; `recoverable` decides about a retry
   */
  start(config: TaskConfig, emit: EmitTaskEvent): Promise<DriverHandle>;
  /**
   * Sets one run up while its intent is being stored; absent = there is nothing to gain. When the agent dies before
   * `start`, nothing of the task has run, and `recover` calls it never started, if it is ever asked.
   * @throws AgentError as `start`
   */
  prepare?(config: TaskConfig): Promise<PreparedStart>;
  /**
   * Finds out what became of a run, after a restart of the agent. Idempotent, may be called again after
   * `unreachable`. Never starts a second copy and never signals a process it has not identified.
   */
  recover(run: RunRecord, emit: EmitTaskEvent): Promise<Recovered>;
}
