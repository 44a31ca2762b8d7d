/** Owns the shape of what the doctor finds. */

/** What `GET /v1/holdfast/doctor` has found: one thing that is not as it should be. */
export interface DoctorFinding {
  readonly Kind: string;
  readonly Subject: string;
  readonly Problem: string;
  readonly Advice: string;
  /** True when `PUT` can cure it. */
  readonly CanFix: boolean;
  readonly Outcome: 'open' | 'fixed' | 'failed';
  /** Why the cure failed; else ''. */
  readonly Error: string;
}
