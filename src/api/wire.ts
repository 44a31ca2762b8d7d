/**
 * Owns the JSON of the HTTP API and of the feed as it goes over the wire: Nomad's names and shapes, plus our own facts
 * under a `Holdfast` key, and the one map from ErrorCode to HTTP status. The agent and the CLI both import it, and the
 * CLI starts at every command: so it imports nothing that is not tiny. Records become these shapes in
 * job-, alloc- and task-to-wire.ts.
 *
 * Longer than 300 lines because it is one dictionary: splitting a list of shapes would only hide half of it.
 * Units as Nomad has them: `Time`, `…Time` and durations are integer nanoseconds, `…At` is RFC 3339 text.
 */
import type { ErrorCode } from '../base/errors.js';
import type {
  Job as JobSpec,
  ReschedulePolicy,
  RestartPolicy,
  Task,
  UpdatePolicy,
} from '../jobspec/types.js';

// ---------------------------------------------------------------------------------------------------------- numbers

/** Response header with what a reader must know before they trust an answer; mostly not there. */
export const WARNING_HEADER = 'x-holdfast-warning';

/** Nomad writes a time that is not there as Go's zero time. */
export const ZERO_TIME = '0001-01-01T00:00:00Z';

/** Wall milliseconds to nanoseconds. Above 2^53 the value is rounded, yet prints and parses back exactly. */
export function msToNs(ms: number): number {
  return Math.round(ms) * 1e6;
}

/** Nanoseconds to whole milliseconds. */
export function nsToMs(ns: number): number {
  return Math.round(ns / 1e6);
}

/** Wall milliseconds to RFC 3339; undefined to Go's zero time. */
export function msToRfc3339(ms: number | undefined): string {
  return ms === undefined ? ZERO_TIME : new Date(ms).toISOString();
}

/** RFC 3339 to wall milliseconds; Go's zero time, and what is no time, to undefined. */
export function rfc3339ToMs(text: string): number | undefined {
  const ms = Date.parse(text);
  return text === ZERO_TIME || Number.isNaN(ms) ? undefined : ms;
}

// ----------------------------------------------------------------------------------------------------------- errors

/** Body of an error answer when the caller accepts application/json; others get Message as text. */
export interface ErrorBody {
  readonly Code: ErrorCode;
  readonly Message: string;
}

const HTTP_STATUS: Readonly<Record<ErrorCode, number>> = {
  agent_leaving: 503,
  already_running: 409,
  ambiguous: 400,
  bad_request: 400,
  cancelled: 503,
  conflict: 409,
  driver_config_invalid: 400,
  driver_not_found: 400,
  executor_failed: 500,
  executor_missing: 500,
  executor_unreachable: 503,
  hook_failed: 500,
  internal: 500,
  job_invalid: 400,
  kill_failed: 500,
  not_found: 404,
  not_permitted: 403,
  not_running: 409,
  protocol_error: 502,
  schema_too_new: 500,
  signal_unknown: 400,
  start_failed: 500,
  store_corrupt: 500,
  store_locked: 503,
  store_unavailable: 503,
  timeout: 504,
  too_many: 429,
  wrong_host: 500,
};

/** The HTTP status of an error. The only such map. */
export function httpStatusOf(code: ErrorCode): number {
  return HTTP_STATUS[code];
}

// ------------------------------------------------------------------------------------------------------------- jobs

export type JobStatus = 'pending' | 'running' | 'dead';

/** A job as it is registered: the body `{Job}` of PUT /v1/jobs. */
export interface JobJson {
  readonly ID: string;
  readonly Name: string;
  readonly Namespace: string;
  readonly Region: string;
  readonly Type: string;
  readonly Priority: number;
  readonly Datacenters: readonly string[];
  readonly Meta: Readonly<Record<string, string>> | null;
  readonly TaskGroups: readonly TaskGroupJson[];
  readonly Periodic: PeriodicJson | null;
  readonly ParameterizedJob: ParameterizedJson | null;
}

export interface PeriodicJson {
  readonly Enabled: boolean;
  /** The first of Specs. */
  readonly Spec: string;
  readonly Specs: readonly string[];
  readonly SpecType: 'cron';
  readonly ProhibitOverlap: boolean;
  readonly TimeZone: string;
}

