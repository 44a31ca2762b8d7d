/** Owns deployments and evaluations in memory; see memory-records.ts. */
import { freezeCopy } from './memory-history.js';
import type { DeploymentRecord, EvaluationRecord, Indexed } from './store.js';
import type { Scheduling } from './tables.js';
import type { UndoLog } from './undo-log.js';

type Rows<T> = Map<string, Indexed<T>>;

export class MemoryScheduling implements Scheduling {
  readonly #undo: UndoLog;
  readonly #deployments: Rows<DeploymentRecord> = new Map();
  readonly #evaluations: Rows<EvaluationRecord> = new Map();

  constructor(undo: UndoLog) {
    this.#undo = undo;
  }

  putDeployment(deployment: DeploymentRecord): void {
    this.#put(this.#deployments, deployment);
  }

  stampDeployment(id: string, index: number): void {
    this.#stamp(this.#deployments, id, index);
  }

  trimDeployments(jobId: string, most: number): void {
    const ofJob = this.listDeployments({ jobId }).map(({ record }) => record);
    const successful = ofJob.findLast(({ status }) => status === 'successful');
    const newest = new Set(most > 0 ? ofJob.slice(-most) : []);
    for (const record of ofJob) {
      const isActive = record.status === 'running' || record.status === 'paused';
      if (isActive || newest.has(record) || record === successful) continue;
      this.#undo.delete(this.#deployments, record.id);
    }
  }

  putEvaluation(evaluation: EvaluationRecord): void {
    this.#put(this.#evaluations, evaluation);
  }

  stampEvaluation(id: string, index: number): void {
    this.#stamp(this.#evaluations, id, index);
  }

  trimEvaluations(most: number): void {
    const all = this.listEvaluations().map(({ record }) => record);
    for (const record of all.slice(0, Math.max(0, all.length - most))) {
      if (record.status !== 'pending') this.#undo.delete(this.#evaluations, record.id);
    }
  }

  deleteDeployments(jobId: string): void {
    for (const { record } of this.listDeployments({ jobId })) this.#undo.delete(this.#deployments, record.id);
  }

  listDeployments(filter: { readonly jobId?: string } = {}): readonly Indexed<DeploymentRecord>[] {
    return listOf(this.#deployments, filter.jobId);
  }

  getDeployment(id: string): Indexed<DeploymentRecord> | undefined {
    return this.#deployments.get(id);
  }

  listEvaluations(filter: { readonly jobId?: string } = {}): readonly Indexed<EvaluationRecord>[] {
    return listOf(this.#evaluations, filter.jobId);
  }

  getEvaluation(id: string): Indexed<EvaluationRecord> | undefined {
    return this.#evaluations.get(id);
  }

  #put<T extends { readonly id: string }>(rows: Rows<T>, given: T): void {
    const record = freezeCopy(given).value;
    const old = rows.get(record.id);
    const indexes = { createIndex: old?.createIndex ?? 0, modifyIndex: old?.modifyIndex ?? 0 };
    this.#undo.set(rows, record.id, { record, ...indexes });
  }

  #stamp<T>(rows: Rows<T>, id: string, index: number): void {
    const old = rows.get(id);
    if (old === undefined) return;
    this.#undo.set(rows, id, {
      record: old.record,
      createIndex: old.createIndex || index,
      modifyIndex: index,
    });
  }
}

function listOf<T extends { readonly jobId: string }>(
  rows: Rows<T>,
  jobId: string | undefined,
): readonly Indexed<T>[] {
  const all = [...rows.values()];
  return jobId === undefined ? all : all.filter(({ record }) => record.jobId === jobId);
}
