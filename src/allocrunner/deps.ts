/** Owns what an alloc runner is given: its hold on the rest of the agent, its neighbours, and which alloc it is for. */
import type { Clock } from '../base/clock.js';
import type { Logger } from '../base/log.js';
import type { Driver, TaskDirs } from '../drivers/driver.js';
import type { Job, TaskGroup } from '../jobspec/types.js';
import type { AllocRecord, StateStore, TaskRecord } from '../state/store.js';
import type { TaskHook } from '../taskrunner/hooks/hook.js';
import type { Probe } from './checks/probe.js';

export interface AllocRunnerDeps {
  readonly clock: Clock;
  readonly bootId: string;
  readonly logger: Logger;
  readonly store: StateStore;
  /** The driver of that name, or one that says it does not exist. */
  readonly driver: (name: string) => Driver;
  readonly hooks: readonly TaskHook[];
  /** The cap of every kill_timeout as it is now. */
  readonly maxKillTimeoutMs: () => number;
  readonly agentEnv: Readonly<Record<string, string | undefined>>;
  readonly nodeFacts: Readonly<Record<string, string>>;
  readonly taskDirs: (allocId: string, task: string) => TaskDirs;
  /** How checks ask; the real world when it is not given. */
  readonly probe?: Probe;
}

/** What an alloc knows of the others on its host. */
export interface Neighbours {
  /** Who has a port, in words; without this alloc. */
  portHolders(allocId: string): ReadonlyMap<number, string>;
}

/** An alloc with what it is specified as now. */
export interface AllocSubject {
  readonly alloc: AllocRecord;
  readonly job: Job;
  readonly group: TaskGroup;
  /** Its tasks as stored; undefined = they are read. */
  readonly records?: readonly TaskRecord[];
  /** It was made just now: nothing of it is stored that would have to be read. */
  readonly isNew?: boolean;
  /** What the job was dispatched with, as base64. */
  readonly payload?: string | undefined;
}
