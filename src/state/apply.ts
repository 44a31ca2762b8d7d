/**
 * Owns what a commit means: the rules a change obeys, what is deleted with what, and which feed rows it makes. One text
 * for both stores. Called within a transaction; when it throws, the caller undoes the whole commit.
 */
import { AgentError } from '../base/errors.js';
import { copyPlain } from './json.js';
import { NODE_SCHEDULING_KEY } from './store.js';
import { slackOf, type StoreLimits } from './limits.js';
import type {
  Change,
  DeploymentRecord,
  EvaluationRecord,
  FeedPayload,
  FeedRow,
  JobRecord,
  RunRecord,
  TaskEventRow,
} from './store.js';
import type { History, Records, Scheduling, Tables } from './tables.js';

/**
 * A feed row in the making, of copies: what listeners hold must not change with what the caller does to its records.
 * An alloc's is filled in when the whole commit is applied.
 */
type Slot =
  | { readonly kind: 'job'; readonly job: JobRecord }
  /** Put, and deleted again within the same commit. */
  | { readonly kind: 'deleted_job'; readonly job: JobRecord }
  | { readonly kind: 'job_purged'; readonly jobId: string }
  | { readonly kind: 'alloc'; readonly allocId: string }
  | { readonly kind: 'alloc_purged'; readonly allocId: string; readonly jobId: string }
  | { readonly kind: 'deployment'; readonly deployment: DeploymentRecord }
  | { readonly kind: 'evaluation'; readonly evaluation: EvaluationRecord }
  | { readonly kind: 'node'; readonly scheduling: string }
  | { readonly kind: 'event'; readonly event: TaskEventRow; readonly jobId: string };

/**
 * Applies commits as one: nobody can see what is between them. An alloc or task that several change is written once, as it
 * is in the end, and an alloc is told once, where the last of them changes it: after all that led to it.
 * @returns the feed rows they made, in index order
 * @throws AgentError internal when a rule is broken; whatever the tables throw
 */
export function applyChanges(
  tables: Tables,
  commits: readonly (readonly Change[])[],
  limits: StoreLimits,
  nowMs: number,
): readonly FeedRow[] {
  const one = new Commit(tables, limits);
  const newest = newestOf(commits);
  const written = new Set<Change>();
  for (const changes of commits) {
    one.begin();
    for (const change of changes) {
      const last = newest.get(keyOf(change) ?? '');
      if (last === undefined) one.apply(change);
      else if (written.has(last)) one.touch(last);
      else {
        one.apply(last);
        written.add(last);
      }
    }
  }
  one.checkJobs();
  return one.tell(nowMs);
}

/** Of records that are put, the last. None where allocs are deleted: what is put after that is another one. */
function newestOf(commits: readonly (readonly Change[])[]): ReadonlyMap<string, Change> {
  const newest = new Map<string, Change>();
  for (const changes of commits) {
    for (const change of changes) {
      if (change.kind === 'delete_alloc') return new Map();
      const key = keyOf(change);
      if (key !== undefined) newest.set(key, change);
    }
  }
  return newest;
}

/** Of records of which only the newest counts. */
function keyOf(change: Change): string | undefined {
  if (change.kind === 'put_alloc') return change.alloc.id;
  return change.kind === 'put_task' ? `${change.task.allocId}/${change.task.task}` : undefined;
}

class Commit {
  readonly #records: Records;
  readonly #history: History;
  readonly #scheduling: Scheduling;
  readonly #limits: StoreLimits;
  #slots: Slot[] = [];
  /** Where an alloc is told: by the last commit that touched it, there where it did so first. */
  readonly #touched = new Map<string, { readonly commit: number; readonly slot: Slot }>();
  #commit = 0;
  readonly #deletedJobs = new Set<string>();

  constructor(tables: Tables, limits: StoreLimits) {
    this.#records = tables.records;
    this.#history = tables.history;
    this.#scheduling = tables.scheduling;
    this.#limits = limits;
  }

  /** What follows are the changes of another commit. */
  begin(): void {
    this.#commit += 1;
  }

  /** The change is made already. */
  touch(change: Change): void {
    if (change.kind === 'put_alloc') this.#touch(change.alloc.id);
    if (change.kind === 'put_task') this.#touch(change.task.allocId);
  }

