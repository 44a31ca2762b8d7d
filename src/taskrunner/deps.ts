/** Owns what a task runner is given: its hold on the rest of the agent, and which task it is for. */
import type { Clock } from '../base/clock.js';
import type { Logger } from '../base/log.js';
import type { Driver, TaskDirs } from '../drivers/driver.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { Change, HookRecord, RunRecord, TaskRecord, WhenRefused } from '../state/store.js';
import type { TaskHook } from './hooks/hook.js';

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
