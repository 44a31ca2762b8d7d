/**
 * Owns records in memory, with an undo log instead of a disk's transactions. They are copied through the text form of
 * the store when they come in, so that what SQLite would refuse or change is refused or changed here too, and frozen,
 * because reads hand them out as they are.
 */
import { freezeCopy } from './memory-history.js';
import type { AllocRecord, HookRecord, Indexed, JobRecord, RunRecord, TaskRecord } from './store.js';
import type { AllocWithTasks, Records } from './tables.js';
import type { UndoLog } from './undo-log.js';

interface JobRow {
  readonly current: Indexed<JobRecord>;
  readonly versions: ReadonlyMap<number, Indexed<JobRecord>>;
}
/** Everything that belongs to one alloc. */
interface AllocRow {
  readonly alloc: Indexed<AllocRecord>;
  readonly tasks: ReadonlyMap<string, TaskRecord>;
  readonly runs: ReadonlyMap<string, RunRecord>;
  readonly hooks: ReadonlyMap<string, HookRecord>;
}
/** Rows that have no index yet are stamped within the same transaction. */
const UNSTAMPED = 0;

export class MemoryRecords implements Records {
  readonly #undo: UndoLog;
  readonly #jobs = new Map<string, JobRow>();
  readonly #allocs = new Map<string, AllocRow>();
  readonly #host = new Map<string, string>();

  constructor(undo: UndoLog) {
    this.#undo = undo;
  }

  putJob(given: JobRecord): void {
    const record = freezeCopy(given).value;
    const old = this.#jobs.get(record.id);
    const createIndex = old?.current.createIndex ?? UNSTAMPED;
    const put = { record, createIndex, modifyIndex: UNSTAMPED };
    const versions = new Map(old?.versions).set(record.version, put);
    this.#undo.set(this.#jobs, record.id, { current: put, versions });
  }

  currentVersion(jobId: string): number | undefined {
    return this.getJob(jobId)?.record.version;
  }

  stampJob(jobId: string, version: number, index: number): void {
    const job = this.#jobs.get(jobId);
    const old = job?.versions.get(version);
    if (job === undefined || old === undefined) return;
    const createIndex = job.current.createIndex || index;
    const stamped = { record: old.record, createIndex, modifyIndex: index };
    const current = job.current.record.version === version ? stamped : { ...job.current, createIndex };
    this.#undo.set(this.#jobs, jobId, { current, versions: new Map(job.versions).set(version, stamped) });
  }

  trimJobVersions(jobId: string, belowVersion: number): void {
    const job = this.#jobs.get(jobId);
    if (job === undefined) return;
    const inUse = new Set(this.listAllocs({ jobId }).map(({ record }) => record.jobVersion));
    const kept = [...job.versions].filter(([version]) => version >= belowVersion || inUse.has(version));
    this.#undo.set(this.#jobs, jobId, { current: job.current, versions: new Map(kept) });
  }

  deleteJob(jobId: string): boolean {
    return this.#undo.delete(this.#jobs, jobId);
  }

  putAlloc(given: AllocRecord): void {
    const record = freezeCopy(given).value;
    const old = this.#allocs.get(record.id);
    const createIndex = old?.alloc.createIndex ?? UNSTAMPED;
    const none = { tasks: new Map(), runs: new Map(), hooks: new Map() };
    const alloc = { record, createIndex, modifyIndex: old?.alloc.modifyIndex ?? UNSTAMPED };
    this.#undo.set(this.#allocs, record.id, { ...(old ?? none), alloc });
  }

  stampAlloc(allocId: string, index: number): void {
    const old = this.#allocs.get(allocId);
    if (old === undefined) return;
    const { record, createIndex } = old.alloc;
    const alloc = { record, createIndex: createIndex || index, modifyIndex: index };
    this.#undo.set(this.#allocs, allocId, { ...old, alloc });
  }

  deleteAlloc(allocId: string): void {
    this.#undo.delete(this.#allocs, allocId);
  }

  jobIdOf(allocId: string): string | undefined {
    return this.#allocs.get(allocId)?.alloc.record.jobId;
  }

  hasAllocsOf(jobId: string): boolean {
    return this.listAllocs({ jobId }).length > 0;
  }

