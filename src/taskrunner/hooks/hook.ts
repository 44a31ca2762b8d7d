/**
 * Owns the contract of task hooks. A hook implements any subset of the phases.
 *
 * prestart runs in order before each attempt; the first failure ends the attempt and counts as a start error.
 * poststart, preKill, exited and update run in order; a failure is an event and nothing else. stop runs once, in reverse
 * order, when the alloc ends, also for a task that never started: it must be idempotent. All but poststart and update
 * are awaited: a workload that ends does not wait for those. watch is no phase but a companion of the workload.
 *
 * Each call is bounded (HOOK_DEADLINES_MS, or the hook's own): beyond that it is cancelled and nobody waits for it any
 * longer. Kill cancels prestart, the agent's leaving all but stop; a cancelled prestart hook has not failed.
 */
import type { Clock } from '../../base/clock.js';
import { AgentError } from '../../base/errors.js';
import type { Logger } from '../../base/log.js';
import type { TaskDirs, TaskMount } from '../../drivers/driver.js';
import type { ExecOptions, ExecResult } from '../../drivers/sessions.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { Job, Task, TaskGroup } from '../../jobspec/types.js';
import type { TaskEnv } from '../task-env.js';

/** Phases that are called and end. */
export type BoundedPhase = 'prestart' | 'poststart' | 'preKill' | 'exited' | 'update' | 'stop' | 'shutdown';

/**
 * How long one call of one hook may take; a hook that has more to do says so (`deadlinesMs`). A prestart hook that takes
 * longer may be waiting for something that comes back; the others stand between a task and its end, where the least
 * harm is to go on without them.
 */
export const HOOK_DEADLINES_MS: Readonly<Record<BoundedPhase, number>> = {
  prestart: 60_000,
  poststart: 60_000,
  preKill: 10_000,
  exited: 10_000,
  update: 30_000,
  stop: 30_000,
  shutdown: 2_000,
};

export interface HookContext {
  readonly allocId: string;
  readonly allocIndex: number;
  readonly job: Job;
  readonly group: TaskGroup;
  readonly task: Task;
  readonly dirs: TaskDirs;
  /** What the job was dispatched with, as bytes; undefined when it was not. */
  readonly payload: Uint8Array | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Attempts to start the task that were made before this call. */
  readonly attempt: number;
  /** The task's environment as it stands, with what the hooks before this one gave. */
  readonly env: () => TaskEnv;
  /** The same with the host's paths in place of the task's: for what the agent itself opens. */
  readonly hostEnv: () => TaskEnv;
  /** The driver's config with `${…}` resolved by the environment as it stands before this attempt's hooks. */
  readonly config: () => Readonly<Record<string, unknown>>;
  /** What this hook answered last time, if it did. */
  readonly data: Readonly<Record<string, string>>;
  /** Keeps `data` for the hook's next call, durably, also when this one fails. */
  readonly save: (data: Readonly<Record<string, string>>) => Promise<void>;
  /** Says an event of the task. Does nothing once the call is over. */
  readonly emit: (event: TaskEvent) => void;
  /** Says what the hook waits for, in a few words: `status` shows it. */
  readonly waitFor: (what: string) => void;
  /** Aborted by the deadline, by kill and by the agent's leaving; for stop hooks by the deadline alone. */
  readonly signal: AbortSignal;
}

/** What a hook can do to its task while it watches beside it. */
export interface WatchContext extends HookContext {
  /** Ends the run in hand and starts a new one, outside the policy. @throws AgentError not_running */
  readonly restart: (reason: string) => Promise<void>;
  /** @throws AgentError not_running, signal_unknown */
  readonly sendSignal: (signal: string, reason: string) => Promise<void>;
  /** Runs a command in the run in hand, to its end. @throws AgentError not_running, timeout, cancelled, start_failed */
  readonly exec: (command: string, args: readonly string[], options: ExecOptions) => Promise<ExecResult>;
  /** Ends the task for good. `because` says why, and whether the task has failed. */
  readonly kill: (reason: string, because: TaskEvent) => void;
}

export interface HookAnswer {
  /** Added to the task's environment, in this and every later attempt until the hook answers again. */
  readonly env?: Readonly<Record<string, string>>;
  /** Added to what the driver mounts for the task, as long as `env`. Only a driver with a root of its own can. */
  readonly mounts?: readonly TaskMount[];
  /** Kept for the hook's next call, over restarts of the agent. */
  readonly data?: Readonly<Record<string, string>>;
  /** `always`: not run again for this alloc; `this_boot`: done until the host reboots (what it made is volatile). */
  readonly done?: 'always' | 'this_boot';
}

export interface TaskHook {
  readonly name: string;
  /** Where this hook needs other bounds than the usual ones. */
  readonly deadlinesMs?: Readonly<Partial<Record<BoundedPhase, number>>>;
  /** Whether prestart and watch have anything to do for such a task; where not, they are not called. Undefined = for each. */
  concerns?(task: Task): boolean;
  prestart?(context: HookContext): Promise<HookAnswer | undefined>;
  poststart?(context: HookContext): Promise<void>;
  preKill?(context: HookContext): Promise<void>;
  exited?(context: HookContext): Promise<void>;
  /** The job was changed in place; `before` is the task as it was. The context has the new one. */
  update?(context: HookContext, before: Task): Promise<void>;
  stop?(context: HookContext): Promise<void>;
  /** The agent leaves: let go of what is held. The task must not notice. */
  shutdown?(context: HookContext): Promise<void>;
  /**
   * Begins when the workload runs (again after each restart of it or of the agent) and lasts until the signal aborts:
   * when it shall end, has ended, or the agent leaves. Returning earlier is allowed; a failure is an event.
   */
  watch?(context: WatchContext): Promise<void>;
}

/** The failure of a hook that has an event of its own for it. */
export class HookFailure extends AgentError {
  readonly event: TaskEvent;

  constructor(event: TaskEvent, message: string, options: { recoverable: boolean; cause?: unknown }) {
    super('hook_failed', message, options);
    this.event = event;
  }
}
