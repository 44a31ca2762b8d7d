/**
 * Owns the contract of task hooks. A hook implements any subset of the phases.
 *
 * prestart runs in order before each attempt; the first failure ends the attempt and counts as a start error.
 * poststart, preKill and exited run in order; a failure is an event and nothing else. stop runs once, in reverse
 * order, when the alloc ends, also for a task that never started: it must be idempotent. All but poststart are awaited:
 * a workload that ends does not wait for it. Kill cancels prestart, the agent's leaving all but stop; a cancelled
 * prestart hook has not failed.
 */
import type { TaskDirs } from '../../drivers/driver.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { Task } from '../../jobspec/types.js';

export interface HookContext {
  readonly allocId: string;
  readonly task: Task;
  readonly dirs: TaskDirs;
  /** Attempts to start the task that were made before this call. */
  readonly attempt: number;
  /** The driver's config with `${…}` resolved by the environment as it stands before this attempt's hooks. */
  readonly config: () => Readonly<Record<string, unknown>>;
  /** What this hook answered last time, if it did. */
  readonly data: Readonly<Record<string, string>>;
  readonly emit: (event: TaskEvent) => void;
  /** Aborted by kill and by the agent's leaving; never aborted for stop hooks. */
  readonly signal: AbortSignal;
}

export interface HookAnswer {
  /** Added to the task's environment, in this and every later attempt until the hook answers again. */
  readonly env?: Readonly<Record<string, string>>;
  /** Kept for the hook's next call, over restarts of the agent. */
  readonly data?: Readonly<Record<string, string>>;
  /** `always`: not run again for this alloc; `this_boot`: done until the host reboots (what it made is volatile). */
  readonly done?: 'always' | 'this_boot';
}

export interface TaskHook {
  readonly name: string;
  prestart?(context: HookContext): Promise<HookAnswer | undefined>;
  poststart?(context: HookContext): Promise<void>;
  preKill?(context: HookContext): Promise<void>;
  exited?(context: HookContext): Promise<void>;
  stop?(context: HookContext): Promise<void>;
}
