/**
 * Owns the contract of the store: the one interface to the persisted records (records.ts). Reads are synchronous and see
 * what is committed, nothing else. Writes are lists of changes that become durable together or not at all; what the
 * feed tells is made from them, in the same transaction, so nothing can be told that is not stored.
 */
import type { StampedTaskEvent } from '../events/task-event.js';
import type {
  JobRecord,
  AllocRecord,
  DeploymentRecord,
  EvaluationRecord,
  TaskRecord,
  RunRecord,
  HookRecord,
} from './records.js';

// Whoever uses the store has its records from here.
export type * from './records.js';

/**
 * One thing to write. A commit that breaks one of the rules below is stored in no part and rejects with `internal`:
 * a task, run, event or hook needs its alloc to be stored, a deployment its job; a run keeps its task; a job stays while an alloc names it;
 * job versions and event sequence numbers only grow; values are plain JSON (undefined is kept, NaN and functions are
 * refused).
 */
export type Change =
  /** The same version again replaces it; a lower one than stored is refused. */
  | { readonly kind: 'put_job'; readonly job: JobRecord }
  /** Forgets the job with its versions and deployments; its allocs must be deleted in the same or an earlier commit. */
  | { readonly kind: 'delete_job'; readonly jobId: string }
  | { readonly kind: 'put_alloc'; readonly alloc: AllocRecord }
  /** Forgets the alloc with its tasks, runs, events and hook state. */
  | { readonly kind: 'delete_alloc'; readonly allocId: string }
  | { readonly kind: 'put_task'; readonly task: TaskRecord }
  | { readonly kind: 'put_run'; readonly run: RunRecord }
  | {
      readonly kind: 'add_task_event';
      readonly allocId: string;
      readonly task: string;
      readonly event: StampedTaskEvent;
    }
  | { readonly kind: 'put_hook'; readonly hook: HookRecord }
  | { readonly kind: 'put_deployment'; readonly deployment: DeploymentRecord }
  | { readonly kind: 'put_evaluation'; readonly evaluation: EvaluationRecord }
  | { readonly kind: 'put_host'; readonly key: string; readonly value: string };

/**
 * A record together with the feed indexes at which it was made and last changed. An alloc changes with each of its
 * tasks; a job's versions share the index at which the job was made.
 */
export interface Indexed<T> {
  readonly record: T;
  readonly createIndex: number;
  readonly modifyIndex: number;
}

/** A task event with its owner. */
export interface TaskEventRow extends StampedTaskEvent {
  readonly allocId: string;
  readonly task: string;
}

/** Key in the host table: whether this host takes new allocs. A change of it is told on the feed. */
export const NODE_SCHEDULING_KEY = 'node_scheduling';

/** What changed, as kept in the feed. Payloads are the records as they stood at that index. */
export type FeedPayload =
  | { readonly topic: 'Job'; readonly type: 'JobRegistered' | 'JobDeregistered'; readonly job: JobRecord }
  | { readonly topic: 'Job'; readonly type: 'JobPurged'; readonly jobId: string }
  | {
      readonly topic: 'Allocation';
      readonly type: 'AllocationUpdated';
      readonly alloc: AllocRecord;
      readonly tasks: readonly TaskRecord[];
    }
  | {
      readonly topic: 'Allocation';
      readonly type: 'AllocationPurged';
      readonly allocId: string;
      readonly jobId: string;
    }
  /** `scheduling` is what the scheduler keeps in the host table, as it stands there. */
  | { readonly topic: 'Node'; readonly type: 'NodeSchedulingUpdated'; readonly scheduling: string }
  | {
      readonly topic: 'TaskEvent';
      readonly type: 'TaskEvent';
      readonly event: TaskEventRow;
      readonly jobId: string;
    }
  | {
      readonly topic: 'Deployment';
      readonly type: 'DeploymentStatusUpdate';
      readonly deployment: DeploymentRecord;
    }
  | {
      readonly topic: 'Evaluation';
      readonly type: 'EvaluationUpdated';
      readonly evaluation: EvaluationRecord;
    };

/**
 * One numbered message of the feed. Each commit makes them from its changes, in the order of the changes: one for each
 * job, deployment and evaluation put, event and purge, and one for each alloc of which the alloc or a task was put, at
 * the place of its first change and as it stands after the commit. Runs, hooks and host values make none, but for
 * `node_scheduling`.
 */
export interface FeedRow {
  readonly index: number;
  readonly atMs: number;
  /** Id of the job, alloc, deployment or evaluation, or `<alloc>/<task>`. */
  readonly key: string;
  readonly payload: FeedPayload;
}

/**
 * Smallest and largest index still held; `newest` is the store's current index, 0 when nothing was ever told. When
 * nothing is held `oldest` is `newest + 1`.
 */
export interface FeedBounds {
  readonly oldest: number;
  readonly newest: number;
}

