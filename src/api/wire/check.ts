/** Owns the shape of checks and of what came of them. */

export type CheckStatusName = 'pending' | 'success' | 'failure';

/** GET /v1/client/allocation/:id/checks, by id: how a check stands. */
export interface CheckView {
  readonly ID: string;
  /** `readiness`: the health of the alloc does not ask it. */
  readonly Mode: 'healthiness' | 'readiness';
  /** Nomad has no word for a warning and calls it a failure; Holdfast.Status tells it apart. */
  readonly Status: CheckStatusName;
  /** Of HTTP; 0 for others and before the first answer. */
  readonly StatusCode: number;
  readonly Output: string;
  /** Of the newest answer, in seconds since 1970; 0 = there is none. */
  readonly Timestamp: number;
  /** `<job>.<group>[<index>]`. */
  readonly Group: string;
  /** '' for a check of the group as a whole. */
  readonly Task: string;
  readonly Service: string;
  readonly Check: string;
  readonly Holdfast: {
    readonly Status: CheckStatusName | 'warning';
    readonly Interval: number;
    /** The newest few, oldest first. */
    readonly Results: readonly CheckResultView[];
  };
}

export interface CheckResultView {
  readonly Status: 'success' | 'warning' | 'failure';
  readonly StatusCode: number;
  readonly Output: string;
  readonly Time: number;
}
