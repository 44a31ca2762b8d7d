/**
 * Owns the types of the values in drivers' config blocks, as zod types whose messages are ours. Values convert as HCL
 * does: a number or bool may stand for a string, and the text of one for the thing itself.
 */
import * as z from 'zod';
import { AgentError } from '../base/errors.js';
import { signalNumber } from '../base/signals.js';
import { DURATION, NUMBER_TEXT, TEXT, TRUTH, type Schema } from './shapes.js';
import { readCapability, type Capability } from './capability-names.js';
import { readDuration } from './units.js';
import { describeValue, quote, suggest } from './words.js';

/** What is wrong with one part of a value. */
interface PartFault {
  /** The way down to it: a name in a block, the index of an item. */
  readonly part: string | number;
  /** `unknown`: the name should not be there; `value`: what it is set to will not do. */
  readonly kind: 'unknown' | 'value';
  readonly message: string;
}

type Reader<T> = (
  value: unknown,
) => { readonly value: T } | { readonly fault: string } | { readonly faults: readonly PartFault[] };

/**
 * A zod type around a plain function, so that every message is ours.
 * @param schema what it takes, for the JSON Schema of job files
 */
export function field<T>(read: Reader<T>, schema: Schema = {}) {
  return z
    .unknown()
    .meta({ ...schema })
    .transform((value, context): T => {
      const result = value === undefined ? { fault: 'it is missing, and required' } : read(value);
      if ('value' in result) return result.value;
      if ('fault' in result) context.addIssue({ code: 'custom', message: result.fault });
      else
        for (const { part, kind, message } of result.faults)
          context.addIssue({ code: 'custom', message, path: [part], params: { kind } });
      return z.NEVER;
    });
}

/** The parts of a value together, or all that is wrong with them: whoever mends one wants to know of the others. */
function allOf<T>(
  parts: readonly ({ readonly value: T } | { readonly fault: PartFault })[],
): { readonly value: readonly T[] } | { readonly faults: readonly PartFault[] } {
  const faults = parts.flatMap((part) => ('fault' in part ? [part.fault] : []));
  return faults.length > 0
    ? { faults }
    : { value: parts.flatMap((part) => ('value' in part ? [part.value] : [])) };
}

function wanted(what: string, value: unknown): { fault: string } {
  return { fault: `expected ${what}, found ${describeValue(value)}` };
}

function readText(value: unknown): { value: string } | { fault: string } {
  if (typeof value === 'string') {
    return value.includes('\0') ? { fault: 'a string here cannot hold a NUL byte' } : { value };
  }
  if (typeof value === 'number' || typeof value === 'boolean') return { value: String(value) };
  return wanted('a string', value);
}

export const text = () => field(readText, TEXT);

export const filledText = () =>
  field((value) => {
    const result = readText(value);
    return 'value' in result && result.value === '' ? { fault: 'it must not be empty' } : result;
  }, TEXT);

function readItem(item: unknown, part: number): { value: string } | { fault: PartFault } {
  const result = readText(item);
  if ('value' in result) return result;
  return { fault: { part, kind: 'value', message: `item ${part + 1}: ${result.fault}` } };
}

export const texts = () =>
  field(
    (value) => {
      if (!Array.isArray(value)) return wanted('a list of strings', value);
      return allOf(value.map(readItem));
    },
    { type: 'array', items: TEXT },
  );

export const bool = () =>
  field((value) => {
    if (typeof value === 'boolean') return { value };
    if (value === 'true' || value === 'false') return { value: value === 'true' };
    return wanted('true or false', value);
  }, TRUTH);

export const whole = (least: number, most: number) =>
  field(
    (value) => {
      const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
      if (typeof number !== 'number' || !Number.isInteger(number)) return wanted('a whole number', value);
      if (number < least || number > most) {
        return { fault: `expected a whole number from ${least} to ${most}, found ${number}` };
      }
      return { value: number };
    },
    { anyOf: [{ type: 'integer', minimum: least, maximum: most }, NUMBER_TEXT] },
  );

export const durationMs = () =>
  field((value) => {
    if (value === 0) return { value: 0 };
    if (typeof value !== 'string') return wanted('a duration such as "1m30s"', value);
    const read = readDuration(value);
    return read.ok ? { value: read.value } : { fault: `bad duration ${quote(value)}: ${read.why}` };
  }, DURATION);

export const signal = () =>
  field((value) => {
    if (value === 0) return { value: undefined };
    if (typeof value !== 'string' && typeof value !== 'number') return wanted('a signal', value);
    try {
      return { value: signalNumber(String(value)) };
    } catch (error) {
      if (error instanceof AgentError) return { fault: error.message };
      throw error;
    }
  }, TEXT);