export interface ParameterizedJson {
  readonly Payload: string;
  readonly MetaRequired: readonly string[];
  readonly MetaOptional: readonly string[];
}

export interface TaskGroupJson {
  readonly Name: string;
  readonly Count: number;
  readonly Meta: Readonly<Record<string, string>> | null;
  readonly Tasks: readonly TaskJson[];
  readonly Update: UpdateJson | null;
  readonly ReschedulePolicy: ReschedulePolicyJson | null;
}

export interface UpdateJson {
  readonly MaxParallel: number;
  readonly HealthCheck: string;
  readonly MinHealthyTime: number;
  readonly HealthyDeadline: number;
  readonly ProgressDeadline: number;
  readonly AutoRevert: boolean;
  readonly AutoPromote: boolean;
  readonly Canary: number;
  readonly Stagger: number;
}

export interface ReschedulePolicyJson {
  readonly Attempts: number;
  readonly Interval: number;
  readonly Delay: number;
  readonly DelayFunction: string;
  readonly MaxDelay: number;
  readonly Unlimited: boolean;
}

export interface TaskJson {
  readonly Name: string;
  readonly Driver: string;
  readonly User: string;
  readonly Config: Readonly<Record<string, unknown>>;
  readonly Env: Readonly<Record<string, string>> | null;
  readonly Meta: Readonly<Record<string, string>> | null;
  readonly Resources: ResourcesJson;
  readonly RestartPolicy: RestartPolicyJson;
  readonly KillTimeout: number;
  readonly KillSignal: string;
  readonly ShutdownDelay: number;
  readonly LogConfig: {
    readonly MaxFiles: number;
    readonly MaxFileSizeMB: number;
    readonly Disabled: boolean;
  };
  /** Ours: `kill` or `keep`. */
  readonly Leftovers: string;
  readonly Leader: boolean;
  readonly Lifecycle: { readonly Hook: string; readonly Sidecar: boolean } | null;
}

export interface ResourcesJson {
  readonly CPU: number;
  readonly MemoryMB: number;
  /** 0 = as MemoryMB, -1 = no hard limit. */
  readonly MemoryMaxMB: number;
  /** Always 0: nothing limits disk here, but Nomad's CLI reads it unasked. */
  readonly DiskMB: number;
  /** Ours: hard quota in percent of one core. */
  readonly CPUPercent?: number;
  /** Ours: most processes and threads. */
  readonly Pids?: number;
}

export interface RestartPolicyJson {
  readonly Attempts: number;
  readonly Interval: number;
  readonly Delay: number;
  readonly Mode: string;
  /** These four are ours. */
  readonly Factor: number;
  readonly MaxDelay?: number;
  readonly Jitter: number;
  readonly ResetAfter?: number;
}

/** What the feed and its snapshot say of a job: all that follows from its record alone. */
export interface FeedJob extends JobJson {
  readonly Stop: boolean;
  readonly Version: number;
  /** Nanoseconds since 1970. */
  readonly SubmitTime: number;
  readonly ModifyIndex: number;
  readonly JobModifyIndex: number;
}

/** GET /v1/job/:id. */
export interface Job extends FeedJob {
  readonly Status: JobStatus;
  readonly StatusDescription: string;
  readonly CreateIndex: number;
  readonly ParentID: string;
  readonly Stable: boolean;
}

export interface GroupSummary {
  readonly Queued: number;
  readonly Complete: number;
  readonly Failed: number;
  readonly Running: number;
  readonly Starting: number;
  readonly Lost: number;
  readonly Unknown: number;
}

export interface JobSummary {
  readonly JobID: string;
  readonly Namespace: string;
  readonly Summary: Readonly<Record<string, GroupSummary>>;
  readonly Children: { readonly Pending: number; readonly Running: number; readonly Dead: number };
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
}

/** GET /v1/jobs. */
export interface JobListStub {
  readonly ID: string;
  readonly ParentID: string;
  readonly Name: string;
  readonly Namespace: string;
  readonly Datacenters: readonly string[];
  readonly Type: string;
  readonly Priority: number;
  readonly Periodic: boolean;
  readonly ParameterizedJob: boolean;
  readonly Stop: boolean;
  readonly Status: JobStatus;
  readonly StatusDescription: string;
  readonly JobSummary: JobSummary;
  readonly Version: number;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
  readonly JobModifyIndex: number;
  readonly SubmitTime: number;
}

