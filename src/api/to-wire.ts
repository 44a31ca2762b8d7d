/** Owns the way from stored records to the wire's shapes. Pure: what a shape needs besides its record is passed in. */
import { signalName } from '../base/signals.js';
import { describeExit, describeEvent, eventDetails, failsTask } from '../events/task-event.js';
import type { StampedTaskEvent } from '../events/task-event.js';
import { nomadExitCode, type ExitResult } from '../events/exit-result.js';
import type { Task } from '../jobspec/types.js';
import type {
  AllocRecord,
  FeedRow,
  Indexed,
  JobRecord,
  RunRecord,
  TaskEventRow as TaskEventRecord,
  TaskRecord,
} from '../state/store.js';
import {
  jobSpecToWire,
  msToNs,
  msToRfc3339,
  resourcesToWire,
  type Allocation,
  type AllocListStub,
  type ExitJson,
  type FeedAllocation,
  type FeedEvent,
  type FeedJob,
  type GroupSummary,
  type Job,
  type JobListStub,
  type JobStatus,
  type JobSummary,
  type ResourcesJson,
  type Run,
  type TaskEvent,
  type TaskEventRow,
  type TaskState,
} from './wire.js';

/** What every alloc on this host has in common, and what its records only point to. */
export interface WireContext {
  readonly nodeId: string;
  readonly nodeName: string;
  /** Process id of the workload of a run; undefined when it has none on record. */
  pidOf(runId: string): number | undefined;
}

/** Stand-alone there is one namespace; a job's own word for it is kept in its spec. */
const NAMESPACE = 'default';

// ------------------------------------------------------------------------------------------------------------- jobs

/** The part of a job that follows from its record and `index`, where it was last changed. */
export function feedJobToWire(job: JobRecord, index: number): FeedJob {
  return {
    ...jobSpecToWire(job.spec),
    Stop: job.stopped,
    Version: job.version,
    SubmitTime: msToNs(job.submittedAtMs),
    ModifyIndex: index,
    JobModifyIndex: index,
  };
}

/** A job in full. @param allocs all its allocs: they decide about its status */
export function jobToWire(job: Indexed<JobRecord>, allocs: readonly Indexed<AllocRecord>[]): Job {
  return {
    ...feedJobToWire(job.record, job.modifyIndex),
    Status: reduceJobStatus(
      job.record,
      allocs.map(({ record }) => record),
    ),
    StatusDescription: '',
    CreateIndex: job.createIndex,
    ParentID: '',
    Stable: false,
    Periodic: null,
    ParameterizedJob: null,
  };
}

/** A job runs while an alloc of it is alive, is dead when none is any more, and pends before the first. */
export function reduceJobStatus(job: JobRecord, allocs: readonly AllocRecord[]): JobStatus {
  if (allocs.some(isAlive)) return 'running';
  return job.stopped || allocs.length > 0 ? 'dead' : 'pending';
}

function isAlive(alloc: AllocRecord): boolean {
  return (
    alloc.clientStatus === 'pending' || alloc.clientStatus === 'running' || alloc.clientStatus === 'unknown'
  );
}

/** Counts the allocs of each group by client status. */
export function jobSummaryToWire(
  job: Indexed<JobRecord>,
  allocs: readonly Indexed<AllocRecord>[],
): JobSummary {
  const groups = job.record.spec.groups.map((group): [string, GroupSummary] => {
    const statuses = allocs
      .filter(({ record }) => record.group === group.name)
      .map(({ record }) => record.clientStatus);
    const count = (status: AllocRecord['clientStatus']): number =>
      statuses.filter((each) => each === status).length;
    return [
      group.name,
      {
        Queued: 0,
        Complete: count('complete'),
        Failed: count('failed'),
        Running: count('running'),
        Starting: count('pending'),
        Lost: count('lost'),
        Unknown: count('unknown'),
      },
    ];
  });
  return {
    JobID: job.record.id,
    Namespace: job.record.spec.namespace,
    Summary: Object.fromEntries(groups),
    Children: { Pending: 0, Running: 0, Dead: 0 },
    CreateIndex: job.createIndex,
    ModifyIndex: Math.max(job.modifyIndex, ...allocs.map(({ modifyIndex }) => modifyIndex)),
  };
}

