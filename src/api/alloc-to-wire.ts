/** Owns the way from stored allocs to the wire. Pure: what a shape needs besides its record is passed in. */
import type { Task } from '../jobspec/types.js';
import type { AllocRecord, Indexed, JobRecord, TaskRecord } from '../state/store.js';
import { allocatedToWire } from './allocated-to-wire.js';
import { taskStateToWire, type InForceOf, type PidOf } from './task-to-wire.js';
import {
  msToNs,
  msToRfc3339,
  resourcesToWire,
  type AllocDeploymentStatus,
  type Allocation,
  type AllocListStub,
  type FeedAllocation,
  type Job,
  type ResourcesJson,
} from './wire.js';

/** What every alloc on this host has in common, and what its records only point to. */
export interface WireContext {
  readonly nodeId: string;
  readonly nodeName: string;
  readonly pidOf: PidOf;
  /** Given for the answer about one alloc alone. */
  readonly inForceOf?: InForceOf;
}

/** Stand-alone there is one namespace; a job's own word for it is kept in its spec. */
export const NAMESPACE = 'default';

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
    DeploymentID: alloc.deploymentId ?? '',
    DeploymentStatus: deploymentStatusToWire(alloc, index),
    TaskStates: Object.fromEntries(tasks.map((task) => [task.task, taskStateToWire(task, context)])),
    ModifyIndex: index,
    CreateTime: msToNs(alloc.createdAtMs),
    ModifyTime: msToNs(alloc.modifiedAtMs),
  };
}

function deploymentStatusToWire({ health }: AllocRecord, index: number): AllocDeploymentStatus | null {
  if (health === undefined) return null;
  return {
    Healthy: health.healthy,
    Timestamp: msToRfc3339(health.atMs),
    Canary: false,
    ModifyIndex: index,
    Holdfast: { Detail: health.detail },
  };
}

function trackerToWire(
  { reschedule }: AllocRecord,
  { nodeId }: WireContext,
): AllocListStub['RescheduleTracker'] {
  const events = reschedule?.events ?? [];
  if (events.length === 0) return null;
  return {
    Events: events.map(({ at, previousAllocId, delayMs }) => ({
      RescheduleTime: msToNs(at.wallMs),
      PrevAllocID: previousAllocId,
      PrevNodeID: nodeId,
      Delay: msToNs(delayMs),
    })),
  };
}

/** @param job the version that the alloc runs; undefined when it is no longer on record */
export function allocToStub(
  alloc: Indexed<AllocRecord>,
  tasks: readonly TaskRecord[],
  job: JobRecord | undefined,
  context: WireContext,
): AllocListStub {
  const { next } = alloc.record.reschedule ?? {};
  const waits = alloc.record.nextAllocId === undefined ? next : undefined;
  return {
    ...feedAllocToWire(alloc.record, tasks, alloc.modifyIndex, context),
    EvalID: '',
    JobType: job?.spec.type ?? '',
    FollowupEvalID: waits?.evalId ?? '',
    PreviousAllocation: alloc.record.previousAllocId ?? '',
    NextAllocation: alloc.record.nextAllocId ?? '',
    RescheduleTracker: trackerToWire(alloc.record, context),
    Holdfast: {
      RescheduleAt: waits === undefined ? null : msToRfc3339(waits.at.wallMs),
      RescheduleStopped: alloc.record.reschedule?.gaveUp ?? '',
    },
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
    AllocatedResources: allocatedToWire(alloc.record, group),
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