export const absolutePath = () =>
  field((value) => {
    const result = readText(value);
    if ('fault' in result || result.value.startsWith('/')) return result;
    return { fault: `expected an absolute path, found ${describeValue(value)}` };
  }, TEXT);

/** Capabilities by name; `all` is kept as it is, since what it means is the agent's to say. */
export const capabilities = () =>
  field((value) => {
    if (!Array.isArray(value)) return wanted('a list of capabilities', value);
    return allOf<Capability | 'all'>(value.map(readCapabilityItem));
  });

function readCapabilityItem(
  item: unknown,
  part: number,
): { value: Capability | 'all' } | { fault: PartFault } {
  const read = typeof item === 'string' ? readCapability(item) : wanted('the name of a capability', item);
  if (typeof read === 'string') return { value: read };
  return { fault: { part, kind: 'value', message: read.fault } };
}

/** File mode bits, as umask(1) writes them. */
export const octal = () =>
  field((value) => {
    const text = typeof value === 'number' ? String(value) : value;
    if (typeof text !== 'string' || !/^[0-7]{1,4}$/.test(text) || Number.parseInt(text, 8) > 0o777)
      return wanted('an octal mask such as "027"', value);
    return { value: Number.parseInt(text, 8) };
  });

/** Names of setrlimit(2), as Docker and Nomad write them. */
const RLIMIT_NAMES = [
  'as',
  'core',
  'cpu',
  'data',
  'fsize',
  'locks',
  'memlock',
  'msgqueue',
  'nice',
  'nofile',
  'nproc',
  'rss',
  'rtprio',
  'rttime',
  'sigpending',
  'stack',
] as const;

/** One limit; -1 = unlimited. */
export interface Rlimit {
  readonly name: (typeof RLIMIT_NAMES)[number];
  readonly soft: number;
  readonly hard: number;
}

const LIMIT = /^(-1|unlimited|\d{1,15})(?::(-1|unlimited|\d{1,15}))?$/;

/** A block or map of limits: `nofile = "1024:4096"` (soft:hard), `"4096"` for both, `"unlimited"`. */
export const rlimits = () =>
  field((value) => {
    // A block is a list of one in the tree.
    const block: unknown = Array.isArray(value) && value.length === 1 ? value[0] : value;
    if (typeof block !== 'object' || block === null || Array.isArray(block))
      return wanted('a block of limits such as { nofile = "1024:4096" }', value);
    return allOf(Object.entries(block).map(([key, text]) => readRlimit(key, text)));
  });

function readRlimit(key: string, text: unknown): { value: Rlimit } | { fault: PartFault } {
  const name = RLIMIT_NAMES.find((candidate) => candidate === key);
  if (name === undefined) {
    const hint = suggest(key, RLIMIT_NAMES, 'they are');
    const message = `there is no limit ${quote(key)}${hint === undefined ? '' : `; ${hint}`}`;
    return { fault: { part: key, kind: 'unknown', message } };
  }
  const wrong = (why: string): { fault: PartFault } => ({
    fault: { part: key, kind: 'value', message: `\`${key}\`: ${why} ${describeValue(text)}` },
  });
  const match = LIMIT.exec(String(text));
  if (match === null || (typeof text !== 'string' && typeof text !== 'number'))
    return wrong('expected "SOFT:HARD", one number, or "unlimited", found');
  const [soft, hard] = [match[1], match[2] ?? match[1]].map((one) =>
    one === 'unlimited' ? -1 : Number(one),
  );
  if (soft === undefined || hard === undefined || (hard !== -1 && (soft === -1 || soft > hard)))
    return wrong('the soft limit is above the hard one in');
  return { value: { name, soft, hard } };
}

export const oneOf = <const T extends string>(...choices: readonly T[]) =>
  field(
    (value) => {
      const choice = choices.find((candidate) => candidate === value);
      return choice === undefined
        ? wanted(choices.map((one) => `"${one}"`).join(' or '), value)
        : { value: choice };
    },
    { enum: [...choices] },
  );

/** The size of a terminal, in characters. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** No screen has more; the kernel could count to 65535. */
const MOST_CHARACTERS = 1_000;

/** `80x24`: columns, then rows, as programs have it in their `-geometry`. */
export const terminalSize = () =>
  field((value): { value: TerminalSize } | { fault: string } => {
    const match = typeof value === 'string' ? /^(\d{1,4})x(\d{1,4})$/.exec(value) : null;
    if (match === null) return wanted('a size such as "80x24": columns, then rows', value);
    const [columns, rows] = [Number(match[1]), Number(match[2])];
    if (columns < 1 || rows < 1 || columns > MOST_CHARACTERS || rows > MOST_CHARACTERS) {
      return {
        fault: `expected from 1 to ${MOST_CHARACTERS} columns and rows, found ${quote(String(value))}`,
      };
    }
    return { value: { columns, rows } };
  }, TEXT);
