/** Owns format() and formatlist(): Go's verbs, as far as job files use them. */
import { asBool, asNumber, asText, describeMade, textNode } from './hcl-made.js';
import type { Call, FunctionSpec } from './hcl-call.js';
import { toPlain, type Tree } from './tree.js';

const VERB = /%(?:%|([-+0 #]*)(\d*)(?:\.(\d+))?([A-Za-z]))/g;
/** Wider than anybody writes; keeps `%999999999d` from making a gigabyte. */
const WIDEST = 1000;

function formatText(call: Call, pattern: string, args: readonly Tree[]): string {
  let next = 0;
  const made = pattern.replace(
    VERB,
    (all: string, flags: string | undefined, width = '', precision?: string, verb?: string) => {
      if (verb === undefined) return '%';
      const arg = args[next++];
      if (arg === undefined)
        return call.fail(`there are ${args.length} values, and the format asks for more`);
      const text = formatOne(call, all, verb, precision, arg);
      const signed = (flags ?? '').includes('+') && /^[^-]/.test(text) && verb !== 's' ? `+${text}` : text;
      const columns = Math.min(WIDEST, Number(width));
      if ((flags ?? '').includes('-')) return signed.padEnd(columns);
      if (!(flags ?? '').includes('0') || verb === 's' || verb === 'q') return signed.padStart(columns);
      const sign = /^[-+]/.exec(signed)?.[0] ?? '';
      return sign + signed.slice(sign.length).padStart(columns - sign.length, '0');
    },
  );
  if (next < args.length) call.fail(`there are ${args.length} values, and the format asks for ${next}`);
  return made;
}

function formatOne(
  call: Call,
  written: string,
  verb: string,
  precision: string | undefined,
  arg: Tree,
): string {
  const places = precision === undefined ? undefined : Math.min(100, Number(precision));
  const wanted = (what: string): never => call.fail(`${written} needs ${what}, found ${describeMade(arg)}`);
  const number = (): number => asNumber(arg) ?? wanted('a number');
  const whole = (): number => (Number.isInteger(number()) ? number() : wanted('a whole number'));
  switch (verb) {
    case 's':
      return (asText(arg) ?? wanted('a string')).slice(0, places);
    case 'q':
      return JSON.stringify(asText(arg) ?? wanted('a string'));
    case 'v':
      return asText(arg) ?? JSON.stringify(toPlain(arg));
    case 'd':
      return String(BigInt(whole()));
    case 'f':
      return number().toFixed(places ?? 6);
    case 'g':
      return String(number());
    case 'x':
      return whole().toString(16);
    case 'X':
      return whole().toString(16).toUpperCase();
    case 'o':
      return whole().toString(8);
    case 'b':
      return whole().toString(2);
    case 't':
      return String(asBool(arg) ?? wanted('true or false'));
    default:
      return call.fail(`there is no verb ${written}: use %s %q %v %d %f %g %x %o %b %t`);
  }
}

function formatList(call: Call): Tree {
  const lists = call.args.slice(1);
  const lengths = new Set(lists.flatMap((arg) => (arg.kind === 'list' ? [arg.items.length] : [])));
  if (lengths.size > 1) call.fail('the lists differ in length');
  const [length = 1] = lengths;
  const items = Array.from({ length }, (_, index) => {
    const args = lists.map((arg) => (arg.kind === 'list' ? (arg.items[index] ?? arg) : arg));
    return textNode(call.at, formatText(call, call.textOf(0), args));
  });
  return { kind: 'list', at: call.at, items };
}

export const FORMAT_FUNCTIONS: readonly (readonly [string, FunctionSpec])[] = [
  [
    'format',
    {
      least: 1,
      most: Infinity,
      run: (call) => textNode(call.at, formatText(call, call.textOf(0), call.args.slice(1))),
    },
  ],
  ['formatlist', { least: 2, most: Infinity, run: formatList }],
];
