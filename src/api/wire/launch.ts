/** Owns the shapes of launching a job from a pattern. */

/** Body of PUT /v1/job/:id/dispatch. */
export interface DispatchRequest {
  /** base64. */
  readonly Payload?: string;
  readonly Meta?: Readonly<Record<string, string>>;
  /** The same token again gives the job that was made then. */
  readonly IdempotencyToken?: string;
}

export interface DispatchResponse {
  readonly DispatchedJobID: string;
  readonly EvalID: string;
  readonly EvalCreateIndex: number;
  readonly JobCreateIndex: number;
  readonly Index: number;
}

/** Answer to PUT /v1/job/:id/periodic/force. */
export interface PeriodicForceResponse {
  readonly EvalID: string;
  readonly EvalCreateIndex: number;
  readonly Index: number;
  /** The job that was made. */
  readonly Holdfast: { readonly JobID: string };
}
