/** Owns how a user says a time: an age (`10m`, `2h`, `7d`), a time of today (`14:05`), or a date. */
import { readDuration } from '../jobspec/units.js';
import { CliError, EXIT } from './exit.js';

const DAY_MS = 86_400_000;

/**
 * Wall time of --since.
 * @throws CliError usage
 */
export function parseSince(text: string, nowMs: number): number {
  const age = readAge(text.trim());
  if (age !== undefined) return nowMs - age;
  const today = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(text.trim());
  if (today !== null) {
    const at = new Date(nowMs);
    at.setHours(Number(today[1]), Number(today[2]), Number(today[3] ?? 0), 0);
    // "since 23:50", said after midnight, is yesterday's.
    return at.getTime() > nowMs ? at.getTime() - DAY_MS : at.getTime();
  }
  const date = /^\d{4}-\d{2}-\d{2}/.test(text.trim()) ? Date.parse(text.trim()) : NaN;
  if (!Number.isNaN(date)) return date;
  throw new CliError(
    EXIT.usage,
    `--since ${JSON.stringify(text)} is no time: give an age such as 10m or 7d, a time such as 14:05, or a date such as 2026-01-31T14:05:00Z`,
  );
}

/** Milliseconds of `7d`, `1d12h`, and of what job files call a duration. */
function readAge(text: string): number | undefined {
  const days = /^(\d+)d(.*)$/.exec(text);
  if (days === null) {
    const read = readDuration(text);
    return read.ok ? read.value : undefined;
  }
  const rest = days[2] === '' || days[2] === undefined ? 0 : readAge(days[2]);
  return rest === undefined ? undefined : Number(days[1]) * DAY_MS + rest;
}
