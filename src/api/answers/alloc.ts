/**
 * Owns the schemas of allocs, their tasks, events, attempts, checks, files, and what they use. A little over 300 lines
 * because an alloc is answered with all of them.
 */
import { z } from 'zod';
import type {
  AllocFileInfo,
  Allocation as AllocationJson,
  AllocListStub as AllocListStubJson,
  AllocResourceUsage,
  AllocStopResponse,
  AllocUsageHistory,
  CheckView,
  ExitJson,
  FeedAllocation as FeedAllocationJson,
  Run as RunJson,
  TaskEvent as TaskEventJson,
  TaskEventRow,
  TaskResourceUsage,
  TaskState as TaskStateJson,
} from '../wire.js';
import { AllocatedResources, InForce } from './allocated.js';
import { Job } from './job.js';
import { Resources } from './job-spec.js';
import {
  amount,
  count,
  flag,
  named,
  nanoseconds,
  noList,
  nothing,
  text,
  texts,
  time,
  type Shape,
} from './values.js';

export const Exit = named(
  'Exit',
  z.object({
    Kind: z.enum(['exited', 'signaled', 'unknown']),
    Code: z.int().nullable(),
    Signal: z.int().nullable(),
    SignalName: text,
    OOMKilled: flag,
    CoreDumped: flag,
    Reason: text,
    Text: text.min(1),
  } satisfies Shape<ExitJson>),
) satisfies z.ZodType<ExitJson>;

const eventFields = {
  Type: text.min(1),
  Time: nanoseconds,
  DisplayMessage: text,
  Details: texts,
  Message: text,
  FailsTask: flag,
  RestartReason: text,
  SetupError: text,
  DriverError: text,
  DriverMessage: text,
  ExitCode: z.int(),
  Signal: z.int(),
  KillReason: text,
  KillTimeout: nanoseconds,
  KillError: text,
  StartDelay: nanoseconds,
  ValidationError: text,
  DownloadError: text,
  FailedSibling: text,
  TaskSignal: text,
  TaskSignalReason: text,
  Holdfast: z.object({ Seq: z.int().positive(), Exit: Exit.nullable() }),
};

export const TaskEvent = named('TaskEvent', z.object(eventFields)) satisfies z.ZodType<TaskEventJson>;

export const TaskEventList = named(
  'TaskEventList',
  z.array(z.object({ ...eventFields, AllocID: text, JobID: text, Task: text })),
) satisfies z.ZodType<TaskEventRow[]>;

export const TaskState = named(
  'TaskState',
  z.object({
    State: z.enum(['pending', 'running', 'dead']),
    Failed: flag,
    Restarts: count,
    LastRestart: time,
    StartedAt: time,
    FinishedAt: time,
    Events: z.array(TaskEvent),
    Holdfast: z.object({
      Phase: z.enum([
        'waiting',
        'prestart',
        'starting',
        'running',
        'stopping',
        'unkillable',
        'exited',
        'backoff',
        'dead',
        'complete',
      ]),
      PhaseDetail: text,
      WaitingSince: time.exactOptional(),
      NextStart: time.nullable(),
      KillReason: text.nullable(),
      LastExit: Exit.nullable(),
      RunID: text.nullable(),
      Pid: z.int().positive().nullable(),
      Attempts: count,
      RestartsUsed: count,
      EventsDropped: count,
      InForce: InForce.exactOptional(),
    }),
  } satisfies Shape<TaskStateJson>),
) satisfies z.ZodType<TaskStateJson>;

const DeploymentStatus = z.object({
  Healthy: flag,
  Timestamp: time,
  Canary: flag,
  ModifyIndex: count,
  Holdfast: z.object({ Detail: text }),
});

/** All that follows from the records of an alloc alone. */
export const FeedAllocation = named(
  'FeedAllocation',
  z.object({
    ID: z.uuid(),
    Name: text.min(1),
    Namespace: text,
    NodeID: text,
    NodeName: text,
    JobID: text,
    JobVersion: count,
    TaskGroup: text,
    DesiredStatus: z.enum(['run', 'stop']),
    DesiredDescription: text,
    ClientStatus: z.enum(['pending', 'running', 'complete', 'failed', 'lost', 'unknown']),
    ClientDescription: text,
    DeploymentID: text,
    DeploymentStatus: DeploymentStatus.nullable(),
    TaskStates: z.record(z.string(), TaskState),
    ModifyIndex: count,
    CreateTime: nanoseconds,
    ModifyTime: nanoseconds,
  } satisfies Shape<FeedAllocationJson>),
) satisfies z.ZodType<FeedAllocationJson>;

export const AllocListStub = named(
  'AllocListStub',
  z.object({
    ...FeedAllocation.shape,
    EvalID: text,
    JobType: text,
    FollowupEvalID: text,
    NextAllocation: text,
    PreviousAllocation: text,
    RescheduleTracker: z
      .object({
        Events: z.array(
          z.object({ RescheduleTime: nanoseconds, PrevAllocID: text, PrevNodeID: text, Delay: nanoseconds }),
        ),
      })
      .nullable(),
    Holdfast: z.object({ RescheduleAt: time.nullable(), RescheduleStopped: text }),
    CreateIndex: count,
  } satisfies Shape<AllocListStubJson>),
) satisfies z.ZodType<AllocListStubJson>;

