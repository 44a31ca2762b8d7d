/**
 * Owns the shapes of jobs: as they are registered, read and listed. A little over 300 lines because a job holds groups,
 * which hold tasks.
 */

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

export interface ReschedulePolicyJson {
  readonly Attempts: number;
  readonly Interval: number;
  readonly Delay: number;
  readonly DelayFunction: string;
  readonly MaxDelay: number;
  readonly Unlimited: boolean;
}

export interface TaskGroupJson {
  readonly Name: string;
  readonly Count: number;
  readonly Meta: Readonly<Record<string, string>> | null;
  readonly Tasks: readonly TaskJson[];
  readonly ReschedulePolicy?: ReschedulePolicyJson;
  /** These are not there when nothing was written of them. */
  readonly Networks?: readonly NetworkJson[];
  readonly Services?: readonly ServiceJson[];
  readonly Volumes?: Readonly<Record<string, VolumeJson>>;
  readonly ShutdownDelay?: number;
  readonly MaxRunDuration?: number;
  readonly Update?: UpdateJson;
}

export interface VolumeJson {
  readonly Name: string;
  readonly Type: string;
  readonly Source: string;
  readonly ReadOnly: boolean;
}

export interface VolumeMountJson {
  readonly Volume: string;
  readonly Destination: string;
  readonly ReadOnly: boolean;
}

export interface NetworkJson {
  readonly Mode: string;
  readonly ReservedPorts: readonly { readonly Label: string; readonly Value: number }[];
  readonly DynamicPorts: readonly { readonly Label: string }[];
}

export interface ServiceJson {
  readonly Name: string;
  readonly Provider: string;
  readonly Address: string;
  readonly Tags: readonly string[] | null;
  readonly Checks: readonly CheckJson[];
}

export interface CheckJson {
  readonly Name: string;
  readonly Type: string;
  readonly Interval: number;
  readonly Timeout: number;
  readonly TaskName: string;
  readonly PortLabel?: string;
  readonly Protocol?: string;
  readonly Path?: string;
  readonly Method?: string;
  readonly Header?: Readonly<Record<string, readonly string[]>> | null;
  readonly Body?: string;
  readonly TLSSkipVerify?: boolean;
  readonly TLSServerName?: string;
  readonly Command?: string;
  readonly Args?: readonly string[] | null;
  readonly InitialStatus: string;
  readonly SuccessBeforePassing: number;
  readonly FailuresBeforeCritical: number;
  readonly OnUpdate: string;
  readonly CheckRestart: {
    readonly Limit: number;
    readonly Grace: number;
    readonly IgnoreWarnings: boolean;
  } | null;
}

export interface UpdateJson {
  readonly Stagger: number;
  readonly MaxParallel: number;
  readonly HealthCheck: string;
  readonly MinHealthyTime: number;
  readonly HealthyDeadline: number;
  readonly ProgressDeadline: number;
  readonly AutoRevert: boolean;
  readonly AutoPromote: boolean;
  readonly Canary: number;
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
    /** Ours. Absent = false. */
    readonly Compress?: boolean;
  };
  /** Ours: `kill` or `keep`. */
  readonly Leftovers: string;
  readonly LeftoversTimeout?: number;
  /** `SIGTERM:10000ms`; empty = KillSignal alone. */
  readonly StopSignals: readonly string[];
  readonly Leader: boolean;
  readonly Lifecycle: { readonly Hook: string; readonly Sidecar: boolean } | null;
  /** Not there when there is none. */
  readonly Services?: readonly ServiceJson[];
  /** Not there when there are none. */
  readonly Artifacts?: readonly ArtifactJson[];
  readonly Templates?: readonly TemplateJson[];
  readonly VolumeMounts?: readonly VolumeMountJson[];
  readonly DispatchPayload?: { readonly File: string };
}

export interface ArtifactJson {
  readonly GetterSource: string;
  readonly GetterOptions: Readonly<Record<string, string>>;
  readonly GetterHeaders: Readonly<Record<string, string>>;
  readonly GetterMode: string;
  readonly RelativeDest: string;
  readonly Chown: boolean;
}

export interface TemplateJson {
  readonly EmbeddedTmpl: string;
  readonly SourcePath: string;
  readonly DestPath: string;
  readonly ChangeMode: string;
  readonly ChangeSignal: string;
  /** Not there when there is none. */
  readonly ChangeScript?: {
    readonly Command: string;
    readonly Args: readonly string[] | null;
    readonly Timeout: number;
    readonly FailOnError: boolean;
  };
  readonly Splay: number;
  readonly Perms: string;
  readonly Uid: number | null;
  readonly Gid: number | null;
  readonly Envvars: boolean;
  readonly ErrMissingKey: boolean;
  readonly Once: boolean;
  readonly LeftDelim: string;
  readonly RightDelim: string;
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
  /** Cores that no other task has; absent = none. */
  readonly Cores?: number;
  /** These four are ours. -1 = no limit. */
  readonly MemorySwapMB?: number;
  readonly IOWeight?: number;
  /** MiB a second. */
  readonly IOReadMB?: number;
  readonly IOWriteMB?: number;
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
  /** A deployment of this version has succeeded. */
  readonly Stable: boolean;
  readonly Dispatched: boolean;
  /** When the clock launches it next, or null. */
  readonly Holdfast: { readonly NextLaunch: string | null };
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
  readonly Holdfast: { readonly NextLaunch: string | null };
}

/** GET /v1/job/:id/versions. */
export interface JobVersions {
  readonly Versions: readonly Job[];
  readonly Diffs: null;
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
