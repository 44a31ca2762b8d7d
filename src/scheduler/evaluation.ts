/** Owns how an evaluation is written down. Pure. Stand-alone it is complete when it is made, unless it waits for its time. */
import type { EvaluationRecord, EvaluationTrigger, JobRecord } from '../state/store.js';

export function evaluationOf(
  { id: jobId, spec }: Pick<JobRecord, 'id' | 'spec'>,
  made: {
    readonly id: string;
    readonly triggeredBy: EvaluationTrigger;
    readonly deploymentId?: string | undefined;
    readonly jobModifyIndex: number;
    /** The store's index before it began. */
    readonly beganAfter: number;
    readonly nowMs: number;
  },
): EvaluationRecord {
  return {
    id: made.id,
    jobId,
    jobType: spec.type,
    priority: spec.priority,
    triggeredBy: made.triggeredBy,
    status: 'complete',
    description: '',
    deploymentId: made.deploymentId,
    waitUntilMs: undefined,
    jobModifyIndex: made.jobModifyIndex,
    beganAfter: made.beganAfter,
    createdAtMs: made.nowMs,
    modifiedAtMs: made.nowMs,
  };
}
