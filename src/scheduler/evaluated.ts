/** Owns how it is told what a request came to: the evaluation that is written down of it, and the answer. */
import { describeError } from '../base/errors.js';
import { newUuid } from '../base/ids.js';
import type { EvaluationTrigger, JobRecord } from '../state/store.js';
import { isActive } from './deployment.js';
import type { Deployments } from './deployments.js';
import { evaluationOf } from './evaluation.js';
import type { HandsDeps } from './hands.js';

/** What a registration, stop or evaluation came to. */
export interface Evaluated {
  readonly evalId: string;
  readonly index: number;
  /** The store's index before it began. */
  readonly beganAfter: number;
  readonly version: number;
  readonly jobModifyIndex: number;
  readonly unchanged: boolean;
}

/** A job that was made by launching another one. */
export interface Launched extends Evaluated {
  readonly jobId: string;
}

/** What was done, of which an evaluation is written down. */
export interface Done {
  readonly unchanged: boolean;
  readonly triggeredBy: EvaluationTrigger;
  /** The store's index before it began. */
  readonly beganAfter: number;
}

/** Writes down what was done, for those who follow it. */
export async function noteEvaluation(
  { store, clock, logger }: HandsDeps,
  deployments: Deployments,
  { id, spec }: JobRecord,
  done: Done,
): Promise<Evaluated> {
  const job = store.getJob(id);
  const jobModifyIndex = job?.modifyIndex ?? store.index();
  const newest = job === undefined ? undefined : deployments.newest(job.record);
  const evaluation = evaluationOf(
    { id, spec },
    {
      ...done,
      id: newUuid(),
      deploymentId: newest === undefined || !isActive(newest) ? undefined : newest.id,
      jobModifyIndex,
      nowMs: clock.wallMs(),
    },
  );
  await store
    .commit([{ kind: 'put_evaluation', evaluation }], { whenRefused: 'keep' })
    .catch((error: unknown) => {
      logger.warn({ job_id: id, error: describeError(error) }, 'cannot note an evaluation, ignoring');
    });
  return {
    evalId: evaluation.id,
    index: store.index(),
    beganAfter: done.beganAfter,
    version: job?.record.version ?? 0,
    jobModifyIndex,
    unchanged: done.unchanged,
  };
}