export const AllocList = named('AllocList', z.array(AllocListStub));

export const Allocation = named(
  'Allocation',
  z.object({
    ...AllocListStub.shape,
    Job: Job.nullable(),
    Resources,
    TaskResources: z.record(z.string(), Resources),
    AllocatedResources,
    Metrics: z.record(z.string(), z.unknown()),
  } satisfies Shape<AllocationJson>),
) satisfies z.ZodType<AllocationJson>;

export const FullAllocList = named('FullAllocList', z.array(Allocation));

export const AllocStopped = named(
  'AllocStopped',
  z.object({ EvalID: z.uuid(), Index: count }),
) satisfies z.ZodType<AllocStopResponse>;

const ResourceUsage = z.object({
  CpuStats: z.object({
    Percent: amount,
    TotalTicks: amount,
    SystemMode: amount,
    UserMode: amount,
    ThrottledPeriods: count,
    ThrottledTime: nanoseconds,
    Measured: z.array(text),
  }),
  MemoryStats: z.object({
    RSS: count,
    Usage: count,
    MaxUsage: count,
    Cache: count,
    Swap: count,
    KernelUsage: count,
    KernelMaxUsage: count,
    Measured: z.array(text),
  }),
  DeviceStats: noList,
});

export const TaskUsage = named(
  'TaskUsage',
  z.object({
    ResourceUsage,
    Timestamp: nanoseconds,
    Pids: nothing,
    Holdfast: z.object({
      CPUPercent: amount.nullable(),
      CPUTotalMs: amount,
      MemoryBytes: count,
      MemoryLimitBytes: count.nullable(),
      Processes: count,
      MemoryPeakBytes: count.nullable(),
      ThrottledPeriods: count.nullable(),
      ThrottledMs: amount.nullable(),
      OOMKills: count.nullable(),
      CPUUserMs: amount.nullable(),
      CPUSystemMs: amount.nullable(),
      IOReadBytes: count.nullable(),
      IOWriteBytes: count.nullable(),
      Pressure: z
        .object({ CPU: amount.nullable(), Memory: amount.nullable(), IO: amount.nullable() })
        .nullable(),
      Source: text,
    }),
  }),
) satisfies z.ZodType<TaskResourceUsage>;

export const AllocUsage = named(
  'AllocUsage',
  z.object({ ResourceUsage, Tasks: z.record(z.string(), TaskUsage), Timestamp: nanoseconds }),
) satisfies z.ZodType<AllocResourceUsage>;

export const UsageHistory = named(
  'UsageHistory',
  z.object({ EveryMs: count, Tasks: z.record(z.string(), z.array(TaskUsage)) }),
) satisfies z.ZodType<AllocUsageHistory>;

const CheckStatus = z.enum(['pending', 'success', 'failure']);

export const Checks = named(
  'Checks',
  z.record(
    z.string(),
    z.object({
      ID: text,
      Mode: z.enum(['healthiness', 'readiness']),
      Status: CheckStatus,
      StatusCode: count,
      Output: text,
      Timestamp: count,
      Group: text,
      Task: text,
      Service: text,
      Check: text,
      Holdfast: z.object({
        Status: z.enum([...CheckStatus.options, 'warning']),
        Interval: nanoseconds,
        Results: z.array(
          z.object({
            Status: z.enum(['success', 'warning', 'failure']),
            StatusCode: count,
            Output: text,
            Time: nanoseconds,
          }),
        ),
      }),
    }),
  ),
) satisfies z.ZodType<Record<string, CheckView>>;

export const FileInfo = named(
  'FileInfo',
  z.object({ Name: text, IsDir: flag, Size: count, FileMode: text, ModTime: time, ContentType: text }),
) satisfies z.ZodType<AllocFileInfo>;

export const FileList = named('FileList', z.array(FileInfo));

export const RunList = named(
  'RunList',
  z.array(
    z.object({
      RunID: text,
      AllocID: text,
      Task: text,
      Attempt: count,
      Driver: text,
      BootID: text,
      SpecHash: text,
      Outcome: z.enum(['open', 'ended', 'start_failed', 'never_started']),
      IntendedAt: time,
      StartedAt: time.nullable(),
      EndedAt: time.nullable(),
      RanFor: nanoseconds.nullable(),
      Pid: z.int().positive().nullable(),
      Exit: Exit.nullable(),
      Error: text,
      Usage: z
        .object({
          CPUUserMs: amount.nullable(),
          CPUSystemMs: amount.nullable(),
          PeakMemoryBytes: count.nullable(),
        })
        .nullable(),
      LogComplete: flag.nullable(),
      LeftoversKilled: count,
      MemoryLimitHits: count.nullable(),
    }),
  ),
) satisfies z.ZodType<RunJson[]>;
