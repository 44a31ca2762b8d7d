/** Owns the shape of evaluations. */

/** Stand-alone, an evaluation is complete when it is made; one that waits for its time is pending until then. */
export interface Evaluation {
  readonly ID: string;
  readonly Priority: number;
  readonly Type: string;
  readonly TriggeredBy:
    | 'job-register'
    | 'job-deregister'
    | 'alloc-stop'
    | 'alloc-failure'
    | 'deployment-watcher'
    | 'periodic-job';
  readonly Namespace: string;
  readonly JobID: string;
  readonly JobModifyIndex: number;
  readonly NodeID: string;
  readonly DeploymentID: string;
  readonly Status: 'pending' | 'complete' | 'canceled';
  readonly StatusDescription: string;
  readonly Wait: number;
  /** When a pending one is due. */
  readonly WaitUntil: string;
  readonly NextEval: string;
  readonly PreviousEval: string;
  readonly BlockedEval: string;
  readonly RelatedEvals: readonly never[];
  readonly FailedTGAllocs: null;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
  readonly CreateTime: number;
  readonly ModifyTime: number;
}
