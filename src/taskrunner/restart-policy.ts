/**
 * Owns what follows a run that ended, or could not start, by the task's restart policy. Pure: time and chance come in
 * as arguments. What somebody asked for (kill, restart) is not decided here.
 */
import { isSuccess, type ExitResult } from '../events/exit-result.js';
import { isSidecar, type TaskRole } from '../jobspec/lifecycle.js';
import type { JobType, RestartPolicy } from '../jobspec/types.js';
import type { Moment, RestartWindow } from '../state/store.js';

/** How the attempt ended. */
export type AttemptEnd =
  | { readonly kind: 'exit'; readonly result: ExitResult; readonly ranForMs: number | undefined }
  | { readonly kind: 'start_error'; readonly recoverable: boolean };

export type RestartDecision =
  | {
      readonly kind: 'restart';
      readonly afterMs: number;
      readonly reason: string;
      readonly window: RestartWindow;
    }
  /** It finished and the job type wants no more of it. */
  | { readonly kind: 'complete'; readonly window: RestartWindow | undefined }
  | { readonly kind: 'give_up'; readonly reason: string; readonly window: RestartWindow | undefined };

/** A growing delay must stay a number of milliseconds: one year. */
const LONGEST_DELAY_MS = 365 * 24 * 3_600_000;

/**
 * Whether an exit with 0 is as good a reason to restart as any. Sidecars and the main tasks of services shall run on;
 * what runs once, before, after or at the end, is finished when it has succeeded.
 */
export function afterSuccess(type: JobType, role: TaskRole): 'restart' | 'complete' {
  const runsOn = role === 'main' ? type === 'service' || type === 'system' : isSidecar(role);
  return runsOn ? 'restart' : 'complete';
}

/**
 * Time from `since` to `now` in ms, never negative. Within one boot by the monotonic clock, which no clock step
 * touches; across a reboot the wall clock is the best there is.
 */
export function elapsedMs(since: Moment, now: Moment): number {
  const ms = since.bootId === now.bootId ? now.monoMs - since.monoMs : now.wallMs - since.wallMs;
  return Math.max(0, ms);
}

/**
 * Decides what follows. The order of the questions is Nomad's; the window is counted here and nowhere else.
 * @param now.roll uniform in [0, 1); adds at most `policy.jitter` of the delay
 */
export function decideRestart(
  policy: RestartPolicy,
  onSuccess: 'restart' | 'complete',
  window: RestartWindow | undefined,
  end: AttemptEnd,
  now: { readonly at: Moment; readonly roll: number },
): RestartDecision {
  const succeeded = end.kind === 'exit' && isSuccess(end.result);
  const finished = succeeded && onSuccess === 'complete';
  if (policy.attempts === 0) {
    if (finished) return { kind: 'complete', window };
    return { kind: 'give_up', reason: 'Policy allows no restarts', window };
  }
  // No restart was used: should the whole alloc be restarted later, all of them are still there.
  if (finished) return { kind: 'complete', window };
  const open = openWindow(policy, window, end, now.at);
  const counted: RestartWindow = { opened: open.opened, used: open.used + 1 };
  if (end.kind === 'start_error' && !end.recoverable) {
    return { kind: 'give_up', reason: 'Error was unrecoverable', window: counted };
  }
  if (counted.used > policy.attempts) return afterTheLastAttempt(policy, counted, now);
  const delayMs = grownDelayMs(policy, counted.used);
  return {
    kind: 'restart',
    afterMs: delayMs * (1 + now.roll * policy.jitter),
    reason: `Restart within policy (${counted.used} of ${policy.attempts} in ${spell(policy.intervalMs)})`,
    window: counted,
  };
}

function openWindow(
  policy: RestartPolicy,
  window: RestartWindow | undefined,
  end: AttemptEnd,
  at: Moment,
): RestartWindow {
  const fresh: RestartWindow = { opened: at, used: 0 };
  // Not ">": an attempt released exactly at the end of the interval belongs to the next one.
  if (window === undefined || elapsedMs(window.opened, at) >= policy.intervalMs) return fresh;
  const ranForMs = end.kind === 'exit' ? end.ranForMs : undefined;
  const stable = policy.resetAfterMs !== undefined && (ranForMs ?? 0) >= policy.resetAfterMs;
  return stable ? fresh : inThisBoot(window, at);
}

/** The same window by the clock of this boot: from here on no step of the wall clock can move it. */
function inThisBoot(window: RestartWindow, at: Moment): RestartWindow {
  if (window.opened.bootId === at.bootId) return window;
  const ageMs = elapsedMs(window.opened, at);
  const opened = { wallMs: at.wallMs - ageMs, monoMs: at.monoMs - ageMs, bootId: at.bootId };
  return { ...window, opened };
}

function afterTheLastAttempt(
  policy: RestartPolicy,
  window: RestartWindow,
  now: { readonly at: Moment; readonly roll: number },
): RestartDecision {
  const spent = `Exceeded allowed attempts ${policy.attempts} in interval ${spell(policy.intervalMs)}`;
  if (policy.mode === 'fail') return { kind: 'give_up', reason: `${spent} and mode is "fail"`, window };
  const leftMs = Math.max(0, policy.intervalMs - elapsedMs(window.opened, now.at));
  return {
    kind: 'restart',
    // Jitter here as well, or all tasks that failed together come back together.
    afterMs: leftMs + now.roll * policy.jitter * policy.delayMs,
    reason: `${spent}: waiting for the interval to end`,
    window,
  };
}

function grownDelayMs(policy: RestartPolicy, used: number): number {
  const grown = policy.delayMs * policy.factor ** (used - 1);
  return Math.min(grown, policy.maxDelayMs ?? Number.POSITIVE_INFINITY, LONGEST_DELAY_MS);
}

/** 90000 → `1m30s`, as Nomad prints durations. */
function spell(ms: number): string {
  const total = Math.round(ms / 1000);
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  const seconds = total % 60;
  const parts = [
    hours > 0 ? `${hours}h` : '',
    minutes > 0 ? `${minutes}m` : '',
    seconds > 0 ? `${seconds}s` : '',
  ];
  return parts.join('') || '0s';
}
