/** Owns answers that are put together from several records: the store in, wire shapes out. Reads only. */
import type { AllocRecord, Indexed, JobRecord, StateStore, TaskRecord } from '../state/store.js';
import { isPattern } from '../scheduler/place.js';
import { inForceOfState } from '../executor/in-force-record.js';
import type { AgentOperations } from './operations.js';
import { allocToStub, allocToWire, feedAllocToWire, type WireContext } from './alloc-to-wire.js';
import {
  feedJobToWire,
  jobSummaryToWire,
  jobToStub,
  jobToWire,
  reduceJobStatus,
  type JobFacts,
} from './job-to-wire.js';
import { inForceToWire } from './in-force-view.js';
import { nodeToWire } from './node-view.js';
import { feedDeploymentToWire } from './scheduling-to-wire.js';
import type {
  Allocation,
  AllocListStub,
  FeedSnapshot,
  InForceJson,
  Job,
  JobListStub,
  JobSummary,
  JobVersions,
} from './wire.js';

export class View {
  readonly #store: StateStore;
  readonly #operations: AgentOperations;

  constructor(store: StateStore, operations: AgentOperations) {
    this.#store = store;
    this.#operations = operations;
  }

  context(): WireContext {
    const { nodeId, name } = this.#operations.node();
    return {
      nodeId,
      nodeName: name,
      pidOf: (runId) => this.#store.getRun(runId)?.handle?.workload?.pid,
    };
  }

  jobs(prefix: string): readonly JobListStub[] {
    const allocs = new Map<string, Indexed<AllocRecord>[]>();
    for (const alloc of this.#store.listAllocs()) {
      const ofJob = allocs.get(alloc.record.jobId);
      if (ofJob === undefined) allocs.set(alloc.record.jobId, [alloc]);
      else ofJob.push(alloc);
    }
    return this.#store
      .listJobs()
      .filter(({ record }) => record.id.startsWith(prefix))
      .map((job) => jobToStub(job, allocs.get(job.record.id) ?? [], this.#factsOf(job.record, allocs)));
  }

  job(job: Indexed<JobRecord>): Job {
    return jobToWire(job, this.#store.listAllocs({ jobId: job.record.id }), this.#factsOf(job.record));
  }

  jobSummary(job: Indexed<JobRecord>): JobSummary {
    const allocs = this.#store.listAllocs({ jobId: job.record.id });
    return jobSummaryToWire(job, allocs, this.#factsOf(job.record));
  }

  jobVersions(job: Indexed<JobRecord>): JobVersions {
    const allocs = this.#store.listAllocs({ jobId: job.record.id });
    const versions = this.#store.listJobVersions(job.record.id);
    return {
      Versions: versions.map((version) => jobToWire(version, allocs, this.#factsOf(version.record))),
      Diffs: null,
    };
  }

  allocStubs(filter: { readonly jobId?: string; readonly prefix?: string }): readonly AllocListStub[] {
    const context = this.context();
    const { prefix = '' } = filter;
    return this.#store
      .listAllocs(filter.jobId === undefined ? undefined : { jobId: filter.jobId })
      .filter(({ record }) => record.id.startsWith(prefix))
      .map((alloc) => allocToStub(alloc, this.#tasks(alloc), this.#jobOf(alloc.record)?.record, context));
  }

  alloc(alloc: Indexed<AllocRecord>): Allocation {
    const job = this.#jobOf(alloc.record);
    const wire = job === undefined ? undefined : { record: job.record, wire: this.job(job) };
    const inForceOf = (runId: string): InForceJson | undefined => {
      const handle = this.#store.getRun(runId)?.handle;
      const seen = handle === undefined ? undefined : inForceOfState(handle.driverState);
      return seen === undefined ? undefined : inForceToWire(seen);
    };
    return allocToWire(alloc, this.#tasks(alloc), wire, { ...this.context(), inForceOf });
  }

  /** Everything, in the feed's shapes, as it stands at the store's index. */
  snapshot(): FeedSnapshot {
    const context = this.context();
    return {
      Node: nodeToWire(this.#operations),
      Jobs: this.#store.listJobs().map(({ record, modifyIndex }) => feedJobToWire(record, modifyIndex)),
      Allocations: this.#store
        .listAllocs()
        .map((alloc) => feedAllocToWire(alloc.record, this.#tasks(alloc), alloc.modifyIndex, context)),
      Deployments: this.#store
        .listDeployments()
        .map(({ record, modifyIndex }) => feedDeploymentToWire(record, modifyIndex)),
    };
  }

  /** @param allocs by job, when they were read already */
  #factsOf(job: JobRecord, allocs?: ReadonlyMap<string, readonly Indexed<AllocRecord>[]>): JobFacts {
    const { id, version, spec } = job;
    return {
      stable: this.#store
        .listDeployments({ jobId: id })
        .some(({ record }) => record.jobVersion === version && record.status === 'successful'),
      nextLaunchMs: spec.periodic === undefined ? undefined : this.#operations.nextLaunchMs(id),
      children: isPattern(spec) ? this.#countChildren(id, allocs) : undefined,
    };
  }

  #countChildren(
    parentId: string,
    allocs?: ReadonlyMap<string, readonly Indexed<AllocRecord>[]>,
  ): JobSummary['Children'] {
    const count = { pending: 0, running: 0, dead: 0 };
    for (const { record } of this.#store.listJobs()) {
      if (record.parentId !== parentId) continue;
      const own = allocs?.get(record.id) ?? this.#store.listAllocs({ jobId: record.id });
      count[
        reduceJobStatus(
          record,
          own.map((alloc) => alloc.record),
        )
      ] += 1;
    }
    return { Pending: count.pending, Running: count.running, Dead: count.dead };
  }

  /** The job in the version that the alloc runs. */
  #jobOf(alloc: AllocRecord): Indexed<JobRecord> | undefined {
    return this.#store.getJobVersion(alloc.jobId, alloc.jobVersion);
  }

  #tasks(alloc: Indexed<AllocRecord>): readonly TaskRecord[] {
    return this.#store.listTasks(alloc.record.id);
  }
}
