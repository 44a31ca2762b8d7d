/**
 * Owns what is stored: the persisted records of jobs, allocs, tasks and runs, and of what the scheduler has decided. Durable
 * facts live here, never only in an event. How they are stored and read is in store.ts.
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
