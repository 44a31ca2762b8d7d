/** Owns the short list of a task's newest events that its record carries. Pure. */
import type { StampedTaskEvent } from './task-event.js';

/** How many events Nomad shows of a task; tools written for it expect no more. */
export const RECENT_EVENTS = 10;

/**
 * Appends an event and drops the oldest ones beyond `capacity`.
 * @returns the new list, newest last, and how many events were dropped by this call
 */
export function appendBounded(
  recent: readonly StampedTaskEvent[],
  event: StampedTaskEvent,
  capacity = RECENT_EVENTS,
): { readonly recent: readonly StampedTaskEvent[]; readonly dropped: number } {
  const all = [...recent, event];
  const dropped = Math.max(0, all.length - capacity);
  return { recent: all.slice(dropped), dropped };
}
