/** Owns the schemas of jobs as they are read and listed, and of what comes of changing one. */
import { z } from 'zod';
import type {
  DispatchResponse,
  FeedJob as FeedJobJson,
  Job as JobJson,
  JobListStub as JobListStubJson,
  JobSummary as JobSummaryJson,
  JobVersions as JobVersionsJson,
  PeriodicForceResponse,
  RegisterResponse,
} from '../wire.js';
import { TaskGroup } from './job-spec.js';
import { count, flag, named, nanoseconds, nothing, text, texts, time, type Shape } from './values.js';

const Periodic = z.object({
  Enabled: flag,
  Spec: text,
  Specs: z.array(text),
  SpecType: z.literal('cron'),
  ProhibitOverlap: flag,
  TimeZone: text,
});

const Parameterized = z.object({
  Payload: text,
  MetaRequired: z.array(text),
  MetaOptional: z.array(text),
});

/** All that follows from the record of a job alone. */
export const FeedJob = named(
  'FeedJob',
  z.object({
    ID: text.min(1),
    Name: text.min(1),
    Namespace: text.min(1),
    Region: text,
    Type: text.min(1),
    Priority: count,
    Datacenters: z.array(text),
    Meta: texts.nullable(),
    TaskGroups: z.array(TaskGroup).min(1),
    Periodic: Periodic.nullable(),
    ParameterizedJob: Parameterized.nullable(),
    Stop: flag,
    Version: count,
    SubmitTime: nanoseconds,
    ModifyIndex: count,
    JobModifyIndex: count,
  } satisfies Shape<FeedJobJson>),
) satisfies z.ZodType<FeedJobJson>;

const JobStatus = z.enum(['pending', 'running', 'dead']);
const NextLaunch = z.object({ NextLaunch: time.nullable() });

export const Job = named(
  'Job',
  z.object({
    ...FeedJob.shape,
    Status: JobStatus,
    StatusDescription: text,
    CreateIndex: count,
    ParentID: text,
    Stable: flag,
    Dispatched: flag,
    Holdfast: NextLaunch,
  } satisfies Shape<JobJson>),
) satisfies z.ZodType<JobJson>;

const GroupSummary = z.object({
  Queued: count,
  Complete: count,
  Failed: count,
  Running: count,
  Starting: count,
  Lost: count,
  Unknown: count,
});

export const JobSummary = named(
  'JobSummary',
  z.object({
    JobID: text,
    Namespace: text,
    Summary: z.record(z.string(), GroupSummary),
    Children: z.object({ Pending: count, Running: count, Dead: count }),
    CreateIndex: count,
    ModifyIndex: count,
  }),
) satisfies z.ZodType<JobSummaryJson>;

export const JobListStub = named(
  'JobListStub',
  z.object({
    ID: text.min(1),
    ParentID: text,
    Name: text,
    Namespace: text,
    Datacenters: z.array(text),
    Type: text,
    Priority: count,
    Periodic: flag,
    ParameterizedJob: flag,
    Stop: flag,
    Status: JobStatus,
    StatusDescription: text,
    JobSummary,
    Version: count,
    CreateIndex: count,
    ModifyIndex: count,
    JobModifyIndex: count,
    SubmitTime: nanoseconds,
    Holdfast: NextLaunch,
  } satisfies Shape<JobListStubJson>),
) satisfies z.ZodType<JobListStubJson>;

export const JobList = named('JobList', z.array(JobListStub));

export const JobVersions = named(
  'JobVersions',
  z.object({ Versions: z.array(Job), Diffs: nothing }),
) satisfies z.ZodType<JobVersionsJson>;

export const JobChanged = named(
  'JobChanged',
  z.object({
    EvalID: text,
    EvalCreateIndex: count,
    JobModifyIndex: count,
    Warnings: text,
    Index: count,
    Holdfast: z.object({ Version: count, Unchanged: flag }),
  }),
) satisfies z.ZodType<RegisterResponse>;

export const JobDispatched = named(
  'JobDispatched',
  z.object({
    DispatchedJobID: text.min(1),
    EvalID: text,
    EvalCreateIndex: count,
    JobCreateIndex: count,
    Index: count,
  }),
) satisfies z.ZodType<DispatchResponse>;

export const JobLaunched = named(
  'JobLaunched',
  z.object({
    EvalID: text,
    EvalCreateIndex: count,
    Index: count,
    Holdfast: z.object({ JobID: text.min(1) }),
  }),
) satisfies z.ZodType<PeriodicForceResponse>;
