/**
 * Owns the contract between the store's rules (apply.ts, table-store.ts) and the two places rows can live: SQLite and
 * memory. Everything is synchronous. Tables obey no rule but their keys; the rules are in apply.ts, once.
 */
import type { StoreLimits } from './limits.js';
import type {
  AllocRecord,
  DeploymentRecord,
  EvaluationRecord,
  FeedRow,
  HookRecord,
  JobRecord,
  RunRecord,
  StateStore,
  TaskEventRow,
  TaskRecord,
} from './store.js';

/** Everything a store holds. Reads see what has been written, also within the transaction in hand. */
export interface Tables extends Pick<StateStore, 'hostId' | 'listQuarantined'> {
  readonly records: Records;
  readonly history: History;
  readonly scheduling: Scheduling;
  /** Runs `work` all or nothing: when it throws, nothing of it stays. May be nested. */
  transact<T>(work: () => T): T;
  /** True when `error` means that the disk does not take writes now; false when the change itself is at fault. */
  isRefusal(error: unknown): boolean;
  close(): void;
}

type RecordReads = Pick<
  StateStore,
  | 'listJobs'
  | 'getJob'
  | 'listJobVersions'
  | 'getJobVersion'
  | 'listAllocs'
  | 'getAlloc'
  | 'listTasks'
  | 'getTask'
  | 'listRuns'
  | 'getRun'
  | 'listHooks'
  | 'getHost'
>;

/** An alloc as the feed tells it. */
export interface AllocWithTasks {
  readonly alloc: AllocRecord;
  readonly tasks: readonly TaskRecord[];
}

/** What is, by key. `put…` replaces a record of the same key and keeps its place in the order of first puts. */
export interface Records extends RecordReads {
  /** Puts the job's current record and that of its version. */
  putJob(job: JobRecord): void;
  /** The job's current version; undefined when there is no such job. */
  currentVersion(jobId: string): number | undefined;
  /** Sets modifyIndex of the version, and of the job when it is the current one; createIndex of a new job. */
  stampJob(jobId: string, version: number, index: number): void;
  /** Forgets versions below `belowVersion` that no alloc names. */
  trimJobVersions(jobId: string, belowVersion: number): void;
  /** With its versions. @returns whether there was one */
  deleteJob(jobId: string): boolean;

  putAlloc(alloc: AllocRecord): void;
  /** Sets modifyIndex, and createIndex of a new alloc. */
  stampAlloc(allocId: string, index: number): void;
  /** With its tasks, runs and hooks. */
  deleteAlloc(allocId: string): void;
  /** The owner of an alloc, without decoding it; undefined when there is no such alloc. */
  jobIdOf(allocId: string): string | undefined;
  hasAllocsOf(jobId: string): boolean;
  /** What `getAlloc` and `listTasks` give, in copies that nobody else has; undefined when there is no such alloc. */
  describeAlloc(allocId: string): AllocWithTasks | undefined;

  putTask(task: TaskRecord): void;
  putRun(run: RunRecord): void;
  /** Whose a run is, without decoding it; undefined when there is no such run. */
  ownerOfRun(runId: string): { readonly allocId: string; readonly task: string } | undefined;
  /** Forgets ended runs but the newest `runsPerTask`. */
  trimRuns(allocId: string, task: string, runsPerTask: number): void;
  putHook(hook: HookRecord): void;
  putHost(key: string, value: string): void;
}

type SchedulingReads = Pick<
  StateStore,
  'listDeployments' | 'getDeployment' | 'listEvaluations' | 'getEvaluation'
>;

/** What the scheduler remembers of each job. */
export interface Scheduling extends SchedulingReads {
  putDeployment(deployment: DeploymentRecord): void;
  /** Sets modifyIndex, and createIndex of a new one; does nothing when it is gone. */
  stampDeployment(id: string, index: number): void;
  /** Keeps the newest `most` of the job, those under way, and the newest successful one. */
  trimDeployments(jobId: string, most: number): void;
  putEvaluation(evaluation: EvaluationRecord): void;
  stampEvaluation(id: string, index: number): void;
  /** Keeps the newest `most` of all jobs, and those that are pending. */
  trimEvaluations(most: number): void;
  deleteDeployments(jobId: string): void;
}

type HistoryReads = Pick<
  StateStore,
  'index' | 'listTaskEvents' | 'countDroppedEvents' | 'feedBounds' | 'readFeed'
>;

/** What was: it grows, and is trimmed from its old end. */
export interface History extends HistoryReads {
  newestEventSeq(allocId: string, task: string): number;
  /** Its number must be above that of the task's newest. */
  addEvent(event: TaskEventRow): void;
  /** Drops the oldest events of one task, once a bound is passed, down to below the bounds by their slack. */
  trimEvents(allocId: string, task: string, limits: StoreLimits): void;
  deleteEvents(allocId: string): void;
  /** The index must be one above that of the newest row ever added. */
  addFeedRow(row: FeedRow): void;
  /** Drops what the feed's bounds no longer hold, oldest first. */
  trimFeed(limits: StoreLimits, nowMs: number): void;
}
