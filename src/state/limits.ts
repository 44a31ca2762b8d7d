/** Owns the bounds of the store: how much history it keeps. Each may be set by the agent's configuration. */

export interface StoreLimits {
  /** The newest this many feed rows are kept whatever their age. */
  readonly feedRows: number;
  /** Feed rows younger than this are kept whatever their number. */
  readonly feedAgeMs: number;
  /** Caps the two above: payload bytes of all feed rows. */
  readonly feedBytes: number;
  readonly eventsPerTask: number;
  /** Payload bytes of one task's events. */
  readonly eventBytesPerTask: number;
  /** Ended runs of one task that are remembered; open runs are never dropped. */
  readonly runsPerTask: number;
  /** Versions of one job that are remembered besides those that an alloc runs. */
  readonly versionsPerJob: number;
  /** Deployments of one job that are remembered besides those under way and the newest successful one. */
  readonly deploymentsPerJob: number;
  /** Evaluations of all jobs that are remembered besides those that are pending. */
  readonly evaluations: number;
  /** Changes that may wait for a disk that refuses writes. */
  readonly keptChanges: number;
}

/** Feed and events: contract §6 and DESIGN §6. The rest: far above what people look at, far below what hurts. */
export const DEFAULT_STORE_LIMITS: StoreLimits = {
  feedRows: 10_000,
  feedAgeMs: 24 * 60 * 60 * 1000,
  feedBytes: 64 * 2 ** 20,
  eventsPerTask: 10_000,
  eventBytesPerTask: 4 * 2 ** 20,
  runsPerTask: 1_000,
  versionsPerJob: 10,
  deploymentsPerJob: 10,
  evaluations: 1_000,
  keptChanges: 100_000,
};

/**
 * How far below a bound a trim goes, so that it is needed once in a while and not at each commit. Small bounds (in
 * tests) have no slack and hold exactly.
 */
export function slackOf(limit: number): number {
  return Math.floor(limit / 16);
}
