/** Owns how times, ages and sizes are shown. Local time, as the user's clock has it. */

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Two largest units: `850ms`, `12s`, `4m10s`, `3h2m`, `41d`. */
export function formatAge(ms: number): string {
  const age = Math.max(0, ms);
  if (age < SECOND_MS) return `${Math.floor(age)}ms`;
  if (age < MINUTE_MS) return `${Math.floor(age / SECOND_MS)}s`;
  if (age < HOUR_MS) return two(age, MINUTE_MS, 'm', SECOND_MS, 's');
  if (age < DAY_MS) return two(age, HOUR_MS, 'h', MINUTE_MS, 'm');
  return age < 10 * DAY_MS ? two(age, DAY_MS, 'd', HOUR_MS, 'h') : `${Math.floor(age / DAY_MS)}d`;
}

function two(ms: number, largeMs: number, large: string, smallMs: number, small: string): string {
  const rest = Math.floor((ms % largeMs) / smallMs);
  return `${Math.floor(ms / largeMs)}${large}${rest === 0 ? '' : `${rest}${small}`}`;
}

/** Largest unit only: `12s`, `4m`, `3h`, `41d`. */
export function formatRough(ms: number): string {
  return /^\d+[a-z]/.exec(formatSince(ms))?.[0] ?? '';
}

/** As `formatAge`, in whole seconds: how long something has been there. */
export function formatSince(ms: number): string {
  return ms < SECOND_MS ? '0s' : formatAge(ms);
}

/** As `formatAge`, but a time to come is rounded up: a wait is not over before it shows 0s. */
export function formatWait(ms: number): string {
  return ms <= 0 ? '0s' : formatAge(Math.ceil(ms / SECOND_MS) * SECOND_MS);
}

/** `14:05:09` today, with the date on any other day. */
export function formatTime(atMs: number, nowMs: number): string {
  const at = new Date(atMs);
  const isToday = at.toDateString() === new Date(nowMs).toDateString();
  return isToday ? clockOf(at) : formatDateTime(atMs);
}

/** `2026-01-31 14:05:09`. */
export function formatDateTime(atMs: number): string {
  const at = new Date(atMs);
  const date = [at.getFullYear(), two10(at.getMonth() + 1), two10(at.getDate())].join('-');
  return `${date} ${clockOf(at)}`;
}

function clockOf(at: Date): string {
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two10).join(':');
}

function two10(value: number): string {
  return String(value).padStart(2, '0');
}

const MIB = 1024 * 1024;

/** `88`, `1.5`: MiB, with a decimal below 10. */
function mib(bytes: number): string {
  const value = bytes / MIB;
  return value < 10 ? String(Number(value.toFixed(1))) : String(Math.round(value));
}

/** `88 MiB`. */
export function formatMemory(bytes: number): string {
  return `${mib(bytes)} MiB`;
}

/** `88/256 MiB`, or `88 MiB` without a limit. */
export function formatMemoryOf(bytes: number, limitBytes: number | null): string {
  return limitBytes === null ? formatMemory(bytes) : `${mib(bytes)}/${mib(limitBytes)} MiB`;
}

/** `4.1%`. */
export function formatPercent(percent: number): string {
  return `${percent < 100 ? percent.toFixed(1) : Math.round(percent)}%`;
}
