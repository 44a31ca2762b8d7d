/** Owns the schemas of the host as a node, of the agent, of evaluations and deployments, and of errors. */
import { z } from 'zod';
import type {
  AgentHealth,
  AgentSelf,
  Deployment as DeploymentJson,
  DeploymentUpdateResponse,
  DoctorFinding,
  ErrorBody as ErrorBodyJson,
  Evaluation as EvaluationJson,
  HostStats as HostStatsJson,
  Node as NodeJson,
  NodeListStub as NodeListStubJson,
  NodeUpdateResponse,
  SearchResponse,
} from '../wire.js';
import { ERROR_CODES } from '../../base/errors.js';
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

export const ErrorBody = named(
  'Error',
  z.object({ Code: z.enum(ERROR_CODES), Message: text.min(1) }),
) satisfies z.ZodType<ErrorBodyJson>;

const Driver = z.object({
  Attributes: texts,
  Detected: flag,
  Healthy: flag,
  HealthDescription: text,
  UpdateTime: time,
});

const Eligibility = z.enum(['eligible', 'ineligible']);

export const NodeListStub = named(
  'NodeListStub',
  z.object({
    ID: z.uuid(),
    Name: text.min(1),
    Address: text,
    Datacenter: text,
    NodePool: text,
    NodeClass: text,
    Version: text,
    Drain: flag,
    SchedulingEligibility: Eligibility,
    Status: z.literal('ready'),
    StatusDescription: text,
    Attributes: texts,
    Drivers: z.record(z.string(), Driver),
    CreateIndex: count,
    ModifyIndex: count,
  }),
) satisfies z.ZodType<NodeListStubJson>;

export const NodeList = named('NodeList', z.array(NodeListStub));

const NodeResources = z.object({
  Cpu: z.object({ CpuShares: amount }),
  Memory: z.object({ MemoryMB: amount }),
  Disk: z.object({ DiskMB: amount }),
  Networks: z.union([noList, z.object({ ReservedHostPorts: text })]),
});

const DrainStrategy = z.object({
  Deadline: nanoseconds,
  IgnoreSystemJobs: flag,
  ForceDeadline: time,
  StartedAt: time,
});

export const Node = named(
  'Node',
  z.object({
    ...NodeListStub.shape,
    HTTPAddr: text,
    TLSEnabled: flag,
    NodeResources,
    ReservedResources: NodeResources,
    Resources,
    Reserved: Resources,
    Links: texts,
    Meta: texts,
    DrainStrategy: DrainStrategy.nullable(),
    StatusUpdatedAt: count,
    Events: noList,
    HostVolumes: z.record(z.string(), z.never()),
    Holdfast: z.object({
      BootID: text,
      DataDir: text,
      Socket: text,
      NodeVersion: text,
      CgroupMode: text,
      CgroupsDelegated: z.array(text.min(1)),
      Capabilities: z.array(z.object({ Name: text, Available: flag, Detail: text, Cure: text })),
      StartedAt: time,
      Warnings: z.array(text),
    }),
  } satisfies Shape<NodeJson>),
) satisfies z.ZodType<NodeJson>;

export const NodeChanged = named(
  'NodeChanged',
  z.object({ NodeModifyIndex: count, EvalIDs: z.array(text), EvalCreateIndex: count }),
) satisfies z.ZodType<NodeUpdateResponse>;

const Disk = z.object({
  Device: text,
  Mountpoint: text,
  Size: count,
  Used: count,
  Available: count,
  UsedPercent: amount,
  InodesUsedPercent: amount,
});

export const HostStats = named(
  'HostStats',
  z.object({
    Memory: z.object({ Total: count, Available: count, Used: count, Free: count }),
    CPU: z.array(
      z.object({
        CPU: text,
        User: amount,
        System: amount,
        Idle: amount,
        TotalPercent: amount,
        TotalTicks: amount,
      }),
    ),
    DiskStats: z.array(Disk),
    AllocDirStats: Disk,
    DeviceStats: noList,
    Uptime: amount,
    CPUTicksConsumed: amount,
    Timestamp: nanoseconds,
  }),
) satisfies z.ZodType<HostStatsJson>;

