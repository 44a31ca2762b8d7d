/** Owns the schemas of the parts of a job, as they are served: every default is filled in. */
import { z } from 'zod';
import type { ServiceJson, TaskGroupJson, TaskJson, ResourcesJson } from '../wire.js';
import { amount, count, flag, named, nanoseconds, text, texts, type Shape } from './values.js';

export const Resources = named(
  'Resources',
  z.object({
    CPU: count,
    MemoryMB: count,
    MemoryMaxMB: z.int(),
    DiskMB: count,
    CPUPercent: amount.exactOptional(),
    Pids: count.exactOptional(),
    Cores: count.exactOptional(),
    MemorySwapMB: z.int().exactOptional(),
    IOWeight: count.exactOptional(),
    IOReadMB: count.exactOptional(),
    IOWriteMB: count.exactOptional(),
  } satisfies Shape<ResourcesJson>),
) satisfies z.ZodType<ResourcesJson>;

const RestartPolicy = z.object({
  Attempts: count,
  Interval: nanoseconds,
  Delay: nanoseconds,
  Mode: text,
  Factor: amount,
  MaxDelay: nanoseconds.exactOptional(),
  Jitter: amount,
  ResetAfter: nanoseconds.exactOptional(),
});

const Check = z.object({
  Name: text,
  Type: text,
  Interval: nanoseconds,
  Timeout: nanoseconds,
  TaskName: text,
  PortLabel: text.exactOptional(),
  Protocol: text.exactOptional(),
  Path: text.exactOptional(),
  Method: text.exactOptional(),
  Header: z.record(z.string(), z.array(text)).nullable().exactOptional(),
  Body: text.exactOptional(),
  TLSSkipVerify: flag.exactOptional(),
  TLSServerName: text.exactOptional(),
  Command: text.exactOptional(),
  Args: z.array(text).nullable().exactOptional(),
  InitialStatus: text,
  SuccessBeforePassing: count,
  FailuresBeforeCritical: count,
  OnUpdate: text,
  CheckRestart: z.object({ Limit: count, Grace: nanoseconds, IgnoreWarnings: flag }).nullable(),
});

const Service = z.object({
  Name: text,
  Provider: text,
  Address: text,
  Tags: z.array(text).nullable(),
  Checks: z.array(Check),
}) satisfies z.ZodType<ServiceJson>;

const Artifact = z.object({
  GetterSource: text,
  GetterOptions: texts,
  GetterHeaders: texts,
  GetterMode: text,
  RelativeDest: text,
  Chown: flag,
});

const Template = z.object({
  EmbeddedTmpl: text,
  SourcePath: text,
  DestPath: text,
  ChangeMode: text,
  ChangeSignal: text,
  ChangeScript: z
    .object({ Command: text, Args: z.array(text).nullable(), Timeout: nanoseconds, FailOnError: flag })
    .exactOptional(),
  Splay: nanoseconds,
  Perms: text,
  Uid: z.int().nullable(),
  Gid: z.int().nullable(),
  Envvars: flag,
  ErrMissingKey: flag,
  Once: flag,
  LeftDelim: text,
  RightDelim: text,
});

const Volume = z.object({ Name: text, Type: text, Source: text, ReadOnly: flag });
const VolumeMount = z.object({ Volume: text, Destination: text, ReadOnly: flag });

export const Task = named(
  'Task',
  z.object({
    Name: text,
    Driver: text,
    User: text,
    Config: z.record(z.string(), z.unknown()),
    Env: texts.nullable(),
    Meta: texts.nullable(),
    Resources,
    RestartPolicy,
    KillTimeout: nanoseconds,
    KillSignal: text,
    ShutdownDelay: nanoseconds,
    LogConfig: z.object({
      MaxFiles: count,
      MaxFileSizeMB: count,
      Disabled: flag,
      Compress: flag.exactOptional(),
    }),
    Leftovers: text,
    LeftoversTimeout: nanoseconds.exactOptional(),
    StopSignals: z.array(text),
    Leader: flag,
    Lifecycle: z.object({ Hook: text, Sidecar: flag }).nullable(),
    Services: z.array(Service).exactOptional(),
    Artifacts: z.array(Artifact).exactOptional(),
    Templates: z.array(Template).exactOptional(),
    VolumeMounts: z.array(VolumeMount).exactOptional(),
    DispatchPayload: z.object({ File: text }).exactOptional(),
  } satisfies Shape<TaskJson>),
) satisfies z.ZodType<TaskJson>;

const Network = z.object({
  Mode: text,
  ReservedPorts: z.array(z.object({ Label: text, Value: count })),
  DynamicPorts: z.array(z.object({ Label: text })),
});

const Update = z.object({
  Stagger: nanoseconds,
  MaxParallel: count,
  HealthCheck: text,
  MinHealthyTime: nanoseconds,
  HealthyDeadline: nanoseconds,
  ProgressDeadline: nanoseconds,
  AutoRevert: flag,
  AutoPromote: flag,
  Canary: count,
});

const ReschedulePolicy = z.object({
  Attempts: count,
  Interval: nanoseconds,
  Delay: nanoseconds,
  DelayFunction: text,
  MaxDelay: nanoseconds,
  Unlimited: flag,
});

export const TaskGroup = named(
  'TaskGroup',
  z.object({
    Name: text,
    Count: count,
    Meta: texts.nullable(),
    Tasks: z.array(Task).min(1),
    ReschedulePolicy: ReschedulePolicy.exactOptional(),
    Networks: z.array(Network).exactOptional(),
    Volumes: z.record(z.string(), Volume).exactOptional(),
    Services: z.array(Service).exactOptional(),
    ShutdownDelay: nanoseconds.exactOptional(),
    MaxRunDuration: nanoseconds.exactOptional(),
    Update: Update.exactOptional(),
  } satisfies Shape<TaskGroupJson>),
) satisfies z.ZodType<TaskGroupJson>;