export function jobToStub(job: Indexed<JobRecord>, allocs: readonly Indexed<AllocRecord>[]): JobListStub {
  const wire = jobToWire(job, allocs);
  return {
    ID: wire.ID,
    ParentID: wire.ParentID,
    Name: wire.Name,
    Namespace: wire.Namespace,
    Datacenters: wire.Datacenters,
    Type: wire.Type,
    Priority: wire.Priority,
    Periodic: false,
    ParameterizedJob: false,
    Stop: wire.Stop,
    Status: wire.Status,
    StatusDescription: wire.StatusDescription,
    JobSummary: jobSummaryToWire(job, allocs),
    Version: wire.Version,
    CreateIndex: wire.CreateIndex,
    ModifyIndex: wire.ModifyIndex,
    JobModifyIndex: wire.JobModifyIndex,
    SubmitTime: wire.SubmitTime,
  };
}

// ------------------------------------------------------------------------------------------------------ allocations

/** The part of an alloc that follows from its records and `index`, where it was last changed. */
export function feedAllocToWire(
  alloc: AllocRecord,
  tasks: readonly TaskRecord[],
  index: number,
  context: WireContext,
): FeedAllocation {
  return {
    ID: alloc.id,
    Name: `${alloc.jobId}.${alloc.group}[${alloc.index}]`,
    Namespace: NAMESPACE,
    NodeID: context.nodeId,
    NodeName: context.nodeName,
    JobID: alloc.jobId,
    JobVersion: alloc.jobVersion,
    TaskGroup: alloc.group,
    DesiredStatus: alloc.desiredStatus,
    DesiredDescription: alloc.desiredDescription,
    ClientStatus: alloc.clientStatus,
    ClientDescription: alloc.clientDescription,
    TaskStates: Object.fromEntries(tasks.map((task) => [task.task, taskStateToWire(task, context)])),
    ModifyIndex: index,
    CreateTime: msToNs(alloc.createdAtMs),
    ModifyTime: msToNs(alloc.modifiedAtMs),
  };
}

/** @param job the version that the alloc runs; undefined when it is no longer on record */
export function allocToStub(
  alloc: Indexed<AllocRecord>,
  tasks: readonly TaskRecord[],
  job: JobRecord | undefined,
  context: WireContext,
): AllocListStub {
  return {
    ...feedAllocToWire(alloc.record, tasks, alloc.modifyIndex, context),
    EvalID: '',
    JobType: job?.spec.type ?? '',
    FollowupEvalID: '',
    NextAllocation: '',
    DeploymentStatus: null,
    RescheduleTracker: null,
    CreateIndex: alloc.createIndex,
  };
}

/** @param job the version that the alloc runs, on the wire already */
export function allocToWire(
  alloc: Indexed<AllocRecord>,
  tasks: readonly TaskRecord[],
  job: { readonly record: JobRecord; readonly wire: Job } | undefined,
  context: WireContext,
): Allocation {
  const group = job?.record.spec.groups.find(({ name }) => name === alloc.record.group);
  return {
    ...allocToStub(alloc, tasks, job?.record, context),
    Job: job?.wire ?? null,
    Resources: sumResources(group?.tasks ?? []),
    TaskResources: Object.fromEntries(group?.tasks.map((task) => [task.name, resourcesToWire(task)]) ?? []),
    PreviousAllocation: '',
    Metrics: {},
  };
}

function sumResources(tasks: readonly Task[]): ResourcesJson {
  return {
    CPU: tasks.reduce((sum, { resources }) => sum + resources.cpuMhz, 0),
    MemoryMB: tasks.reduce((sum, { resources }) => sum + resources.memoryMib, 0),
    MemoryMaxMB: 0,
    DiskMB: 0,
  };
}

export function taskStateToWire(task: TaskRecord, context: Pick<WireContext, 'pidOf'>): TaskState {
  const pid = task.state === 'running' && task.runId !== undefined ? context.pidOf(task.runId) : undefined;
  return {
    State: task.state,
    Failed: task.failed,
    Restarts: task.restarts,
    LastRestart: msToRfc3339(task.lastRestartAtMs),
    StartedAt: msToRfc3339(task.startedAtMs),
    FinishedAt: msToRfc3339(task.finishedAtMs),
    Events: task.recentEvents.map(eventToWire),
    Holdfast: {
      Phase: task.phase,
      PhaseDetail: task.phaseDetail,
      NextStart: task.nextStart === undefined ? null : msToRfc3339(task.nextStart.wallMs),
      KillReason: task.killReason ?? null,
      LastExit: task.lastExit === undefined ? null : exitToWire(task.lastExit),
      RunID: task.runId ?? null,
      Pid: pid ?? null,
      Attempts: task.attempts,
      RestartsUsed: task.restartWindow?.used ?? 0,
      EventsDropped: task.eventsDropped,
    },
  };
}

