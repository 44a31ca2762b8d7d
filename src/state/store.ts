/**
 * Owns the contract of the store: the persisted records and the one interface to them. Reads are synchronous and see
 * what is committed, nothing else. Writes are lists of changes that become durable together or not at all; what the
 * feed tells is made from them, in the same transaction, so nothing can be told that is not stored.
 * Longer than a file should be: whoever uses the store reads this page and no other.
 */
import type { ProcessRef } from '../base/host.js';
import type { ExitReport, ExitResult } from '../events/exit-result.js';
import type { StampedTaskEvent } from '../events/task-event.js';
import type { Job } from '../jobspec/types.js';

/** A registered job. The current version is the highest one. */
export interface JobRecord {
  readonly id: string;
  readonly version: number;
  readonly spec: Job;
  /** True after `stop`: no allocation shall run, the job is remembered. */
  readonly stopped: boolean;
  readonly submittedAtMs: number;
  /** The periodic or parameterized job that this one is a launch of. */
  readonly parentId?: string;
  /** True for a launch by dispatch. */
  readonly dispatched?: boolean;
  /** What came with the dispatch, base64; undefined = nothing. */
  readonly payload?: string;
  /** Given by who dispatched it: a second dispatch with the same token makes no second job. */
  readonly idempotencyToken?: string;
}

export type DesiredStatus = 'run' | 'stop';
export type ClientStatus = 'pending' | 'running' | 'complete' | 'failed' | 'lost' | 'unknown';

/** One placement of a group. */
export interface AllocRecord {
  readonly id: string;
  readonly jobId: string;
  readonly jobVersion: number;
  readonly group: string;
  /** Which of the group's `count` places this one fills. */
  readonly index: number;
  readonly desiredStatus: DesiredStatus;
  /** Why it shall stop; '' while it shall run. */
  readonly desiredDescription: string;
  /** Skip `shutdown_delay` when stopping. */
  readonly noShutdownDelay: boolean;
  readonly clientStatus: ClientStatus;
  readonly clientDescription: string;
  readonly createdAtMs: number;
  readonly modifiedAtMs: number;
  /** The deployment that placed it or took it over. */
  readonly deploymentId?: string;
  /** The failed alloc in whose place this one is, and the one that is in the place of this one. */
  readonly previousAllocId?: string;
  readonly nextAllocId?: string;
  readonly reschedule?: RescheduleTracker;
  /** The verdict; there is none yet, or never one, while it is undefined. */
  readonly health?: AllocHealth | undefined;
  /** Counts the starts of all its tasks together, from 0: a restart of the whole alloc makes a new one. */
  readonly generation?: number | undefined;
  /** Ports of the host that it has, by label, from its start to its end. */
  readonly ports?: Readonly<Record<string, number>> | undefined;
  /** Since when its tasks wait for the group's `shutdown_delay` before they are ended. */
  readonly endingSince?: Moment | undefined;
  /** When the time of `max_run_duration` began, and whether it has run out. */
  readonly runTime?: { readonly since: Moment; readonly isOver: boolean } | undefined;
  /** What the verdict is reached by. */
  readonly healthWatch?: HealthWatch | undefined;
}

/** What has been done about the failures in a place, and what is next. */
export interface RescheduleTracker {
  /** Oldest first; bounded: what the policy cannot count any more is dropped. */
  readonly events: readonly RescheduleEvent[];
  /** Set on a failed alloc: when a new one shall be made. */
  readonly next?: { readonly at: Moment; readonly delayMs: number; readonly evalId: string };
  /** Set on a failed alloc that shall have no successor: why, for people. */
  readonly gaveUp?: string;
}

export interface RescheduleEvent {
  readonly at: Moment;
  readonly previousAllocId: string;
  readonly delayMs: number;
}

export type DeploymentStatus = 'running' | 'paused' | 'successful' | 'failed' | 'cancelled';

/** A newer version of a job on its way into the places of the groups that have an `update` block. */
export interface DeploymentRecord {
  readonly id: string;
  readonly jobId: string;
  readonly jobVersion: number;
  readonly status: DeploymentStatus;
  readonly description: string;
  readonly groups: Readonly<Record<string, DeploymentGroup>>;
  readonly createdAtMs: number;
  readonly modifiedAtMs: number;
}

export interface DeploymentGroup {
  readonly desiredTotal: number;
  readonly autoRevert: boolean;
  readonly progressDeadlineMs: number;
  /** Places that hold an alloc of the deployment, and what is known of these. */
  readonly placed: number;
  readonly healthy: number;
  readonly unhealthy: number;
  /** It fails unless another alloc has become healthy by then; undefined = no such deadline. */
  readonly requireProgressBy: Moment | undefined;
}

export type EvaluationTrigger =
  'job-register' | 'job-deregister' | 'alloc-stop' | 'alloc-failure' | 'deployment-watcher' | 'periodic-job';

/** What made the scheduler look at a job, and what came of it. */
export interface EvaluationRecord {
  readonly id: string;
  readonly jobId: string;
  readonly jobType: string;
  readonly priority: number;
  readonly triggeredBy: EvaluationTrigger;
  readonly status: 'pending' | 'complete' | 'canceled';
  readonly description: string;
  readonly deploymentId: string | undefined;
  /** When a pending one is due. */
  readonly waitUntilMs: number | undefined;
  /** As the job stood when it was complete, and the store's index before it began. */
  readonly jobModifyIndex: number;
  readonly beganAfter: number;
  readonly createdAtMs: number;
  readonly modifiedAtMs: number;
}