  /** Frozen records, which nobody can change. */
  describeAlloc(allocId: string): AllocWithTasks | undefined {
    const alloc = this.getAlloc(allocId)?.record;
    return alloc === undefined ? undefined : { alloc, tasks: this.listTasks(allocId) };
  }

  putTask(task: TaskRecord): void {
    const { value } = freezeCopy(task);
    this.#change(task.allocId, (old) => ({ ...old, tasks: new Map(old.tasks).set(task.task, value) }));
  }

  putRun(run: RunRecord): void {
    const { value } = freezeCopy(run);
    this.#change(run.allocId, (old) => ({ ...old, runs: new Map(old.runs).set(run.runId, value) }));
  }

  trimRuns(allocId: string, task: string, runsPerTask: number): void {
    const ended = this.listRuns(allocId, task).filter((run) => run.outcome !== undefined);
    const doomed = new Set(ended.slice(0, Math.max(0, ended.length - runsPerTask)).map((run) => run.runId));
    if (doomed.size === 0) return;
    this.#change(allocId, (old) => {
      return { ...old, runs: new Map([...old.runs].filter(([runId]) => !doomed.has(runId))) };
    });
  }

  putHook(hook: HookRecord): void {
    const { value } = freezeCopy(hook);
    const key = JSON.stringify([hook.task, hook.hook]);
    this.#change(hook.allocId, (old) => ({ ...old, hooks: new Map(old.hooks).set(key, value) }));
  }

  putHost(key: string, value: string): void {
    this.#undo.set(this.#host, key, value);
  }

  listJobs(): readonly Indexed<JobRecord>[] {
    const jobs = [...this.#jobs.values()].map((job) => job.current);
    // By bytes, as SQLite does.
    return jobs.sort((a, b) => Buffer.compare(Buffer.from(a.record.id), Buffer.from(b.record.id)));
  }

  getJob(id: string): Indexed<JobRecord> | undefined {
    return this.#jobs.get(id)?.current;
  }

  listJobVersions(id: string): readonly Indexed<JobRecord>[] {
    const versions = [...(this.#jobs.get(id)?.versions.values() ?? [])];
    return versions.sort((a, b) => b.record.version - a.record.version);
  }

  getJobVersion(id: string, version: number): Indexed<JobRecord> | undefined {
    return this.#jobs.get(id)?.versions.get(version);
  }

  listAllocs(filter: { readonly jobId?: string } = {}): readonly Indexed<AllocRecord>[] {
    const allocs = [...this.#allocs.values()].map((row) => row.alloc);
    if (filter.jobId === undefined) return allocs;
    return allocs.filter(({ record }) => record.jobId === filter.jobId);
  }

  getAlloc(id: string): Indexed<AllocRecord> | undefined {
    return this.#allocs.get(id)?.alloc;
  }

  listTasks(allocId: string): readonly TaskRecord[] {
    return [...(this.#allocs.get(allocId)?.tasks.values() ?? [])];
  }

  getTask(allocId: string, task: string): TaskRecord | undefined {
    return this.#allocs.get(allocId)?.tasks.get(task);
  }

  listRuns(allocId: string, task: string): readonly RunRecord[] {
    const runs = [...(this.#allocs.get(allocId)?.runs.values() ?? [])];
    return runs.filter((run) => run.task === task).sort((a, b) => a.attempt - b.attempt);
  }

  getRun(runId: string): RunRecord | undefined {
    for (const { runs } of this.#allocs.values()) {
      const run = runs.get(runId);
      if (run !== undefined) return run;
    }
    return undefined;
  }

  ownerOfRun(runId: string): { readonly allocId: string; readonly task: string } | undefined {
    return this.getRun(runId);
  }

  listHooks(allocId: string, task: string): readonly HookRecord[] {
    const hooks = [...(this.#allocs.get(allocId)?.hooks.values() ?? [])];
    return hooks.filter((hook) => hook.task === task);
  }

  getHost(key: string): string | undefined {
    return this.#host.get(key);
  }

  #change(allocId: string, next: (old: AllocRow) => AllocRow): void {
    const old = this.#allocs.get(allocId);
    if (old !== undefined) this.#undo.set(this.#allocs, allocId, next(old));
  }
}