/** GET /v1/job/:id/versions. */
export interface JobVersions {
  readonly Versions: readonly Job[];
  readonly Diffs: null;
}

/** Body of PUT /v1/jobs. */
export interface RegisterRequest {
  readonly Job: JobJson;
  /** With it, JobModifyIndex must be that of the stored job (0 = there must be none), or 409. */
  readonly EnforceIndex?: boolean;
  readonly JobModifyIndex?: number;
}

/** Answer to PUT /v1/jobs and DELETE /v1/job/:id. */
export interface RegisterResponse {
  readonly EvalID: string;
  readonly EvalCreateIndex: number;
  readonly JobModifyIndex: number;
  readonly Warnings: string;
  readonly Index: number;
  readonly Holdfast: { readonly Version: number; readonly Unchanged: boolean };
}

/** Body of PUT /v1/job/:id/plan. */
export interface PlanRequest {
  readonly Job: JobJson;
  /** Also tell what would change in the job. */
  readonly Diff?: boolean;
}

/** Answer to PUT /v1/job/:id/plan: what registering would do. */
export interface PlanResponse {
  /** How many places of each group are touched how. */
  readonly Annotations: { readonly DesiredTGUpdates: Readonly<Record<string, GroupUpdates>> };
  /** null unless asked for. */
  readonly Diff: JobDiff | null;
  readonly FailedTGAllocs: null;
  /** As the job is stored now; 0 = there is none. For EnforceIndex of a registration. */
  readonly JobModifyIndex: number;
  readonly NextPeriodicLaunch: string;
  readonly CreatedEvals: readonly never[];
  readonly Warnings: string;
  readonly Holdfast: {
    /** Version that the job would have. */
    readonly Version: number;
    /** The job is exactly so already. */
    readonly Unchanged: boolean;
    readonly Places: readonly PlannedPlace[];
  };
}

export interface GroupUpdates {
  readonly Ignore: number;
  readonly Place: number;
  readonly Stop: number;
  readonly InPlaceUpdate: number;
  readonly DestructiveUpdate: number;
  readonly Migrate: number;
  readonly Canary: number;
  readonly Preemptions: number;
}

export type PlannedAction = 'none' | 'update_in_place' | 'replace' | 'create' | 'stop';

export interface PlannedPlace {
  readonly Group: string;
  readonly Index: number;
  /** The alloc that is there, or null. */
  readonly AllocID: string | null;
  readonly Action: PlannedAction;
  readonly Why: string;
  readonly Tasks: Readonly<Record<string, PlannedAction>>;
}

export type DiffType = 'None' | 'Added' | 'Deleted' | 'Edited';

/** One value. A name in brackets is a key of a map, or a place in a list: `Env[PORT]`, `args[0]`. */
export interface FieldDiff {
  readonly Type: DiffType;
  readonly Name: string;
  readonly Old: string;
  readonly New: string;
  readonly Annotations: null;
}

/** What differs in one object; what is the same is not there. */
export interface ObjectDiff {
  readonly Type: DiffType;
  readonly Name: string;
  readonly Fields: readonly FieldDiff[];
  readonly Objects: readonly ObjectDiff[];
}

export interface TaskDiff extends ObjectDiff {
  readonly Annotations: null;
}

export interface TaskGroupDiff extends ObjectDiff {
  readonly Tasks: readonly TaskDiff[];
  /** Words that Nomad's CLI shows: `create`, `destroy`, `in-place update`, `create/destroy update`, `ignore`. */
  readonly Updates: Readonly<Record<string, number>>;
}

export interface JobDiff {
  readonly Type: DiffType;
  readonly ID: string;
  readonly Fields: readonly FieldDiff[];
  readonly Objects: readonly ObjectDiff[];
  readonly TaskGroups: readonly TaskGroupDiff[];
}

/** Answer to PUT /v1/validate/job. */
export interface ValidateResponse {
  readonly DriverConfigValidated: boolean;
  readonly ValidationErrors: readonly string[];
  readonly Error: string;
  readonly Warnings: string;
}

