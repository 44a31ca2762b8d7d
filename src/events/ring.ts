/** Owns the bound on the events that travel with a task's record. Pure. */
import type { StampedTaskEvent } from './task-event.js';

/** As many as Nomad shows of a task. */
export const RECENT_EVENTS = 10;

/** Appends `event`; the oldest beyond `capacity` are dropped and counted. */
export function appendBounded(
  recent: readonly StampedTaskEvent[],
  event: StampedTaskEvent,
  capacity = RECENT_EVENTS,
): { readonly recent: readonly StampedTaskEvent[]; readonly dropped: number } {
  const all = [...recent, event];
  const dropped = Math.max(0, all.length - capacity);
  return { recent: all.slice(dropped), dropped };
}
