/** Owns how often and how soon a failed kill is tried again. Pure. */

/** Nomad's numbers: 5 s · 4^i, at most 2 minutes, 5 tries. */
const BASELINE_MS = 5_000;
const LIMIT_MS = 120_000;
export const KILL_ATTEMPTS = 5;

/** What follows the failed kill attempt number `attempt` (counted from 1). */
export type KillRetry =
  | { readonly kind: 'retry'; readonly afterMs: number }
  | { readonly kind: 'unkillable'; readonly reapEveryMs: number };

/** After the last try the task is not forgotten: it is shown as unkillable and a reaper goes on at the limit. */
export function nextKillRetry(attempt: number): KillRetry {
  if (attempt >= KILL_ATTEMPTS) return { kind: 'unkillable', reapEveryMs: LIMIT_MS };
  return { kind: 'retry', afterMs: Math.min(BASELINE_MS * 4 ** (attempt - 1), LIMIT_MS) };
}
