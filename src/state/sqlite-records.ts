/** Owns the SQL of the records: jobs, allocs, tasks, runs, hooks and host values. */
import { copyPlain } from './json.js';
import type { Quarantine } from './quarantine.js';
import type { Recall } from './recall.js';
import type { Columns } from './row.js';
import {
  decodeAlloc,
  decodeHook,
  decodeIndexed,
  decodeJob,
  encodeAlloc,
  encodeHook,
  encodeJob,
} from './rows.js';
import type { Sql } from './sqlite-sql.js';
import type { AllocRecord, HookRecord, Indexed, JobRecord, RunRecord, TaskRecord } from './store.js';
import type { AllocWithTasks, Records } from './tables.js';
import { decodeRun, decodeTask, encodeRun, encodeTask } from './task-rows.js';

/** Records that belong to an alloc and go with it. */
const OWNED_BY_ALLOC = ['tasks', 'runs', 'hook_state'] as const;
const DELETE_OWNED = OWNED_BY_ALLOC.map((table) => `DELETE FROM ${table} WHERE alloc_id = ?`);

/** Tasks may be there without their alloc: it was moved to quarantine. */
const ANY_OF_ALLOC = `SELECT 1 FROM allocs WHERE alloc_id = ? UNION ALL SELECT 1 FROM tasks WHERE alloc_id = ? LIMIT 1`;
const TASKS_OF_ALLOC = 'SELECT * FROM tasks WHERE alloc_id = ? ORDER BY place';

/** Jobs whose current version is remembered. */
const MOST_JOBS = 1_000;
/** Allocs that are remembered: those that many tasks that start together belong to. */
const MOST_ALLOCS = 1_000;

/** Runs of which it is remembered whose they are: those that tasks have now. */
const MOST_RUNS = 1_000;

interface RunOwner {
  readonly allocId: string;
  readonly task: string;
}

/** What the feed says of an alloc; equal to its rows as they would be read. */
interface Told {
  alloc: AllocRecord;
  /** In the order they were first put, as everywhere. */
  readonly tasks: Map<string, TaskRecord>;
}

export class SqliteRecords implements Records {
  readonly #sql: Sql;
  readonly #quarantine: Quarantine;
  readonly #told: Recall<Told>;
  /** Of jobs. */
  readonly #versions: Recall<number>;
  readonly #runOwners: Recall<RunOwner>;

  constructor(sql: Sql, quarantine: Quarantine) {
    this.#sql = sql;
    this.#told = sql.recall(MOST_ALLOCS);
    this.#versions = sql.recall(MOST_JOBS);
    this.#runOwners = sql.recall(MOST_RUNS);
    this.#quarantine = quarantine;
  }

  /**
   * Reads every record once, so that bad rows are found now and not in the middle of something. Runs that are over are
   * history, and may be very many: a bad one of them is found by whoever reads it.
   */
  check(): void {
    this.listJobs();
    this.#jobs('job_versions', this.#sql.all('SELECT * FROM job_versions'));
    this.listAllocs();
    this.#quarantine.decode('tasks', this.#sql.all('SELECT * FROM tasks'), decodeTask);
    this.#quarantine.decode('runs', this.#sql.all('SELECT * FROM runs WHERE outcome IS NULL'), decodeRun);
    this.#quarantine.decode('hook_state', this.#sql.all('SELECT * FROM hook_state'), decodeHook);
  }

  putJob(job: JobRecord): void {
    const columns = encodeJob(job);
    this.#sql.put('jobs', ['job_id'], columns);
    this.#sql.put('job_versions', ['job_id', 'version'], columns);
    this.#versions.set(job.id, job.version);
  }

  currentVersion(jobId: string): number | undefined {
    return this.#versions.get(jobId) ?? this.getJob(jobId)?.record.version;
  }