  apply(change: Change): void {
    const records = this.#records;
    switch (change.kind) {
      case 'put_job':
        this.#putJob(change.job);
        return;
      case 'delete_job':
        this.#deleteJob(change.jobId);
        return;
      case 'put_alloc':
        records.putAlloc(change.alloc);
        this.#touch(change.alloc.id);
        return;
      case 'delete_alloc':
        this.#deleteAlloc(change.allocId);
        return;
      case 'put_task':
        this.#jobIdOf(change.task.allocId, change);
        records.putTask(change.task);
        this.#touch(change.task.allocId);
        return;
      case 'put_run':
        this.#jobIdOf(change.run.allocId, change);
        this.#putRun(change.run);
        return;
      case 'add_task_event':
        this.#addEvent({ allocId: change.allocId, task: change.task, ...change.event });
        return;
      case 'put_hook':
        this.#jobIdOf(change.hook.allocId, change);
        records.putHook(change.hook);
        return;
      case 'put_deployment':
        this.#putDeployment(change.deployment);
        return;
      case 'put_evaluation':
        this.#putEvaluation(change.evaluation);
        return;
      case 'put_host':
        records.putHost(change.key, change.value);
        if (change.key === NODE_SCHEDULING_KEY) this.#slots.push({ kind: 'node', scheduling: change.value });
    }
  }

  /** A job may go only when no alloc names it any more; within the commit the order is free. */
  checkJobs(): void {
    for (const jobId of this.#deletedJobs) {
      if (this.#records.currentVersion(jobId) === undefined && this.#records.hasAllocsOf(jobId)) {
        throw broken(`job ${jobId} cannot be deleted while it has allocs`);
      }
    }
  }

  /** Turns what was touched into numbered rows. */
  tell(nowMs: number): readonly FeedRow[] {
    const rows: FeedRow[] = [];
    let index = this.#history.index();
    for (const slot of this.#slots) {
      const told = this.#fill(slot);
      if (told === undefined) continue;
      index += 1;
      const row: FeedRow = { index, atMs: nowMs, ...told };
      this.#history.addFeedRow(row);
      if (slot.kind === 'job') this.#records.stampJob(slot.job.id, slot.job.version, index);
      if (slot.kind === 'alloc') this.#records.stampAlloc(slot.allocId, index);
      if (slot.kind === 'deployment') this.#scheduling.stampDeployment(slot.deployment.id, index);
      if (slot.kind === 'evaluation') this.#scheduling.stampEvaluation(slot.evaluation.id, index);
      rows.push(row);
    }
    return rows;
  }

