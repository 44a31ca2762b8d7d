/** Owns the way from stored deployments and evaluations to the wire. Pure. */
import type { DeploymentRecord, EvaluationRecord } from '../state/store.js';
import { NAMESPACE } from './alloc-to-wire.js';
import { msToNs, msToRfc3339, type Deployment, type Evaluation } from './wire.js';

interface Indexes {
  readonly createIndex: number;
  readonly modifyIndex: number;
}

/** As the feed tells it: a row tells what was at its index; when the thing was made is not in it. */
export function feedDeploymentToWire(deployment: DeploymentRecord, modifyIndex: number): Deployment {
  return deploymentToWire(deployment, { createIndex: modifyIndex, modifyIndex });
}

export function deploymentToWire(
  deployment: DeploymentRecord,
  { createIndex, modifyIndex }: Indexes,
): Deployment {
  const groups = Object.entries(deployment.groups).map(
    ([name, group]): [string, Deployment['TaskGroups'][string]] => [
      name,
      {
        AutoRevert: group.autoRevert,
        AutoPromote: false,
        ProgressDeadline: msToNs(group.progressDeadlineMs),
        RequireProgressBy: msToRfc3339(group.requireProgressBy?.wallMs),
        Promoted: false,
        PlacedCanaries: null,
        DesiredCanaries: 0,
        DesiredTotal: group.desiredTotal,
        PlacedAllocs: group.placed,
        HealthyAllocs: group.healthy,
        UnhealthyAllocs: group.unhealthy,
      },
    ],
  );
  return {
    ID: deployment.id,
    Namespace: NAMESPACE,
    JobID: deployment.jobId,
    JobVersion: deployment.jobVersion,
    JobCreateIndex: 0,
    IsMultiregion: false,
    TaskGroups: Object.fromEntries(groups),
    Status: deployment.status,
    StatusDescription: deployment.description,
    CreateIndex: createIndex,
    ModifyIndex: modifyIndex,
    CreateTime: msToNs(deployment.createdAtMs),
    ModifyTime: msToNs(deployment.modifiedAtMs),
  };
}

export function evaluationToWire(evaluation: EvaluationRecord, indexes: Indexes): Evaluation {
  return {
    ID: evaluation.id,
    Priority: evaluation.priority,
    Type: evaluation.jobType,
    TriggeredBy: evaluation.triggeredBy,
    Namespace: NAMESPACE,
    JobID: evaluation.jobId,
    JobModifyIndex: evaluation.jobModifyIndex,
    NodeID: '',
    DeploymentID: evaluation.deploymentId ?? '',
    Status: evaluation.status,
    StatusDescription: evaluation.description,
    Wait: 0,
    WaitUntil: msToRfc3339(evaluation.waitUntilMs),
    NextEval: '',
    PreviousEval: '',
    BlockedEval: '',
    RelatedEvals: [],
    FailedTGAllocs: null,
    // What it did comes before the moment at which it is written down.
    CreateIndex: Math.min(indexes.createIndex, evaluation.beganAfter + 1),
    ModifyIndex: indexes.modifyIndex,
    CreateTime: msToNs(evaluation.createdAtMs),
    ModifyTime: msToNs(evaluation.modifiedAtMs),
  };
}
