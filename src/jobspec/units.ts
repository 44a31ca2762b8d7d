/**
 * Owns durations and sizes as text. Nothing is guessed: a number without a unit, an unknown unit and a fraction of a
 * millisecond are refused with the reason.
 */

/** A value, or why the text is not one (a phrase that follows "…: "). */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly why: string };

const NS_PER_MS = 1_000_000n;
const NS_PER_UNIT = new Map(
  Object.entries({
    ns: 1n,
    us: 1_000n,
    µs: 1_000n,
    μs: 1_000n,
    ms: NS_PER_MS,
    s: 1_000n * NS_PER_MS,
    m: 60_000n * NS_PER_MS,
    h: 3_600_000n * NS_PER_MS,
  }),
);

/** Nomad keeps durations as signed 64-bit nanoseconds. */
const MOST_NS = 2n ** 63n - 1n;

/** More digits than any 64-bit number has; keeps hostile text from costing time. */
const MOST_CHARACTERS = 64;

const UNITS = 'use units h, m, s and ms, such as "1m30s"';

/** Milliseconds of `1h30m`, `2.5s`, `500ms`, `0` (Go's notation, as Nomad has it). */
export function readDuration(text: string): Read<number> {
  const trimmed = text.trim();
  if (trimmed === '0') return { ok: true, value: 0 };
  if (trimmed === '') return { ok: false, why: `it is empty: ${UNITS}` };
  if (trimmed.startsWith('-')) return { ok: false, why: 'a duration cannot be negative' };
  if (trimmed.length > MOST_CHARACTERS) return { ok: false, why: `it is too long: ${UNITS}` };
  if (/^\+?[\d.]+$/.test(trimmed)) return { ok: false, why: `it has no unit: ${UNITS}` };
  let ns = 0n;
  let at = trimmed.startsWith('+') ? 1 : 0;
  const term = /(\d*)(?:\.(\d*))?([^\d.\s+-]+)/y;
  while (at < trimmed.length) {
    term.lastIndex = at;
    const found = term.exec(trimmed);
    const [all = '', whole = '', fraction = '', unit = ''] = found ?? [];
    const nsPerUnit = NS_PER_UNIT.get(unit);
    if (whole + fraction !== '' && nsPerUnit === undefined) {
      return { ok: false, why: `unknown unit ${JSON.stringify(unit)}: ${UNITS}` };
    }
    if (nsPerUnit === undefined || whole + fraction === '') return { ok: false, why: UNITS };
    ns +=
      BigInt(whole === '' ? '0' : whole) * nsPerUnit +
      (BigInt(fraction === '' ? '0' : fraction) * nsPerUnit) / 10n ** BigInt(fraction.length);
    at += all.length;
  }
  return msOfNs(ns);
}

/** Milliseconds of a number of nanoseconds, as Nomad's JSON has durations. */
export function readNanoseconds(ns: number): Read<number> {
  if (ns < 0) return { ok: false, why: 'a duration cannot be negative' };
  if (!Number.isInteger(ns)) return { ok: false, why: 'nanoseconds are whole numbers' };
  if (Number.isSafeInteger(ns)) return msOfNs(BigInt(ns));
  // Above 2^53 a double no longer holds every nanosecond: what counts is that some number of ms is written so.
  const ms = Math.round(ns / 1e6);
  if (ms * 1e6 !== ns) return msOfNs(BigInt(ns));
  return ms <= Number(MOST_NS / NS_PER_MS) ? { ok: true, value: ms } : tooLong();
}

function msOfNs(ns: bigint): Read<number> {
  if (ns > MOST_NS) return tooLong();
  if (ns % NS_PER_MS !== 0n) return { ok: false, why: 'holdfast counts in whole milliseconds' };
  return { ok: true, value: Number(ns / NS_PER_MS) };
}

function tooLong(): Read<number> {
  return { ok: false, why: 'it is longer than 292 years' };
}

/** Shortest text that readDuration turns into the same number: `1h30m`, `2.5s` is `2s500ms`. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  const parts = [
    [Math.floor(ms / 3_600_000), 'h'],
    [Math.floor((ms % 3_600_000) / 60_000), 'm'],
    [Math.floor((ms % 60_000) / 1000), 's'],
    [ms % 1000, 'ms'],
  ] as const;
  return parts.map(([amount, unit]) => (amount === 0 ? '' : `${amount}${unit}`)).join('');
}

const MIB_PER_UNIT = new Map(Object.entries({ MiB: 1, GiB: 1024, TiB: 1024 * 1024 }));

/** MiB of `256MiB` or `1.5GiB`; a bare number in text counts as MiB, as in Nomad. */
export function readMib(text: string): Read<number> {
  const found = /^(-?\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)$/.exec(text.trim());
  if (found === null)
    return { ok: false, why: 'write MiB as a number, or a size such as "256MiB" or "2GiB"' };
  const [, amount = '', unit = ''] = found;
  const factor = unit === '' ? 1 : MIB_PER_UNIT.get(unit);
  if (factor === undefined)
    return { ok: false, why: `unknown unit ${JSON.stringify(unit)}: use MiB, GiB or TiB` };
  const mib = Number(amount) * factor;
  return Number.isInteger(mib)
    ? { ok: true, value: mib }
    : { ok: false, why: 'it is not a whole number of MiB' };
}