// ------------------------------------------------------------------------------------------------------ allocations

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
  readonly TaskStates: Readonly<Record<string, TaskState>>;
  readonly ModifyIndex: number;
  /** Nanoseconds since 1970. */
  readonly CreateTime: number;
  readonly ModifyTime: number;
}

/** GET /v1/allocations and other lists. */
export interface AllocListStub extends FeedAllocation {
  readonly EvalID: string;
  readonly JobType: string;
  readonly FollowupEvalID: string;
  readonly NextAllocation: string;
  readonly DeploymentStatus: null;
  readonly RescheduleTracker: null;
  readonly CreateIndex: number;
}

/** GET /v1/allocation/:id. */
export interface Allocation extends AllocListStub {
  /** The job in the version that this alloc runs; null when that version is no longer on record. */
  readonly Job: Job | null;
  readonly Resources: ResourcesJson;
  readonly TaskResources: Readonly<Record<string, ResourcesJson>>;
  readonly PreviousAllocation: string;
  readonly Metrics: Readonly<Record<string, unknown>>;
}

export interface ResourceUsage {
  readonly CpuStats: {
    /** Percent of one core since the sample before. */
    readonly Percent: number;
    /** Percent expressed in MHz of this host. */
    readonly TotalTicks: number;
    readonly SystemMode: number;
    readonly UserMode: number;
    readonly ThrottledPeriods: number;
    readonly ThrottledTime: number;
    readonly Measured: readonly string[];
  };
  readonly MemoryStats: {
    readonly RSS: number;
    readonly Usage: number;
    readonly MaxUsage: number;
    readonly Cache: number;
    readonly Swap: number;
    readonly KernelUsage: number;
    readonly KernelMaxUsage: number;
    readonly Measured: readonly string[];
  };
  readonly DeviceStats: readonly never[];
}

/** GET /v1/client/allocation/:id/stats. */
export interface AllocResourceUsage {
  readonly ResourceUsage: ResourceUsage;
  readonly Tasks: Readonly<Record<string, TaskResourceUsage>>;
  readonly Timestamp: number;
}

export interface TaskResourceUsage {
  readonly ResourceUsage: ResourceUsage;
  readonly Timestamp: number;
  readonly Pids: null;
  readonly Holdfast: {
    /** null in the first sample. */
    readonly CPUPercent: number | null;
    readonly CPUTotalMs: number;
    readonly MemoryBytes: number;
    readonly MemoryLimitBytes: number | null;
    readonly Processes: number;
    /** These four are null where this host does not count it; all since the start of the run. */
    readonly MemoryPeakBytes: number | null;
    readonly ThrottledPeriods: number | null;
    readonly ThrottledMs: number | null;
    readonly OOMKills: number | null;
    readonly Source: string;
  };
}

/** Answer to PUT /v1/allocation/:id/stop. */
export interface AllocStopResponse {
  readonly EvalID: string;
  readonly Index: number;
}

/** GET /v1/holdfast/allocation/:id/runs: one attempt to start a task. */
export interface Run {
  readonly RunID: string;
  readonly AllocID: string;
  readonly Task: string;
  readonly Attempt: number;
  readonly Driver: string;
  readonly BootID: string;
  readonly SpecHash: string;
  readonly Outcome: 'open' | 'ended' | 'start_failed' | 'never_started';
  readonly IntendedAt: string;
  readonly StartedAt: string | null;
  /** For an unknown end: when it was noticed. */
  readonly EndedAt: string | null;
  /** By the monotonic clock, nanoseconds. */
  readonly RanFor: number | null;
  readonly Pid: number | null;
  /** Set when Outcome is `ended`. */
  readonly Exit: ExitJson | null;
  /** Why it did not start; '' otherwise. */
  readonly Error: string;
  readonly Usage: {
    readonly CPUUserMs: number;
    readonly CPUSystemMs: number;
    readonly PeakMemoryBytes: number;
  } | null;
  /** False when bytes at the tail of its output may be missing; null while it is open. */
  readonly LogComplete: boolean | null;
  readonly LeftoversKilled: number;
}

/** GET /v1/holdfast/events: a task event with its owner. */
export interface TaskEventRow extends TaskEvent {
  readonly AllocID: string;
  readonly JobID: string;
  readonly Task: string;
}

