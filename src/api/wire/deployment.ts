/** Owns the shape of deployments. */

/** A newer version of a job on its way into its places. */
export interface Deployment {
  readonly ID: string;
  readonly Namespace: string;
  readonly JobID: string;
  readonly JobVersion: number;
  readonly JobCreateIndex: number;
  readonly IsMultiregion: false;
  readonly TaskGroups: Readonly<Record<string, DeploymentState>>;
  readonly Status: 'running' | 'paused' | 'successful' | 'failed' | 'cancelled';
  readonly StatusDescription: string;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
  readonly CreateTime: number;
  readonly ModifyTime: number;
}

/** One group of it. */
export interface DeploymentState {
  readonly AutoRevert: boolean;
  readonly AutoPromote: false;
  readonly ProgressDeadline: number;
  /** It fails unless another alloc has become healthy by then. */
  readonly RequireProgressBy: string;
  readonly Promoted: false;
  readonly PlacedCanaries: null;
  readonly DesiredCanaries: 0;
  readonly DesiredTotal: number;
  readonly PlacedAllocs: number;
  readonly HealthyAllocs: number;
  readonly UnhealthyAllocs: number;
}

/** Answer to PUT /v1/deployment/fail/:id and pause/:id. */
export interface DeploymentUpdateResponse {
  readonly EvalID: string;
  readonly EvalCreateIndex: number;
  readonly DeploymentModifyIndex: number;
  /** Version that the job goes back to, when failing it made it do so. */
  readonly RevertedJobVersion: number | null;
  readonly Index: number;
}
