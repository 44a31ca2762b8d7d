/** Owns the way from stored jobs to the wire. Pure: what a shape needs besides its record is passed in. */
import { isPattern } from '../scheduler/place.js';
import type { AllocRecord, Indexed, JobRecord } from '../state/store.js';
import {
  jobSpecToWire,
  msToNs,
  msToRfc3339,
  type FeedJob,
  type GroupSummary,
  type Job,
  type JobListStub,
  type JobStatus,
  type JobSummary,
} from './wire.js';

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

/** What of a job does not stand in its record. */
export interface JobFacts {
  /** A deployment of this version has succeeded. */
  readonly stable: boolean;
  /** When the clock launches it next; undefined = not. */
  readonly nextLaunchMs: number | undefined;
  /** How its launches are; undefined = it has none. */
  readonly children?: JobSummary['Children'] | undefined;
}

const NO_FACTS: JobFacts = { stable: false, nextLaunchMs: undefined };

/** A job in full. @param allocs all its allocs: they decide about its status */
export function jobToWire(
  job: Indexed<JobRecord>,
  allocs: readonly Indexed<AllocRecord>[],
  facts: JobFacts = NO_FACTS,
): Job {
  return {
    ...feedJobToWire(job.record, job.modifyIndex),
    Status: reduceJobStatus(
      job.record,
      allocs.map(({ record }) => record),
    ),
    StatusDescription: '',
    CreateIndex: job.createIndex,
    ParentID: job.record.parentId ?? '',
    Stable: facts.stable,
    Dispatched: job.record.dispatched ?? false,
    Holdfast: { NextLaunch: facts.nextLaunchMs === undefined ? null : msToRfc3339(facts.nextLaunchMs) },
  };
}

/** A job runs while an alloc of it is alive, is dead when none is any more, and pends before the first. */
export function reduceJobStatus(job: JobRecord, allocs: readonly AllocRecord[]): JobStatus {
  if (allocs.some(isAlive)) return 'running';
  // It waits to be launched.
  if (isPattern(job.spec)) return job.stopped ? 'dead' : 'running';
  if (!job.stopped && allocs.some(awaitsReschedule)) return 'pending';
  return job.stopped || allocs.length > 0 ? 'dead' : 'pending';
}

function isAlive(alloc: AllocRecord): boolean {
  return (
    alloc.clientStatus === 'pending' || alloc.clientStatus === 'running' || alloc.clientStatus === 'unknown'
  );
}

function awaitsReschedule({ reschedule, nextAllocId }: AllocRecord): boolean {
  return reschedule?.next !== undefined && nextAllocId === undefined;
}

/** Counts the allocs of each group by client status. */
export function jobSummaryToWire(
  job: Indexed<JobRecord>,
  allocs: readonly Indexed<AllocRecord>[],
  facts: JobFacts = NO_FACTS,
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
    Children: facts.children ?? { Pending: 0, Running: 0, Dead: 0 },
    CreateIndex: job.createIndex,
    ModifyIndex: Math.max(job.modifyIndex, ...allocs.map(({ modifyIndex }) => modifyIndex)),
  };
}

export function jobToStub(
  job: Indexed<JobRecord>,
  allocs: readonly Indexed<AllocRecord>[],
  facts: JobFacts = NO_FACTS,
): JobListStub {
  const wire = jobToWire(job, allocs, facts);
  return {
    ID: wire.ID,
    ParentID: wire.ParentID,
    Name: wire.Name,
    Namespace: wire.Namespace,
    Datacenters: wire.Datacenters,
    Type: wire.Type,
    Priority: wire.Priority,
    Periodic: wire.Periodic !== null,
    ParameterizedJob: wire.ParameterizedJob !== null,
    Stop: wire.Stop,
    Status: wire.Status,
    StatusDescription: wire.StatusDescription,
    JobSummary: jobSummaryToWire(job, allocs, facts),
    Holdfast: wire.Holdfast,
    Version: wire.Version,
    CreateIndex: wire.CreateIndex,
    ModifyIndex: wire.ModifyIndex,
    JobModifyIndex: wire.JobModifyIndex,
    SubmitTime: wire.SubmitTime,
  };
}
