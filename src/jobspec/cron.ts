/** Owns cron expressions: whether one can be read, and when it is due next. Pure: time comes in as an argument. */
import { Cron } from 'croner';

/** Expressions that have a name. */
const SHORT = ['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@hourly'];

/** Why an expression is none, for people; undefined = it is one. */
export function whyBadCron(expression: string): string | undefined {
  // The library takes a date for an expression that is due once.
  if (!/^(@\w+|\S+(\s+\S+){4,5})$/.test(expression.trim()) || /^\d{4}-/.test(expression.trim())) {
    return 'it needs five fields (minute, hour, day of month, month, day of week), or six with seconds first';
  }
  if (expression.trim().startsWith('@') && !SHORT.includes(expression.trim().toLowerCase())) {
    return `there is ${SHORT.join(', ')}`;
  }
  try {
    const next = new Cron(expression).nextRun(new Date(0));
    return next === null ? 'it is never due' : undefined;
  } catch (error) {
    return lowerFirst((error instanceof Error ? error.message : String(error)).replace(/^Cron\w+: /, ''));
  }
}

/** Why a name is no time zone, for people; undefined = it is one. */
export function whyBadTimeZone(name: string): string | undefined {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return undefined;
  } catch {
    return `there is no time zone ${JSON.stringify(name)}`;
  }
}

/** From a moment to the next due time: that is the answer for each moment in between. */
interface Span {
  readonly fromMs: number;
  readonly dueMs: number;
}

/** The newest answer for each rhythm: whoever waits for a due time asks again and again. */
const answered = new Map<string, Span>();
const MOST_ANSWERED = 1_000;

/** The first moment after `afterMs` at which one of the expressions is due; undefined = never again. */
export function nextDueMs(
  rhythm: { readonly crons: readonly string[]; readonly timeZone: string },
  afterMs: number,
): number | undefined {
  const key = JSON.stringify([rhythm.timeZone, rhythm.crons]);
  const known = answered.get(key);
  if (known !== undefined && known.fromMs <= afterMs && afterMs < known.dueMs) return known.dueMs;
  const dueMs = askCron(rhythm, afterMs);
  if (answered.size >= MOST_ANSWERED) answered.clear();
  if (dueMs !== undefined) answered.set(key, { fromMs: afterMs, dueMs });
  return dueMs;
}

function askCron(
  { crons, timeZone }: { readonly crons: readonly string[]; readonly timeZone: string },
  afterMs: number,
): number | undefined {
  const due = crons.flatMap((expression) => {
    const next = new Cron(expression, { timezone: timeZone }).nextRun(new Date(afterMs));
    return next === null ? [] : [next.getTime()];
  });
  return due.length === 0 ? undefined : Math.min(...due);
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1).replace(/\.$/, '');
}