export const Evaluation = named(
  'Evaluation',
  z.object({
    ID: z.uuid(),
    Priority: count,
    Type: text,
    TriggeredBy: z.enum([
      'job-register',
      'job-deregister',
      'alloc-stop',
      'alloc-failure',
      'deployment-watcher',
      'periodic-job',
    ]),
    Namespace: text,
    JobID: text,
    JobModifyIndex: count,
    NodeID: text,
    DeploymentID: text,
    Status: z.enum(['pending', 'complete', 'canceled']),
    StatusDescription: text,
    Wait: nanoseconds,
    WaitUntil: time,
    NextEval: text,
    PreviousEval: text,
    BlockedEval: text,
    RelatedEvals: noList,
    FailedTGAllocs: nothing,
    CreateIndex: count,
    ModifyIndex: count,
    CreateTime: nanoseconds,
    ModifyTime: nanoseconds,
  } satisfies Shape<EvaluationJson>),
) satisfies z.ZodType<EvaluationJson>;

export const EvaluationList = named('EvaluationList', z.array(Evaluation));

const DeploymentState = z.object({
  AutoRevert: flag,
  AutoPromote: z.literal(false),
  ProgressDeadline: nanoseconds,
  RequireProgressBy: time,
  Promoted: z.literal(false),
  PlacedCanaries: nothing,
  DesiredCanaries: z.literal(0),
  DesiredTotal: count,
  PlacedAllocs: count,
  HealthyAllocs: count,
  UnhealthyAllocs: count,
});

export const Deployment = named(
  'Deployment',
  z.object({
    ID: z.uuid(),
    Namespace: text,
    JobID: text,
    JobVersion: count,
    JobCreateIndex: count,
    IsMultiregion: z.literal(false),
    TaskGroups: z.record(z.string(), DeploymentState),
    Status: z.enum(['running', 'paused', 'successful', 'failed', 'cancelled']),
    StatusDescription: text,
    CreateIndex: count,
    ModifyIndex: count,
    CreateTime: nanoseconds,
    ModifyTime: nanoseconds,
  } satisfies Shape<DeploymentJson>),
) satisfies z.ZodType<DeploymentJson>;

export const DeploymentOrNone = named('DeploymentOrNone', Deployment.nullable());
export const DeploymentList = named('DeploymentList', z.array(Deployment));

export const DeploymentChanged = named(
  'DeploymentChanged',
  z.object({
    EvalID: text,
    EvalCreateIndex: count,
    DeploymentModifyIndex: count,
    RevertedJobVersion: count.nullable(),
    Index: count,
  }),
) satisfies z.ZodType<DeploymentUpdateResponse>;

const Member = z.object({ Name: text, Addr: text, Port: count, Status: z.literal('alive'), Tags: texts });

export const Self = named(
  'AgentSelf',
  z.object({
    config: z.record(z.string(), z.unknown()),
    member: Member,
    stats: z.record(z.string(), texts),
  }),
) satisfies z.ZodType<AgentSelf>;

export const Members = named(
  'AgentMembers',
  z.object({ ServerName: text, ServerRegion: text, ServerDC: text, Members: z.array(Member) }),
);

const Wellness = z.object({ ok: flag, message: text });

export const Health = named(
  'AgentHealth',
  z.object({ client: Wellness, server: Wellness }),
) satisfies z.ZodType<AgentHealth>;

export const Search = named(
  'SearchResult',
  z.object({
    Matches: z.record(z.string(), z.array(text)),
    Truncations: z.record(z.string(), flag),
  }),
) satisfies z.ZodType<SearchResponse>;

export const Findings = named(
  'DoctorFindings',
  z.array(
    z.object({
      Kind: text,
      Subject: text,
      Problem: text,
      Advice: text,
      CanFix: flag,
      Outcome: z.enum(['open', 'fixed', 'failed']),
      Error: text,
    }),
  ),
) satisfies z.ZodType<DoctorFinding[]>;

export const Collected = named('Collected', z.object({ Collected: count }));
/** Nothing more to say. */
export const Done = named('Done', z.object({}));
export const Text = named('Text', z.string());
export const TextList = named('TextList', z.array(text));
/** This document. */
export const OpenApi = named('OpenApi', z.looseObject({ openapi: text, paths: z.looseObject({}) }));
