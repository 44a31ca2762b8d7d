/** Owns the form of deployments and evaluations as rows; see rows.ts. */
import { encodeJson } from './json.js';
import { asColumns, BadRow, isRecord, type Columns, type Row } from './row.js';
import type { DeploymentRecord, EvaluationRecord } from './store.js';

const DEPLOYMENT_STATUSES = ['running', 'paused', 'successful', 'failed', 'cancelled'] as const;
const EVALUATION_STATUSES = ['pending', 'complete', 'canceled'] as const;

export function encodeDeployment(deployment: DeploymentRecord): Columns {
  const { id, jobId, jobVersion, status, description, ...rest } = deployment;
  return asColumns({
    deployment_id: id,
    job_id: jobId,
    job_version: jobVersion,
    status,
    description,
    rest: encodeJson(rest),
  });
}

export function decodeDeployment(row: Row): DeploymentRecord {
  const rest = row.object('rest');
  if (!isRecord(rest['groups'])) throw new BadRow('the deployment has no groups');
  return Object.assign(rest as unknown as Pick<DeploymentRecord, 'groups' | 'createdAtMs' | 'modifiedAtMs'>, {
    id: row.text('deployment_id'),
    jobId: row.text('job_id'),
    jobVersion: row.number('job_version'),
    status: row.word('status', DEPLOYMENT_STATUSES),
    description: row.text('description'),
  });
}

export function encodeEvaluation(evaluation: EvaluationRecord): Columns {
  const { id, jobId, status, ...rest } = evaluation;
  return asColumns({ eval_id: id, job_id: jobId, status, rest: encodeJson(rest) });
}

export function decodeEvaluation(row: Row): EvaluationRecord {
  const rest = row.object('rest');
  if (typeof rest['triggeredBy'] !== 'string') throw new BadRow('the evaluation has no trigger');
  return Object.assign(rest as unknown as Omit<EvaluationRecord, 'id' | 'jobId' | 'status'>, {
    id: row.text('eval_id'),
    jobId: row.text('job_id'),
    status: row.word('status', EVALUATION_STATUSES),
  });
}