  #putJob(job: JobRecord): void {
    const current = this.#records.currentVersion(job.id) ?? 0;
    if (job.version < current) {
      throw broken(`version ${job.version} of job ${job.id} is older than the stored version ${current}`);
    }
    this.#records.putJob(job);
    this.#records.trimJobVersions(job.id, job.version - this.#limits.versionsPerJob + 1);
    this.#slots.push({ kind: 'job', job: copyPlain(job) });
  }

  #deleteJob(jobId: string): void {
    this.#deletedJobs.add(jobId);
    if (!this.#records.deleteJob(jobId)) return;
    this.#scheduling.deleteDeployments(jobId);
    // What was put before in this commit is told, but a job of that id that is put after it is another one.
    this.#slots = this.#slots.map((slot) =>
      slot.kind === 'job' && slot.job.id === jobId ? { kind: 'deleted_job', job: slot.job } : slot,
    );
    this.#slots.push({ kind: 'job_purged', jobId });
  }

  #putDeployment(deployment: DeploymentRecord): void {
    const { jobId } = deployment;
    if (this.#records.currentVersion(jobId) === undefined)
      throw broken(`put_deployment names job ${jobId}, which is not stored`);
    this.#scheduling.putDeployment(deployment);
    this.#scheduling.trimDeployments(deployment.jobId, this.#limits.deploymentsPerJob);
    this.#slots.push({ kind: 'deployment', deployment: copyPlain(deployment) });
  }

  #putEvaluation(evaluation: EvaluationRecord): void {
    this.#scheduling.putEvaluation(evaluation);
    this.#scheduling.trimEvaluations(this.#limits.evaluations);
    this.#slots.push({ kind: 'evaluation', evaluation: copyPlain(evaluation) });
  }

  #deleteAlloc(allocId: string): void {
    const jobId = this.#records.jobIdOf(allocId);
    this.#records.deleteAlloc(allocId);
    this.#history.deleteEvents(allocId);
    this.#touched.delete(allocId);
    if (jobId !== undefined) this.#slots.push({ kind: 'alloc_purged', allocId, jobId });
  }

  #addEvent(event: TaskEventRow): void {
    const { allocId, task, seq } = event;
    const jobId = this.#jobIdOf(allocId, { kind: 'add_task_event' });
    const newest = this.#history.newestEventSeq(allocId, task);
    if (seq <= newest) throw broken(`event ${seq} of task ${allocId}/${task} comes after event ${newest}`);
    this.#history.addEvent(event);
    this.#history.trimEvents(allocId, task, this.#limits);
    this.#slots.push({ kind: 'event', event: copyPlain(event), jobId });
  }

  #putRun(run: RunRecord): void {
    const { runId, allocId, task, attempt } = run;
    const stored = this.#records.ownerOfRun(runId);
    if (stored !== undefined && (stored.allocId !== allocId || stored.task !== task)) {
      throw broken(
        `run ${runId} belongs to task ${stored.allocId}/${stored.task}, not to ${allocId}/${task}`,
      );
    }
    this.#records.putRun(run);
    const { runsPerTask } = this.#limits;
    if (attempt % Math.max(1, slackOf(runsPerTask)) === 0) this.#records.trimRuns(allocId, task, runsPerTask);
  }

  #jobIdOf(allocId: string, change: { readonly kind: string }): string {
    const jobId = this.#records.jobIdOf(allocId);
    if (jobId === undefined) throw broken(`${change.kind} names alloc ${allocId}, which is not stored`);
    return jobId;
  }

  #touch(allocId: string): void {
    if (this.#touched.get(allocId)?.commit === this.#commit) return;
    const slot: Slot = { kind: 'alloc', allocId };
    this.#touched.set(allocId, { commit: this.#commit, slot });
    this.#slots.push(slot);
  }

  #fill(slot: Slot): { readonly key: string; readonly payload: FeedPayload } | undefined {
    switch (slot.kind) {
      case 'job':
      case 'deleted_job': {
        const type = slot.job.stopped ? 'JobDeregistered' : 'JobRegistered';
        return { key: slot.job.id, payload: { topic: 'Job', type, job: slot.job } };
      }
      case 'job_purged':
        return { key: slot.jobId, payload: { topic: 'Job', type: 'JobPurged', jobId: slot.jobId } };
      case 'alloc':
        return this.#touched.get(slot.allocId)?.slot === slot ? this.#describeAlloc(slot.allocId) : undefined;
      case 'alloc_purged':
        return {
          key: slot.allocId,
          payload: {
            topic: 'Allocation',
            type: 'AllocationPurged',
            allocId: slot.allocId,
            jobId: slot.jobId,
          },
        };
      case 'deployment': {
        const { deployment } = slot;
        const type = 'DeploymentStatusUpdate';
        return { key: deployment.id, payload: { topic: 'Deployment', type, deployment } };
      }
      case 'evaluation': {
        const { evaluation } = slot;
        return {
          key: evaluation.id,
          payload: { topic: 'Evaluation', type: 'EvaluationUpdated', evaluation },
        };
      }
      case 'node':
        return {
          key: 'node',
          payload: { topic: 'Node', type: 'NodeSchedulingUpdated', scheduling: slot.scheduling },
        };
      case 'event':
        return {
          key: `${slot.event.allocId}/${slot.event.task}`,
          payload: { topic: 'TaskEvent', type: 'TaskEvent', event: slot.event, jobId: slot.jobId },
        };
    }
  }

  /** Undefined when its row turned out to be unreadable: then there is nothing that could be told. */
  #describeAlloc(allocId: string): { readonly key: string; readonly payload: FeedPayload } | undefined {
    const described = this.#records.describeAlloc(allocId);
    if (described === undefined) return undefined;
    const { alloc, tasks } = described;
    return { key: allocId, payload: { topic: 'Allocation', type: 'AllocationUpdated', alloc, tasks } };
  }
}

function broken(message: string): AgentError {
  return new AgentError('internal', message);
}