/** Whether a placement of a job version works. */
export interface AllocHealth {
  readonly healthy: boolean;
  readonly atMs: number;
  /** Why, in words: `after 10s`, `task "web" failed`. */
  readonly detail: string;
}

/** How far an alloc has come on its way to being healthy. */
export interface HealthWatch {
  /** The version that is judged. */
  readonly jobVersion: number;
  readonly opened: Moment;
  /** Since when all is well, with the runs of which that is said; undefined while it is not. */
  readonly steady: { readonly since: Moment; readonly runs: string } | undefined;
}

export type TaskStateName = 'pending' | 'running' | 'dead';

/** What the task is doing now, finer than its state. */
export type TaskPhase =
  | 'waiting'
  | 'prestart'
  | 'starting'
  | 'running'
  | 'stopping'
  | 'unkillable'
  | 'exited'
  | 'backoff'
  | 'dead'
  | 'complete';

/**
 * A moment that must survive a restart of the agent. `monoMs` counts only within the boot `bootId`; after a reboot
 * `wallMs` is the best there is.
 */
export interface Moment {
  readonly wallMs: number;
  readonly monoMs: number;
  readonly bootId: string;
}

/** Restarts used within the policy's interval. */
export interface RestartWindow {
  readonly opened: Moment;
  readonly used: number;
}

/** A stop under way: what the next agent must know to go on with it. */
export interface StopProgress {
  /** `delay`: waits for `shutdown_delay`; `signal`: the workload was asked to end. */
  readonly stage: 'delay' | 'signal';
  readonly since: Moment;
  /** When the delay is over, or when the workload is killed by force. */
  readonly due: Moment;
  /** Tries to kill it that have failed. */
  readonly failedKills: number;
}

/** Everything about a task that must not be forgotten. Durable facts live here, never only in an event. */
export interface TaskRecord {
  readonly allocId: string;
  readonly task: string;
  readonly state: TaskStateName;
  readonly phase: TaskPhase;
  /** What the phase waits for, in words ("retry in 12s …" is derived by the reader from `nextStart`). */
  readonly phaseDetail: string;
  /** Since when `phaseDetail` says that a hook is waited for; absent = it does not. */
  readonly waitingSinceMs?: number | undefined;
  /** Sticky until an alloc restart. */
  readonly failed: boolean;
  readonly restarts: number;
  readonly lastRestartAtMs: number | undefined;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number | undefined;
  readonly restartWindow: RestartWindow | undefined;
  /** When the next attempt is due, while phase is `backoff`. */
  readonly nextStart: Moment | undefined;
  readonly lastExit: ExitResult | undefined;
  /** The attempt in hand; set with the intent, cleared in the transaction that stores its exit. */
  readonly runId: string | undefined;
  /** Attempts made so far: the attempt number of the newest run. */
  readonly attempts: number;
  /** Set once the task shall end, with the reason told to people. */
  readonly killReason: string | undefined;
  /** Set while a restart that somebody asked for is under way: the end that it causes is not held against the task. */
  readonly restartReason: string | undefined;
  /** How far the stop of the run in hand has come; undefined while none is under way. */
  readonly stop?: StopProgress | undefined;
  /** That restart counts against the policy, which may say no: a check asked for it. */
  readonly restartCounts?: boolean | undefined;
  /** Which start of the whole alloc it belongs to; undefined = 0, the first. */
  readonly generation?: number | undefined;
  /** It is on its way into this generation: what runs is being ended for it. */
  readonly renewTo?: number | undefined;
  /** Sequence number of the newest event, and how many older ones the bound has dropped. */
  readonly lastEventSeq: number;
  readonly eventsDropped: number;
  /** The last events (newest last), as Nomad shows them; the full history is `listTaskEvents`. */
  readonly recentEvents: readonly StampedTaskEvent[];
}

/** What is needed to find a started workload again. */
export interface RunHandle {
  readonly executor: ProcessRef | undefined;
  readonly workload: ProcessRef | undefined;
  /** Anything else the driver wants back; plain JSON. */
  readonly driverState: Readonly<Record<string, unknown>>;
}

/** One attempt to start a task: its intent, and later what came of it. */
export interface RunRecord {
  readonly runId: string;
  readonly allocId: string;
  readonly task: string;
  /** Counts from 1 per task. */
  readonly attempt: number;
  readonly driver: string;
  readonly bootId: string;
  /** SHA-256 (hex) of what was to be run. */
  readonly specHash: string;
  readonly intendedAtMs: number;
  readonly handle: RunHandle | undefined;
  readonly startedAtMs: number | undefined;
  /** How the run ended; undefined while it is open. */
  readonly outcome: RunOutcome | undefined;
}

export type RunOutcome =
  | { readonly kind: 'ended'; readonly report: ExitReport }
  | { readonly kind: 'start_failed'; readonly error: string; readonly atMs: number }
  | { readonly kind: 'never_started'; readonly detail: string; readonly atMs: number };

/** State that a hook wants back. `done` hooks are not run again; `bootId` set = done only within that boot. */
export interface HookRecord {
  readonly allocId: string;
  readonly task: string;
  readonly hook: string;
  readonly done: boolean;
  readonly bootId: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly data: Readonly<Record<string, string>>;
  /** As `TaskMount`; absent = none. */
  readonly mounts?: readonly {
    readonly source: string;
    readonly target: string;
    readonly readOnly: boolean;
  }[];
}

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