/** What to do with changes that the disk does not take now. */
export type WhenRefused =
  /** The promise rejects and the changes are forgotten: for an intent, which must be durable before the act. */
  | 'reject'
  /** The changes stay queued, in order, and are written when the disk takes writes again: for facts. */
  | 'keep';

/** A disk that refuses writes. Tasks are supervised all the same; what happens meanwhile waits in the queue. */
export interface StoreTrouble {
  readonly sinceMs: number;
  /** The newest refusal, for people. */
  readonly error: string;
  readonly keptChanges: number;
  /** Plain events that were dropped because the queue was full. */
  readonly eventsDropped: number;
}

export interface CommitTimes {
  readonly count: number;
  readonly totalMs: number;
  readonly longestMs: number;
}

/**
 * The only way to durable state. One writer: opening takes a lock.
 *
 * Commits are grouped: all changes handed in during one turn of the event loop (up to 10 ms for `urgent: false`)
 * become one transaction, synchronous=FULL, in the order they were handed in.
 */
export interface StateStore {
  /**
   * Makes `changes` durable, together. Resolves after the transaction; the rows were given to `onCommitted` listeners
   * by then. With `keep` it resolves to 'kept' when the disk refused and the changes wait in the queue.
   * @param options.urgent false lets the store wait up to 10 ms for more (plain events); default true
   * @throws AgentError store_unavailable (recoverable) with `reject`; internal for a change that can never be stored
   */
  commit(
    changes: readonly Change[],
    options?: { readonly whenRefused?: WhenRefused; readonly urgent?: boolean },
  ): Promise<'stored' | 'kept'>;
  /** Called after each commit with the rows it added, in index order. Must not throw. Disposing ends it. */
  onCommitted(listener: (rows: readonly FeedRow[]) => void): Disposable;
  /** Changes that wait for a disk that refuses writes: 0 = all is well. */
  keptChanges(): number;
  /** Says what is wrong with the disk; undefined = all is well. */
  trouble(): StoreTrouble | undefined;
  /** How long the transactions since opening took, those that the disk refused among them. */
  commitTimes(): CommitTimes;
  /** Id of this store, made with it and kept for ever: the node's id. */
  hostId(): string;

  /** Store's current index: that of the newest feed row ever made. */
  index(): number;
  /** By id. */
  listJobs(): readonly Indexed<JobRecord>[];
  getJob(id: string): Indexed<JobRecord> | undefined;
  /** Newest first. Old versions that no alloc runs are forgotten beyond a bound. */
  listJobVersions(id: string): readonly Indexed<JobRecord>[];
  getJobVersion(id: string, version: number): Indexed<JobRecord> | undefined;
  /** Oldest first. */
  listAllocs(filter?: { readonly jobId?: string }): readonly Indexed<AllocRecord>[];
  getAlloc(id: string): Indexed<AllocRecord> | undefined;
  /** In the order they were first put. */
  listTasks(allocId: string): readonly TaskRecord[];
  getTask(allocId: string, task: string): TaskRecord | undefined;
  /** Oldest first. */
  listRuns(allocId: string, task: string): readonly RunRecord[];
  getRun(runId: string): RunRecord | undefined;
  /** In the order they were stored, oldest first. `afterSeq` needs `task`; `jobId` means the allocs of that job. */
  listTaskEvents(filter: {
    readonly allocId?: string;
    readonly jobId?: string;
    readonly task?: string;
    readonly sinceMs?: number;
    readonly afterSeq?: number;
    /** The newest this many. */
    readonly limit?: number;
  }): readonly TaskEventRow[];
  /** How many events of a task's history the bounds have dropped. */
  countDroppedEvents(allocId: string, task: string): number;
  /** In the order they were first put. */
  listHooks(allocId: string, task: string): readonly HookRecord[];
  /** Oldest first. Of each job, active ones, the newest few and the newest successful one are remembered. */
  listDeployments(filter?: { readonly jobId?: string }): readonly Indexed<DeploymentRecord>[];
  getDeployment(id: string): Indexed<DeploymentRecord> | undefined;
  /** Oldest first; beside the pending ones the newest are remembered, up to a bound. */
  listEvaluations(filter?: { readonly jobId?: string }): readonly Indexed<EvaluationRecord>[];
  getEvaluation(id: string): Indexed<EvaluationRecord> | undefined;
  getHost(key: string): string | undefined;
  feedBounds(): FeedBounds;
  /** Rows after `index`, oldest first, at most `limit`. */
  readFeed(afterIndex: number, limit: number): readonly FeedRow[];
  /** Rows that could not be decoded and were moved aside, at opening or when they were met. */
  listQuarantined(): readonly QuarantinedRow[];
  /** Tries to write what is queued, then closes. Closing twice is allowed. */
  close(): Promise<void>;
}

export interface QuarantinedRow {
  readonly table: string;
  readonly key: string;
  readonly error: string;
  /** The columns as they were, as JSON: the only trace of what the row knew (pids among it). */
  readonly raw: string;
  readonly atMs: number;
}