// ----------------------------------------------------------------------------------------- evaluations, node, agent

/** Stand-alone, an evaluation is complete when it is made. */
export interface Evaluation {
  readonly ID: string;
  readonly Priority: number;
  readonly Type: string;
  readonly TriggeredBy: 'job-register' | 'job-deregister' | 'alloc-stop';
  readonly Namespace: string;
  readonly JobID: string;
  readonly JobModifyIndex: number;
  readonly NodeID: string;
  readonly DeploymentID: string;
  readonly Status: 'complete';
  readonly StatusDescription: string;
  readonly Wait: number;
  readonly NextEval: string;
  readonly PreviousEval: string;
  readonly BlockedEval: string;
  readonly RelatedEvals: readonly never[];
  readonly FailedTGAllocs: null;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
  readonly CreateTime: number;
  readonly ModifyTime: number;
}

export interface DriverInfo {
  readonly Attributes: Readonly<Record<string, string>>;
  readonly Detected: boolean;
  readonly Healthy: boolean;
  readonly HealthDescription: string;
  readonly UpdateTime: string;
}

/** GET /v1/nodes. */
export interface NodeListStub {
  readonly ID: string;
  readonly Name: string;
  readonly Address: string;
  readonly Datacenter: string;
  readonly NodePool: string;
  readonly NodeClass: string;
  readonly Version: string;
  readonly Drain: boolean;
  readonly SchedulingEligibility: 'eligible';
  readonly Status: 'ready';
  readonly StatusDescription: string;
  readonly Attributes: Readonly<Record<string, string>>;
  readonly Drivers: Readonly<Record<string, DriverInfo>>;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
}

/** GET /v1/node/:id. */
export interface Node extends NodeListStub {
  /** Empty: callers stay at the address where they found this node. */
  readonly HTTPAddr: string;
  readonly TLSEnabled: boolean;
  readonly NodeResources: NodeResources;
  readonly ReservedResources: NodeResources;
  readonly Resources: ResourcesJson;
  readonly Reserved: ResourcesJson;
  readonly Links: Readonly<Record<string, string>>;
  readonly Meta: Readonly<Record<string, string>>;
  readonly DrainStrategy: null;
  readonly StatusUpdatedAt: number;
  readonly Events: readonly never[];
  readonly HostVolumes: Readonly<Record<string, never>>;
  readonly Holdfast: {
    readonly BootID: string;
    readonly DataDir: string;
    readonly Socket: string;
    readonly NodeVersion: string;
    /** `v2`, `hybrid`, `v1` or `none`. */
    readonly CgroupMode: string;
    readonly Capabilities: readonly HostCapability[];
    readonly StartedAt: string;
    readonly Warnings: readonly string[];
  };
}

/** One thing that this host lets us do to tasks, or does not. */
export interface HostCapability {
  readonly Name: string;
  readonly Available: boolean;
  /** How it is done; or what follows from its want. */
  readonly Detail: string;
  /** What the operator can do about it; '' when it is available. */
  readonly Cure: string;
}

/** GET /v1/client/stats. Sizes in bytes. */
export interface HostStats {
  readonly Memory: {
    readonly Total: number;
    readonly Available: number;
    readonly Used: number;
    readonly Free: number;
  };
  /** Percent of one core each, since the sample before. */
  readonly CPU: readonly {
    readonly CPU: string;
    readonly User: number;
    readonly System: number;
    readonly Idle: number;
    readonly TotalPercent: number;
    readonly TotalTicks: number;
  }[];
  readonly DiskStats: readonly HostDiskStats[];
  /** The file system of the data dir. */
  readonly AllocDirStats: HostDiskStats;
  readonly DeviceStats: readonly never[];
  /** Seconds. */
  readonly Uptime: number;
  readonly CPUTicksConsumed: number;
  readonly Timestamp: number;
}

export interface HostDiskStats {
  readonly Device: string;
  readonly Mountpoint: string;
  readonly Size: number;
  readonly Used: number;
  readonly Available: number;
  readonly UsedPercent: number;
  readonly InodesUsedPercent: number;
}

export interface NodeResources {
  readonly Cpu: { readonly CpuShares: number };
  readonly Memory: { readonly MemoryMB: number };
  readonly Disk: { readonly DiskMB: number };
  readonly Networks: readonly never[] | { readonly ReservedHostPorts: string };
}