  stampJob(jobId: string, version: number, index: number): void {
    const bound = { jobId, version, index };
    this.#sql.run(
      `UPDATE jobs SET create_index = iif(create_index = 0, :index, create_index),
         modify_index = iif(version = :version, :index, modify_index) WHERE job_id = :jobId`,
      bound,
    );
    this.#sql.run(
      `UPDATE job_versions SET modify_index = :index,
         create_index = (SELECT create_index FROM jobs WHERE job_id = :jobId)
       WHERE job_id = :jobId AND version = :version`,
      bound,
    );
  }

  trimJobVersions(jobId: string, belowVersion: number): void {
    this.#sql.run(
      `DELETE FROM job_versions WHERE job_id = :jobId AND version < :belowVersion
         AND version NOT IN (SELECT job_version FROM allocs WHERE job_id = :jobId)`,
      { jobId, belowVersion },
    );
  }

  deleteJob(jobId: string): boolean {
    this.#versions.delete(jobId);
    this.#sql.run('DELETE FROM job_versions WHERE job_id = :jobId', { jobId });
    return this.#sql.run('DELETE FROM jobs WHERE job_id = :jobId', { jobId }) > 0;
  }

  putAlloc(alloc: AllocRecord): void {
    const columns = encodeAlloc(alloc);
    const isNew =
      this.#told.get(alloc.id) === undefined &&
      this.#sql.get(ANY_OF_ALLOC, [alloc.id, alloc.id]) === undefined;
    this.#sql.put('allocs', ['alloc_id'], columns, ['job_id']);
    if (isNew) this.#told.set(alloc.id, { alloc, tasks: new Map() });
    this.#remember(alloc.id, columns, (told) => {
      told.alloc = copyPlain(alloc);
    });
  }

  stampAlloc(allocId: string, index: number): void {
    this.#sql.run(
      `UPDATE allocs SET create_index = iif(create_index = 0, :index, create_index), modify_index = :index
       WHERE alloc_id = :allocId`,
      { allocId, index },
    );
  }

  deleteAlloc(allocId: string): void {
    this.#told.delete(allocId);
    this.#runOwners.clear();
    for (const text of DELETE_OWNED) this.#sql.run(text, [allocId]);
    this.#sql.run('DELETE FROM allocs WHERE alloc_id = ?', [allocId]);
  }

  jobIdOf(allocId: string): string | undefined {
    const known = this.#told.get(allocId)?.alloc.jobId;
    return known ?? this.#sql.text('SELECT job_id FROM allocs WHERE alloc_id = ?', [allocId]);
  }

  hasAllocsOf(jobId: string): boolean {
    return this.#sql.get('SELECT 1 FROM allocs WHERE job_id = :jobId LIMIT 1', { jobId }) !== undefined;
  }

  describeAlloc(allocId: string): AllocWithTasks | undefined {
    const told = this.#told.get(allocId) ?? this.#readTold(allocId);
    if (told === undefined) return undefined;
    return { alloc: copyPlain(told.alloc), tasks: Array.from(told.tasks.values(), copyPlain) };
  }

  putTask(task: TaskRecord): void {
    const columns = encodeTask(task);
    this.#sql.put('tasks', ['alloc_id', 'task'], columns);
    this.#remember(task.allocId, columns, (told) => {
      told.tasks.set(task.task, copyPlain(task));
    });
  }

  putRun(run: RunRecord): void {
    this.#sql.put('runs', ['run_id'], encodeRun(run), ['alloc_id', 'task', 'attempt']);
    this.#runOwners.set(run.runId, { allocId: run.allocId, task: run.task });
  }

  trimRuns(allocId: string, task: string, runsPerTask: number): void {
    // All of them: it is rare, and what is still there is read again.
    this.#runOwners.clear();
    const ended = 'alloc_id = :allocId AND task = :task AND outcome IS NOT NULL';
    this.#sql.run(
      `DELETE FROM runs WHERE ${ended} AND place NOT IN
         (SELECT place FROM runs WHERE ${ended} ORDER BY attempt DESC, place DESC LIMIT :runsPerTask)`,
      { allocId, task, runsPerTask },
    );
  }

  putHook(hook: HookRecord): void {
    this.#sql.put('hook_state', ['alloc_id', 'task', 'hook'], encodeHook(hook));
  }

  putHost(key: string, value: string): void {
    this.#sql.put('host', ['key'], { key, value });
  }

  listJobs(): readonly Indexed<JobRecord>[] {
    return this.#jobs('jobs', this.#sql.all('SELECT * FROM jobs ORDER BY job_id'));
  }

  getJob(id: string): Indexed<JobRecord> | undefined {
    return this.#jobs('jobs', this.#sql.all('SELECT * FROM jobs WHERE job_id = :id', { id }))[0];
  }

  listJobVersions(id: string): readonly Indexed<JobRecord>[] {
    const text = 'SELECT * FROM job_versions WHERE job_id = :id ORDER BY version DESC';
    return this.#jobs('job_versions', this.#sql.all(text, { id }));
  }

  getJobVersion(id: string, version: number): Indexed<JobRecord> | undefined {
    const text = 'SELECT * FROM job_versions WHERE job_id = :id AND version = :version';
    return this.#jobs('job_versions', this.#sql.all(text, { id, version }))[0];
  }

  listAllocs(filter: { readonly jobId?: string } = {}): readonly Indexed<AllocRecord>[] {
    const { jobId } = filter;
    if (jobId === undefined) return this.#allocs(this.#sql.all('SELECT * FROM allocs ORDER BY place'));
    return this.#allocs(
      this.#sql.all('SELECT * FROM allocs WHERE job_id = :jobId ORDER BY place', { jobId }),
    );
  }

  getAlloc(id: string): Indexed<AllocRecord> | undefined {
    return this.#allocs(this.#sql.all('SELECT * FROM allocs WHERE alloc_id = :id', { id }))[0];
  }

  listTasks(allocId: string): readonly TaskRecord[] {
    return this.#quarantine.decode('tasks', this.#sql.all(TASKS_OF_ALLOC, [allocId]), decodeTask);
  }

  getTask(allocId: string, task: string): TaskRecord | undefined {
    const text = 'SELECT * FROM tasks WHERE alloc_id = :allocId AND task = :task';
    return this.#quarantine.decode('tasks', this.#sql.all(text, { allocId, task }), decodeTask)[0];
  }

  listRuns(allocId: string, task: string): readonly RunRecord[] {
    const text = 'SELECT * FROM runs WHERE alloc_id = :allocId AND task = :task ORDER BY attempt, place';
    return this.#quarantine.decode('runs', this.#sql.all(text, { allocId, task }), decodeRun);
  }

  getRun(runId: string): RunRecord | undefined {
    const found = this.#sql.all('SELECT * FROM runs WHERE run_id = :runId', { runId });
    return this.#quarantine.decode('runs', found, decodeRun)[0];
  }

  ownerOfRun(runId: string): RunOwner | undefined {
    const text = 'SELECT alloc_id AS allocId, task FROM runs WHERE run_id = ?';
    return this.#runOwners.get(runId) ?? (this.#sql.get(text, [runId]) as RunOwner | undefined);
  }

  listHooks(allocId: string, task: string): readonly HookRecord[] {
    const text = 'SELECT * FROM hook_state WHERE alloc_id = :allocId AND task = :task ORDER BY place';
    return this.#quarantine.decode('hook_state', this.#sql.all(text, { allocId, task }), decodeHook);
  }

  getHost(key: string): string | undefined {
    return this.#sql.text('SELECT value FROM host WHERE key = :key', { key });
  }

  #readTold(allocId: string): Told | undefined {
    const alloc = this.getAlloc(allocId)?.record;
    if (alloc === undefined) return undefined;
    const found = this.#sql.all(TASKS_OF_ALLOC, [allocId]);
    const tasks = this.#quarantine.decode('tasks', found, decodeTask);
    const told = { alloc, tasks: new Map(tasks.map((task) => [task.task, task])) };
    // A row that cannot be read, and may still have its place among the others, is not told.
    if (tasks.length === found.length) this.#told.set(allocId, told);
    return told;
  }

  /** Notes in what is remembered of an alloc that `columns` were put. What a disk would give back changed is read. */
  #remember(allocId: string, columns: Columns, note: (told: Told) => void): void {
    const told = this.#told.get(allocId);
    if (told === undefined) return;
    if (isWellFormed(columns)) note(told);
    else this.#told.delete(allocId);
  }

  #jobs(table: 'jobs' | 'job_versions', found: readonly unknown[]): readonly Indexed<JobRecord>[] {
    return this.#quarantine.decode(table, found, (row) => decodeIndexed(row, decodeJob(row)));
  }

  #allocs(found: readonly unknown[]): readonly Indexed<AllocRecord>[] {
    return this.#quarantine.decode('allocs', found, (row) => decodeIndexed(row, decodeAlloc(row)));
  }
}

/** False when a text holds half a character, which UTF-8 has no form for. */
function isWellFormed(columns: Columns): boolean {
  return Object.values(columns).every((value) => typeof value !== 'string' || value.isWellFormed());
}
