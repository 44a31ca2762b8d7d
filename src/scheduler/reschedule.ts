/** Owns what follows when an alloc has failed for good: a new one in its place, when, or none and why. Pure. */
import type { ReschedulePolicy } from '../jobspec/types.js';
import { formatDuration } from '../jobspec/units.js';
import type { Moment, RescheduleEvent } from '../state/store.js';
import { elapsedMs } from '../taskrunner/restart-policy.js';

export type RescheduleDecision =
  | { readonly kind: 'after'; readonly delayMs: number }
  /** `why` for people. */
  | { readonly kind: 'never'; readonly why: string };

/** Events of an unlimited policy that are kept: the delay needs two of them, people like to see a few. */
const MOST_EVENTS = 10;

/**
 * @param policy of the group; undefined = it asks for nothing
 * @param events what was done about the failures before, in this place, oldest first
 */
export function decideReschedule(
  policy: ReschedulePolicy | undefined,
  events: readonly RescheduleEvent[],
  now: Moment,
): RescheduleDecision {
  if (policy === undefined) return { kind: 'never', why: 'the group is not rescheduled' };
  if (!policy.unlimited) {
    if (policy.attempts === 0) return { kind: 'never', why: 'rescheduling is off (attempts = 0)' };
    const used = events.filter(({ at }) => elapsedMs(at, now) < policy.intervalMs).length;
    if (used >= policy.attempts) {
      const within = formatDuration(policy.intervalMs);
      return { kind: 'never', why: `rescheduled ${used} of ${policy.attempts} times within ${within}` };
    }
  }
  return { kind: 'after', delayMs: nextDelayMs(policy, events, now) };
}

function nextDelayMs(policy: ReschedulePolicy, events: readonly RescheduleEvent[], now: Moment): number {
  const { delayMs, maxDelayMs } = policy;
  const last = events.at(-1);
  if (last === undefined || policy.delayFunction === 'constant') return delayMs;
  const before = events.at(-2)?.delayMs ?? 0;
  const grown = policy.delayFunction === 'exponential' ? last.delayMs * 2 : last.delayMs + before;
  const capped = Math.min(Math.max(grown, delayMs), maxDelayMs);
  // At the cap, as in Nomad: what ran longer than it would have to wait was well for a while.
  return capped === maxDelayMs && elapsedMs(last.at, now) > maxDelayMs ? delayMs : capped;
}

/** The events of the alloc that follows; what the policy cannot count any more is dropped. */
export function withEvent(
  policy: ReschedulePolicy | undefined,
  events: readonly RescheduleEvent[],
  event: RescheduleEvent,
): readonly RescheduleEvent[] {
  const most = Math.max(MOST_EVENTS, policy?.unlimited === false ? policy.attempts : 0);
  return [...events, event].slice(-most);
}

/** Time from now until a stored moment, never negative; across a reboot by the wall clock, but never over `mostMs`. */
export function leftMs(due: Moment, mostMs: number, now: Moment): number {
  const left = due.bootId === now.bootId ? due.monoMs - now.monoMs : due.wallMs - now.wallMs;
  return Math.max(0, Math.min(left, mostMs));
}

/**
 * A due moment of another boot in the time of this one: counted from the wall clock each time it is looked at, it would
 * never come after a clock that was set back. Gives the very same moment when it is of this boot.
 */
export function rebased(due: Moment, mostMs: number, now: Moment): Moment {
  return due.bootId === now.bootId ? due : momentAfter(now, leftMs(due, mostMs, now));
}

/** The moment `ms` from now. */
export function momentAfter(now: Moment, ms: number): Moment {
  return { wallMs: now.wallMs + ms, monoMs: now.monoMs + ms, bootId: now.bootId };
}
