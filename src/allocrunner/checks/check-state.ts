/** Owns what the answers to a check come to: its status, and when it asks for a restart. Pure. */
import type { ServiceCheck } from '../../jobspec/types.js';

export type CheckStatus = 'pending' | 'success' | 'warning' | 'failure';

/** One answer, or the want of one. */
export interface CheckResult {
  readonly status: Exclude<CheckStatus, 'pending'>;
  /** Of HTTP; else 0. */
  readonly statusCode: number;
  /** What was said, cut to MOST_OUTPUT_BYTES. */
  readonly output: string;
  readonly atMs: number;
}

/** Of one check, since its task started. */
export interface CheckState {
  readonly status: CheckStatus;
  /** Successes, or failures, in a row. */
  readonly successes: number;
  readonly failures: number;
  /** Bad answers in a row that count for a restart. */
  readonly unwell: number;
  /** Newest last. */
  readonly results: readonly CheckResult[];
  readonly startedMonoMs: number;
  /** Asked for since the task started: once is enough. */
  readonly restartAsked: boolean;
}

export interface CheckStep {
  readonly state: CheckState;
  readonly wantsRestart: boolean;
}

/** What was said, as much as is kept of it. */
export const MOST_OUTPUT_BYTES = 4_096;
/** Answers kept of each check. */
const RESULTS_KEPT = 10;

const INITIAL = { passing: 'success', warning: 'warning', critical: 'failure' } as const;

export function newCheckState({ initialStatus }: ServiceCheck, monoMs: number): CheckState {
  return {
    status: initialStatus === undefined ? 'pending' : INITIAL[initialStatus],
    successes: 0,
    failures: 0,
    unwell: 0,
    results: [],
    startedMonoMs: monoMs,
    restartAsked: false,
  };
}

/** Takes in one answer. */
export function nextCheckState(
  check: ServiceCheck,
  before: CheckState,
  result: CheckResult,
  monoMs: number,
): CheckStep {
  const isGood = result.status !== 'failure';
  const successes = isGood ? before.successes + 1 : 0;
  const failures = isGood ? 0 : before.failures + 1;
  const isEnough = isGood
    ? successes >= check.successBeforePassing
    : failures >= check.failuresBeforeCritical;
  const status = isEnough ? result.status : before.status;
  const unwell = countUnwell(check, before, status, monoMs);
  const limit = check.restart?.limit ?? Number.POSITIVE_INFINITY;
  const wantsRestart = unwell >= limit && !before.restartAsked;
  return {
    state: {
      ...before,
      status,
      successes,
      failures,
      unwell,
      results: [...before.results, result].slice(-RESULTS_KEPT),
      restartAsked: before.restartAsked || wantsRestart,
    },
    wantsRestart,
  };
}

function countUnwell(
  { restart }: ServiceCheck,
  before: CheckState,
  status: CheckStatus,
  monoMs: number,
): number {
  if (restart === undefined || monoMs - before.startedMonoMs < restart.graceMs) return 0;
  const isUnwell = status === 'failure' || (status === 'warning' && !restart.ignoreWarnings);
  return isUnwell ? before.unwell + 1 : 0;
}

/** Whether the health of an alloc may count on it. */
export function isGoodEnough({ onUpdate }: ServiceCheck, status: CheckStatus): boolean {
  if (onUpdate === 'ignore' || status === 'success') return true;
  return onUpdate === 'ignore_warnings' && status === 'warning';
}

/** The first bytes of a text, at a boundary of characters. */
export function cutOutput(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= MOST_OUTPUT_BYTES) return text;
  return bytes.subarray(0, MOST_OUTPUT_BYTES).toString().replace(/�+$/, '');
}