/** GET /v1/agent/self. */
export interface AgentSelf {
  readonly config: Readonly<Record<string, unknown>>;
  readonly member: AgentMember;
  readonly stats: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export interface AgentMember {
  readonly Name: string;
  readonly Addr: string;
  readonly Port: number;
  readonly Status: 'alive';
  readonly Tags: Readonly<Record<string, string>>;
}

/** GET /v1/agent/health: 200 when both are ok, else 500. */
export interface AgentHealth {
  readonly client: { readonly ok: boolean; readonly message: string };
  readonly server: { readonly ok: boolean; readonly message: string };
}

/** Answer to PUT /v1/search. */
export interface SearchResponse {
  readonly Matches: Readonly<Record<string, readonly string[]>>;
  readonly Truncations: Readonly<Record<string, boolean>>;
}

/** One frame of a log stream that is not plain: `{}` is a heartbeat, Data is base64. */
export interface StreamFrame {
  readonly Offset?: number;
  readonly Data?: string;
  readonly File?: string;
  readonly FileEvent?: string;
}

// ------------------------------------------------------------------------------------------------------------- feed

export const FEED_TOPICS = ['Job', 'Allocation', 'TaskEvent', 'Evaluation', 'Node'] as const;
export type FeedTopic = (typeof FEED_TOPICS)[number];

interface FeedEventBase {
  /** Job id, alloc id, or `<alloc>/<task>`. */
  readonly Key: string;
  /** Other keys by which a filter finds it: the job id. */
  readonly FilterKeys: readonly string[];
  readonly Namespace: string;
  readonly Index: number;
  /** Nanoseconds since 1970. */
  readonly Time: number;
}

export type FeedEvent = FeedEventBase &
  (
    | {
        readonly Topic: 'Job';
        readonly Type: 'JobRegistered' | 'JobDeregistered';
        readonly Payload: { readonly Job: FeedJob };
      }
    | {
        readonly Topic: 'Job';
        readonly Type: 'JobPurged';
        readonly Payload: { readonly Job: null; readonly Deleted: true };
      }
    | {
        readonly Topic: 'Allocation';
        readonly Type: 'AllocationUpdated';
        readonly Payload: { readonly Allocation: FeedAllocation };
      }
    | {
        readonly Topic: 'Allocation';
        readonly Type: 'AllocationPurged';
        readonly Payload: { readonly Allocation: null; readonly Deleted: true };
      }
    | {
        readonly Topic: 'TaskEvent';
        readonly Type: 'TaskEvent';
        readonly Payload: { readonly TaskEvent: TaskEventRow };
      }
  );

export interface FeedSnapshot {
  readonly Node: Node;
  readonly Jobs: readonly FeedJob[];
  readonly Allocations: readonly FeedAllocation[];
}

/** One message of the feed; `{}` is a heartbeat. Tell them apart by the key that is there. */
export type FeedMessage =
  | { readonly Index: number; readonly Events: readonly FeedEvent[] }
  | { readonly Index: number; readonly Snapshot: FeedSnapshot }
  | { readonly Index: number; readonly Lost: { readonly From: number; readonly To: number } }
  | Readonly<Record<string, never>>;

// -------------------------------------------------------------------------------------------------- job file → body

/** The job as PUT /v1/jobs takes it. `parseJobJson` of jobspec reads it back to the same job. */
export function jobSpecToWire(job: JobSpec): JobJson {
  return {
    ID: job.id,
    Name: job.name,
    Namespace: job.namespace,
    Region: job.region,
    Type: job.type,
    Priority: job.priority,
    Datacenters: job.datacenters,
    Meta: job.meta,
    TaskGroups: job.groups.map((group) => ({
      Name: group.name,
      Count: group.count,
      Meta: group.meta,
      Tasks: group.tasks.map(taskSpecToWire),
      Update: updateToWire(group.update),
      ReschedulePolicy: reschedulePolicyToWire(group.reschedule),
    })),
    Periodic: periodicToWire(job),
    ParameterizedJob: job.parameterized === undefined ? null : parameterizedToWire(job.parameterized),
  };
}

function periodicToWire({ periodic }: JobSpec): PeriodicJson | null {
  if (periodic === undefined) return null;
  const { crons, timeZone, prohibitOverlap, enabled } = periodic;
  return {
    Enabled: enabled,
    Spec: crons[0] ?? '',
    Specs: crons,
    SpecType: 'cron',
    ProhibitOverlap: prohibitOverlap,
    TimeZone: timeZone,
  };
}

function parameterizedToWire(spec: NonNullable<JobSpec['parameterized']>): ParameterizedJson {
  return { Payload: spec.payload, MetaRequired: spec.metaRequired, MetaOptional: spec.metaOptional };
}

function updateToWire(policy: UpdatePolicy | undefined): UpdateJson | null {
  if (policy === undefined) return null;
  return {
    MaxParallel: policy.maxParallel,
    HealthCheck: policy.healthCheck,
    MinHealthyTime: msToNs(policy.minHealthyTimeMs),
    HealthyDeadline: msToNs(policy.healthyDeadlineMs),
    ProgressDeadline: msToNs(policy.progressDeadlineMs),
    AutoRevert: policy.autoRevert,
    AutoPromote: policy.autoPromote,
    Canary: 0,
    Stagger: msToNs(policy.staggerMs),
  };
}

function reschedulePolicyToWire(policy: ReschedulePolicy | undefined): ReschedulePolicyJson | null {
  if (policy === undefined) return null;
  return {
    Attempts: policy.attempts,
    Interval: msToNs(policy.intervalMs),
    Delay: msToNs(policy.delayMs),
    DelayFunction: policy.delayFunction,
    MaxDelay: msToNs(policy.maxDelayMs),
    Unlimited: policy.unlimited,
  };
}

function taskSpecToWire(task: Task): TaskJson {
  return {
    Name: task.name,
    Driver: task.driver,
    User: task.user ?? '',
    Config: task.config,
    Env: task.env,
    Meta: task.meta,
    Resources: resourcesToWire(task),
    RestartPolicy: restartPolicyToWire(task.restart),
    KillTimeout: msToNs(task.killTimeoutMs),
    KillSignal: task.killSignal ?? '',
    ShutdownDelay: msToNs(task.shutdownDelayMs),
    LogConfig: {
      MaxFiles: task.logs.maxFiles,
      MaxFileSizeMB: task.logs.maxFileSizeMib,
      Disabled: task.logs.disabled,
    },
    Leftovers: task.leftovers,
    Leader: task.leader,
    Lifecycle:
      task.lifecycle === undefined ? null : { Hook: task.lifecycle.hook, Sidecar: task.lifecycle.sidecar },
  };
}

/** What a task asks for, in Nomad's keys. */
export function resourcesToWire({ resources }: Pick<Task, 'resources'>): ResourcesJson {
  return {
    CPU: resources.cpuMhz,
    MemoryMB: resources.memoryMib,
    MemoryMaxMB: resources.memoryMaxMib ?? 0,
    DiskMB: 0,
    ...(resources.cpuPercent === undefined ? {} : { CPUPercent: resources.cpuPercent }),
    ...(resources.pids === undefined ? {} : { Pids: resources.pids }),
  };
}

function restartPolicyToWire(policy: RestartPolicy): RestartPolicyJson {
  return {
    Attempts: policy.attempts,
    Interval: msToNs(policy.intervalMs),
    Delay: msToNs(policy.delayMs),
    Mode: policy.mode,
    Factor: policy.factor,
    ...(policy.maxDelayMs === undefined ? {} : { MaxDelay: msToNs(policy.maxDelayMs) }),
    Jitter: policy.jitter,
    ...(policy.resetAfterMs === undefined ? {} : { ResetAfter: msToNs(policy.resetAfterMs) }),
  };
}

// ----------------------------------------------------------------------------------------------------------- doctor

/** What `GET /v1/holdfast/doctor` has found: one thing that is not as it should be. */
export interface DoctorFinding {
  readonly Kind: string;
  readonly Subject: string;
  readonly Problem: string;
  readonly Advice: string;
  /** True when `PUT` can cure it. */
  readonly CanFix: boolean;
  readonly Outcome: 'open' | 'fixed' | 'failed';
  /** Why the cure failed; else ''. */
  readonly Error: string;
}
