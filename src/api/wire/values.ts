/** Owns the numbers, times and headers of the wire. */

/** Response header with what a reader must know before they trust an answer; mostly not there. */
export const WARNING_HEADER = 'x-holdfast-warning';

/** Nomad writes a time that is not there as Go's zero time. */
export const ZERO_TIME = '0001-01-01T00:00:00Z';

/** Wall milliseconds to nanoseconds. Above 2^53 the value is rounded, yet prints and parses back exactly. */
export function msToNs(ms: number): number {
  return Math.round(ms) * 1e6;
}

/** Nanoseconds to whole milliseconds. */
export function nsToMs(ns: number): number {
  return Math.round(ns / 1e6);
}

/** Wall milliseconds to RFC 3339; undefined to Go's zero time. */
export function msToRfc3339(ms: number | undefined): string {
  return ms === undefined ? ZERO_TIME : new Date(ms).toISOString();
}

/** RFC 3339 to wall milliseconds; Go's zero time, and what is no time, to undefined. */
export function rfc3339ToMs(text: string): number | undefined {
  const ms = Date.parse(text);
  return text === ZERO_TIME || Number.isNaN(ms) ? undefined : ms;
}
