/** Owns the SQL of what the scheduler remembers: deployments and evaluations. */
import type { Quarantine } from './quarantine.js';
import type { Recall } from './recall.js';
import { decodeIndexed } from './rows.js';
import { decodeDeployment, decodeEvaluation, encodeDeployment, encodeEvaluation } from './scheduling-rows.js';
import type { Sql } from './sqlite-sql.js';
import type { DeploymentRecord, EvaluationRecord, Indexed } from './store.js';
import type { Scheduling } from './tables.js';

export class SqliteScheduling implements Scheduling {
  readonly #sql: Sql;
  readonly #quarantine: Quarantine;
  /** Places of the newest evaluation that is old, and of the last one; by how many are not old. */
  readonly #oldEvaluations: Recall<{ readonly old: number; readonly last: number }>;

  constructor(sql: Sql, quarantine: Quarantine) {
    this.#sql = sql;
    this.#oldEvaluations = sql.recall(1);
    this.#quarantine = quarantine;
  }

  /** Reads every record once, so that bad rows are found now. */
  check(): void {
    this.listDeployments();
    this.listEvaluations();
  }

  putDeployment(deployment: DeploymentRecord): void {
    this.#sql.put('deployments', ['deployment_id'], encodeDeployment(deployment), ['job_id']);
  }

  stampDeployment(id: string, index: number): void {
    this.#sql.run(
      `UPDATE deployments SET create_index = iif(create_index = 0, :index, create_index), modify_index = :index
       WHERE deployment_id = :id`,
      { id, index },
    );
  }

  trimDeployments(jobId: string, most: number): void {
    this.#sql.run(
      `DELETE FROM deployments WHERE job_id = :jobId AND status NOT IN ('running', 'paused')
         AND place NOT IN (SELECT place FROM deployments WHERE job_id = :jobId ORDER BY place DESC LIMIT :most)
         AND place NOT IN (SELECT place FROM deployments WHERE job_id = :jobId AND status = 'successful'
                           ORDER BY place DESC LIMIT 1)`,
      { jobId, most },
    );
  }

  putEvaluation(evaluation: EvaluationRecord): void {
    this.#sql.put('evaluations', ['eval_id'], encodeEvaluation(evaluation), ['job_id']);
  }

  stampEvaluation(id: string, index: number): void {
    this.#sql.run(
      `UPDATE evaluations SET create_index = iif(create_index = 0, :index, create_index), modify_index = :index
       WHERE eval_id = :id`,
      { id, index },
    );
  }

  trimEvaluations(most: number): void {
    const old = this.#newestOld(most);
    if (old === undefined) return;
    this.#sql.run(`DELETE FROM evaluations WHERE status <> 'pending' AND place <= ?`, [old]);
  }

  deleteDeployments(jobId: string): void {
    this.#sql.run('DELETE FROM deployments WHERE job_id = :jobId', { jobId });
  }

  listDeployments(filter: { readonly jobId?: string } = {}): readonly Indexed<DeploymentRecord>[] {
    const { jobId } = filter;
    if (jobId === undefined)
      return this.#deployments(this.#sql.all('SELECT * FROM deployments ORDER BY place'));
    return this.#deployments(
      this.#sql.all('SELECT * FROM deployments WHERE job_id = :jobId ORDER BY place', { jobId }),
    );
  }

  getDeployment(id: string): Indexed<DeploymentRecord> | undefined {
    const text = 'SELECT * FROM deployments WHERE deployment_id = :id';
    return this.#deployments(this.#sql.all(text, { id }))[0];
  }

  listEvaluations(filter: { readonly jobId?: string } = {}): readonly Indexed<EvaluationRecord>[] {
    const { jobId } = filter;
    if (jobId === undefined)
      return this.#evaluations(this.#sql.all('SELECT * FROM evaluations ORDER BY place'));
    return this.#evaluations(
      this.#sql.all('SELECT * FROM evaluations WHERE job_id = :jobId ORDER BY place', { jobId }),
    );
  }

  getEvaluation(id: string): Indexed<EvaluationRecord> | undefined {
    const text = 'SELECT * FROM evaluations WHERE eval_id = :id';
    return this.#evaluations(this.#sql.all(text, { id }))[0];
  }

  /**
   * Place of the newest evaluation that is not among the newest `most`; undefined = all are. To count them takes longer
   * than all else that a commit does, so when one was added since, the next place is it.
   */
  #newestOld(most: number): number | undefined {
    const key = String(most);
    const known = this.#oldEvaluations.get(key);
    const last = this.#sql.number('SELECT MAX(place) FROM evaluations') ?? 0;
    if (known?.last === last) return known.old;
    const old =
      known?.last === last - 1
        ? this.#sql.number('SELECT MIN(place) FROM evaluations WHERE place > ?', [known.old])
        : this.#sql.number('SELECT place FROM evaluations ORDER BY place DESC LIMIT 1 OFFSET ?', [most]);
    if (old !== undefined) this.#oldEvaluations.set(key, { old, last });
    return old;
  }

  #deployments(found: readonly unknown[]): readonly Indexed<DeploymentRecord>[] {
    return this.#quarantine.decode('deployments', found, (row) => decodeIndexed(row, decodeDeployment(row)));
  }

  #evaluations(found: readonly unknown[]): readonly Indexed<EvaluationRecord>[] {
    return this.#quarantine.decode('evaluations', found, (row) => decodeIndexed(row, decodeEvaluation(row)));
  }
}
