/** Owns the shapes of allocs, their tasks and events. */
import type { InForceJson } from './in-force.js';
import type { AllocatedResourcesJson } from './allocated.js';
import type { Job, ResourcesJson } from './job.js';

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

/** How a run ended. A status that nobody saw has Kind `unknown` and neither Code nor Signal. */
export interface ExitJson {
  readonly Kind: 'exited' | 'signaled' | 'unknown';
  readonly Code: number | null;
  readonly Signal: number | null;
  /** `SIGKILL`; '' when no signal ended it. */
  readonly SignalName: string;
  readonly OOMKilled: boolean;
  readonly CoreDumped: boolean;
  /** Why it is unknown, as a word (`host_rebooted` …); '' otherwise. */
  readonly Reason: string;
  /** One line for people: `exited 3`, `killed by SIGKILL (OOM killed)`, `exit unknown (…)`. */
  readonly Text: string;
}

export interface TaskEvent {
  readonly Type: string;
  /** Nanoseconds since 1970. */
  readonly Time: number;
  readonly DisplayMessage: string;
  readonly Details: Readonly<Record<string, string>>;
  readonly Message: string;
  readonly FailsTask: boolean;
  readonly RestartReason: string;
  readonly SetupError: string;
  readonly DriverError: string;
  readonly DriverMessage: string;
  /** 128 + n for a signal, -1 for an end nobody saw: Nomad's view. The truth is Holdfast.Exit. */
  readonly ExitCode: number;
  readonly Signal: number;
  readonly KillReason: string;
  readonly KillTimeout: number;
  readonly KillError: string;
  readonly StartDelay: number;
  readonly ValidationError: string;
  readonly DownloadError: string;
  readonly FailedSibling: string;
  readonly TaskSignal: string;
  readonly TaskSignalReason: string;
  readonly Holdfast: {
    /** Place in the task's history, from 1. */
    readonly Seq: number;
    /** Set in `Terminated`. */
    readonly Exit: ExitJson | null;
  };
}

export interface TaskState {
  readonly State: 'pending' | 'running' | 'dead';
  readonly Failed: boolean;
  readonly Restarts: number;
  readonly LastRestart: string;
  readonly StartedAt: string;
  readonly FinishedAt: string;
  /** The newest few, oldest first; all of them: GET /v1/holdfast/events. */
  readonly Events: readonly TaskEvent[];
  readonly Holdfast: {
    readonly Phase: TaskPhase;
    readonly PhaseDetail: string;
    /** Since when PhaseDetail says that a hook is waited for; not there when it does not. */
    readonly WaitingSince?: string;
    /** When the next attempt is due (phase `backoff`), or null. */
    readonly NextStart: string | null;
    readonly KillReason: string | null;
    readonly LastExit: ExitJson | null;
    /** The attempt in hand. */
    readonly RunID: string | null;
    /** Process id of the workload while State is `running`. */
    readonly Pid: number | null;
    readonly Attempts: number;
    /** Restarts counted in the policy's current interval. */
    readonly RestartsUsed: number;
    /** Older events that the bound on the history has dropped. */
    readonly EventsDropped: number;
    /** In the answer about one alloc, while it runs under an executor: what it really got. */
    readonly InForce?: InForceJson;
  };
}

/** What the feed and its snapshot say of an alloc: all that follows from its records alone. */
export interface FeedAllocation {
  readonly ID: string;
  /** `<job>.<group>[<index>]`. */
  readonly Name: string;
  readonly Namespace: string;
  readonly NodeID: string;
  readonly NodeName: string;
  readonly JobID: string;
  readonly JobVersion: number;
  readonly TaskGroup: string;
  readonly DesiredStatus: 'run' | 'stop';
  readonly DesiredDescription: string;
  readonly ClientStatus: 'pending' | 'running' | 'complete' | 'failed' | 'lost' | 'unknown';
  readonly ClientDescription: string;
  /** '' = no deployment has to do with it. */
  readonly DeploymentID: string;
  readonly DeploymentStatus: AllocDeploymentStatus | null;
  readonly TaskStates: Readonly<Record<string, TaskState>>;
  readonly ModifyIndex: number;
  /** Nanoseconds since 1970. */
  readonly CreateTime: number;
  readonly ModifyTime: number;
}

/** Whether the alloc is healthy; null while that is not decided, and for jobs that run to their end. */
export interface AllocDeploymentStatus {
  readonly Healthy: boolean;
  readonly Timestamp: string;
  readonly Canary: boolean;
  readonly ModifyIndex: number;
  /** Why, for people: `after 10s`. */
  readonly Holdfast: { readonly Detail: string };
}

/** GET /v1/allocations and other lists. */
export interface AllocListStub extends FeedAllocation {
  readonly EvalID: string;
  readonly JobType: string;
  /** The evaluation that will make a new alloc in its place; '' = none. */
  readonly FollowupEvalID: string;
  readonly NextAllocation: string;
  readonly PreviousAllocation: string;
  readonly RescheduleTracker: {
    readonly Events: readonly {
      readonly RescheduleTime: number;
      readonly PrevAllocID: string;
      readonly PrevNodeID: string;
      readonly Delay: number;
    }[];
  } | null;
  readonly Holdfast: {
    /** When a new alloc will be made in the place of this failed one, or null. */
    readonly RescheduleAt: string | null;
    /** Why none will be made; '' when that was not decided. */
    readonly RescheduleStopped: string;
  };
  readonly CreateIndex: number;
}

/** GET /v1/allocation/:id. */
export interface Allocation extends AllocListStub {
  /** The job in the version that this alloc runs; null when that version is no longer on record. */
  readonly Job: Job | null;
  readonly Resources: ResourcesJson;
  readonly TaskResources: Readonly<Record<string, ResourcesJson>>;
  readonly AllocatedResources: AllocatedResourcesJson;
  readonly Metrics: Readonly<Record<string, unknown>>;
}

/** Answer to PUT /v1/allocation/:id/stop. */
export interface AllocStopResponse {
  readonly EvalID: string;
  readonly Index: number;
}
