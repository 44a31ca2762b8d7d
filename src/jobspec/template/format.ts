/** Owns `printf` of templates: the few verbs of Go's that settings need. Pure. */
import { print, toJson, type Value } from './values.js';

/** Wider than any column. */
const WIDEST = 1_000;

/** What does not fit reads as Go writes it: `%!d(string=x)`. */
export function format(shape: string, args: readonly Value[]): string {
  let next = 0;
  const done = shape.replace(
    /%([-+0 ]*)(\d*)(?:\.(\d+))?([a-zA-Z%])/g,
    (_, flags: string, width: string, digits: string | undefined, verb: string) => {
      if (verb === '%') return '%';
      if (next >= args.length) return `%!${verb}(MISSING)`;
      const said = one(verb, args[next++], digits === undefined ? undefined : Math.min(Number(digits), 100));
      const wide = Math.min(Number(width), WIDEST);
      if (flags.includes('-')) return said.padEnd(wide);
      const isNegative = said.startsWith('-');
      if (!flags.includes('0') || !'dfxX'.includes(verb)) return said.padStart(wide);
      return isNegative ? `-${said.slice(1).padStart(wide - 1, '0')}` : said.padStart(wide, '0');
    },
  );
  return next < args.length ? `${done}%!(EXTRA ${args.slice(next).map(print).join(', ')})` : done;
}

function one(verb: string, value: Value, digits: number | undefined): string {
  const whole = typeof value === 'number' && Number.isInteger(value);
  switch (verb) {
    case 's':
    case 'v':
      return digits === undefined ? print(value) : print(value).slice(0, digits);
    case 'q':
      return toJson(print(value));
    case 'd':
      return whole ? String(value) : wrong(verb, value);
    case 't':
      return typeof value === 'boolean' ? String(value) : wrong(verb, value);
    case 'x':
    case 'X': {
      const hex = whole
        ? value.toString(16)
        : typeof value === 'string'
          ? Buffer.from(value).toString('hex')
          : undefined;
      if (hex === undefined) return wrong(verb, value);
      return verb === 'X' ? hex.toUpperCase() : hex;
    }
    case 'f':
      return typeof value === 'number' ? value.toFixed(digits ?? 6) : wrong(verb, value);
    default:
      return wrong(verb, value);
  }
}

function wrong(verb: string, value: Value): string {
  return `%!${verb}(${print(value)})`;
}