/** An event in Nomad's shape: the facts under Details, and once more in the fields of their own that old tools read. */
export function eventToWire(stamped: StampedTaskEvent): TaskEvent {
  const { event } = stamped;
  const details = eventDetails(event);
  const end = event.type === 'Terminated' ? nomadExitCode(event.result) : { exitCode: 0, signal: 0 };
  return {
    Type: event.type,
    Time: msToNs(stamped.atMs),
    DisplayMessage: describeEvent(event),
    Details: details,
    Message: details['message'] ?? details['exit_message'] ?? '',
    FailsTask: failsTask(event),
    RestartReason: details['restart_reason'] ?? '',
    SetupError: details['setup_error'] ?? '',
    DriverError: details['driver_error'] ?? '',
    DriverMessage: details['driver_message'] ?? '',
    ExitCode: end.exitCode,
    Signal: end.signal,
    KillReason: details['kill_reason'] ?? '',
    KillTimeout: Number(details['kill_timeout'] ?? 0),
    KillError: details['kill_error'] ?? '',
    StartDelay: Number(details['start_delay'] ?? 0),
    ValidationError: details['validation_error'] ?? '',
    FailedSibling: details['failed_sibling'] ?? '',
    TaskSignal: details['task_signal'] ?? '',
    TaskSignalReason: details['task_signal_reason'] ?? '',
    Holdfast: {
      Seq: stamped.seq,
      Exit: event.type === 'Terminated' ? exitToWire(event.result) : null,
    },
  };
}

export function eventRowToWire(row: TaskEventRecord, jobId: string): TaskEventRow {
  return { ...eventToWire(row), AllocID: row.allocId, JobID: jobId, Task: row.task };
}

/** The truth about an end: never 128 + n, and no number at all when nobody saw it. */
export function exitToWire(result: ExitResult): ExitJson {
  return {
    Kind: result.kind,
    Code: result.kind === 'exited' ? result.code : null,
    Signal: result.kind === 'signaled' ? result.signal : null,
    SignalName: result.kind === 'signaled' ? signalName(result.signal) : '',
    OOMKilled: result.kind !== 'unknown' && result.oomKilled,
    CoreDumped: result.kind === 'signaled' && result.coreDumped,
    Reason: result.kind === 'unknown' ? result.reason : '',
    Text: describeExit(result),
  };
}

export function runToWire(run: RunRecord): Run {
  const { outcome } = run;
  const report = outcome?.kind === 'ended' ? outcome.report : undefined;
  const failure = outcome?.kind === 'ended' ? undefined : outcome;
  const startedAtMs = report?.startedAtMs ?? run.startedAtMs;
  const endedAtMs = report?.endedAtMs ?? failure?.atMs;
  return {
    RunID: run.runId,
    AllocID: run.allocId,
    Task: run.task,
    Attempt: run.attempt,
    Driver: run.driver,
    BootID: run.bootId,
    SpecHash: run.specHash,
    Outcome: outcome?.kind ?? 'open',
    IntendedAt: msToRfc3339(run.intendedAtMs),
    StartedAt: startedAtMs === undefined ? null : msToRfc3339(startedAtMs),
    EndedAt: endedAtMs === undefined ? null : msToRfc3339(endedAtMs),
    RanFor: report?.ranForMs === undefined ? null : msToNs(report.ranForMs),
    Pid: run.handle?.workload?.pid ?? null,
    Exit: report === undefined ? null : exitToWire(report.result),
    Error: failure === undefined ? '' : failure.kind === 'start_failed' ? failure.error : failure.detail,
    Usage:
      report?.usage === undefined
        ? null
        : {
            CPUUserMs: report.usage.cpuUserMs,
            CPUSystemMs: report.usage.cpuSystemMs,
            PeakMemoryBytes: report.usage.peakMemoryBytes,
          },
    LogComplete: report?.logComplete ?? null,
    LeftoversKilled: report?.leftoversKilled ?? 0,
  };
}

// ------------------------------------------------------------------------------------------------------------- feed

export function feedRowToWire(row: FeedRow, context: WireContext): FeedEvent {
  const { payload } = row;
  const base = { Key: row.key, Namespace: NAMESPACE, Index: row.index, Time: msToNs(row.atMs) };
  switch (payload.type) {
    case 'JobRegistered':
    case 'JobDeregistered':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [],
        Payload: { Job: feedJobToWire(payload.job, row.index) },
      };
    case 'JobPurged':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [],
        Payload: { Job: null, Deleted: true },
      };
    case 'AllocationUpdated':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.alloc.jobId],
        Payload: { Allocation: feedAllocToWire(payload.alloc, payload.tasks, row.index, context) },
      };
    case 'AllocationPurged':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.jobId],
        Payload: { Allocation: null, Deleted: true },
      };
    case 'TaskEvent':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.jobId, payload.event.allocId],
        Payload: { TaskEvent: eventRowToWire(payload.event, payload.jobId) },
      };
  }
}
