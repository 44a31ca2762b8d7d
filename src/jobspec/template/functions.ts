/**
 * Owns the functions of templates: those of Go's templates, of Nomad's, and a few of sprig's, as far as they mean
 * something on one host. Pure, but for what `TemplateInputs` gives. None may take long or make much: a template is
 * rendered in the daemon. So there are none with regular expressions (a bad one never ends). Over 300
 * lines because it is one table, with a few lines for each function.
 */
import { createHash, createHmac } from 'node:crypto';
import {
  isList,
  isMap,
  isTrue,
  keyOf,
  LONGEST_TEXT,
  nameOfKind,
  print,
  toJson,
  type Value,
} from './values.js';
import { format } from './format.js';

/** What a template can ask for. All of it is noted: a template is rendered again when one of it has changed. */
export interface TemplateInputs {
  /** A variable of the task or a fact of the node; undefined = there is none. */
  readonly env: (name: string) => string | undefined;
  /** @throws what makes the renderer read the file and try again */
  readonly file: (path: string) => string;
  readonly nowMs: () => number;
}

type Run = (args: readonly Value[], inputs: TemplateInputs) => Value;
interface Entry {
  readonly least: number;
  readonly most: number;
  readonly run: Run;
}

/** The text of a fault; the evaluator adds where. */
export class FunctionFault extends Error {}

const text = (value: Value): string => {
  if (typeof value === 'string') return value;
  throw new FunctionFault(`it wants a text, found ${nameOfKind(value)}`);
};
const number = (value: Value): number => {
  if (typeof value === 'number') return value;
  throw new FunctionFault(`it wants a number, found ${nameOfKind(value)}`);
};
const list = (value: Value): readonly Value[] => {
  if (isList(value)) return value;
  throw new FunctionFault(`it wants a list, found ${nameOfKind(value)}`);
};

/** A function of `count` texts. */
function ofTexts(count: number, run: (...args: string[]) => Value): Entry {
  return { least: count, most: count, run: (args) => run(...args.map(text)) };
}

function ofNumbers(run: (a: number, b: number) => number): Entry {
  return {
    least: 2,
    most: 2,
    run: ([a, b]) => {
      const value = run(number(a), number(b));
      if (Number.isFinite(value)) return value;
      throw new FunctionFault('the result is not a number');
    },
  };
}

const bothWhole = (a: number, b: number): boolean => Number.isInteger(a) && Number.isInteger(b);

function compare(a: Value, b: Value): number {
  if (typeof a !== typeof b || a === null || b === null || typeof a === 'object' || a === undefined) {
    throw new FunctionFault(`${nameOfKind(a)} cannot be compared with ${nameOfKind(b ?? null)}`);
  }
  return a === b ? 0 : a < (b as typeof a) ? -1 : 1;
}

function ordered(holds: (order: number) => boolean): Entry {
  return {
    least: 2,
    most: 2,
    run: ([a, b]) => {
      if (typeof a === 'boolean') throw new FunctionFault('bools have no order');
      return holds(compare(a, b));
    },
  };
}

function parsed(what: string, shape: RegExp): Entry {
  return ofTexts(1, (value = '') => {
    if (shape.test(value) && Number.isFinite(Number(value))) return Number(value);
    throw new FunctionFault(`${JSON.stringify(value.slice(0, 40))} is not ${what}`);
  });
}

/** Takes what is at a key or place. */
function index(args: readonly Value[]): Value {
  let value = args[0];
  for (const key of args.slice(1)) {
    if (isMap(value)) value = keyOf(value, text(key));
    else if (isList(value) || typeof value === 'string') {
      const at = number(key);
      if (!Number.isInteger(at) || at < 0 || at >= value.length)
        throw new FunctionFault(`there is no item ${at}`);
      value = typeof value === 'string' ? value.codePointAt(at) : value[at];
    } else throw new FunctionFault(`${nameOfKind(value)} has no items`);
  }
  return value;
}

function sliced([value, from = 0, to]: readonly Value[]): Value {
  if (!isList(value) && typeof value !== 'string')
    throw new FunctionFault(`${nameOfKind(value)} has no items`);
  const [start, end] = [number(from), to === undefined ? value.length : number(to)];
  if (start < 0 || end > value.length || start > end)
    throw new FunctionFault(`${start} to ${end} is out of range`);
  return value.slice(start, end);
}

function timestamp([layout]: readonly Value[], { nowMs }: TemplateInputs): Value {
  const now = new Date(nowMs());
  if (layout === undefined || layout === '' || layout === '2006-01-02T15:04:05Z07:00') {
    return `${now.toISOString().slice(0, 19)}Z`;
  }
  if (layout === 'unix') return String(Math.floor(now.getTime() / 1000));
  throw new FunctionFault('only RFC 3339 (nothing named) and "unix" are there');
}

function loop([a = 0, b]: readonly Value[]): Value {
  const [from, to] = b === undefined ? [0, number(a)] : [number(a), number(b)];
  if (to - from > MOST_LOOPS) throw new FunctionFault(`more than ${MOST_LOOPS} rounds`);
  return Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);
}

const MOST_LOOPS = 10_000;

function indent([count, value]: readonly Value[]): Value {
  const by = ' '.repeat(Math.max(0, Math.min(number(count), 1_000)));
  return text(value)
    .split('\n')
    .map((line) => (line === '' ? line : by + line))
    .join('\n');
}

function holds([item, among]: readonly Value[]): Value {
  if (typeof among === 'string') return among.includes(text(item));
  if (isMap(among)) return Object.hasOwn(among, text(item));
  return list(among).includes(item);
}

function titled(value: string): string {
  return value.replace(/(^|\s)(\S)/g, (_, gap: string, first: string) => gap + first.toUpperCase());
}

function trimSet(value: string, set: string): string {
  const within = new Set(set);
  const characters = Array.from(value);
  let [from, to] = [0, characters.length];
  while (from < to && within.has(characters[from] ?? '')) from += 1;
  while (to > from && within.has(characters[to - 1] ?? '')) to -= 1;
  return characters.slice(from, to).join('');
}

const TEXTS: Readonly<Record<string, Entry>> = {
  toLower: ofTexts(1, (value = '') => value.toLowerCase()),
  toUpper: ofTexts(1, (value = '') => value.toUpperCase()),
  toTitle: ofTexts(1, (value = '') => titled(value)),
  trimSpace: ofTexts(1, (value = '') => value.trim()),
  trim: ofTexts(2, (set = '', value = '') => trimSet(value, set)),
  trimPrefix: ofTexts(2, (head = '', value = '') =>
    value.startsWith(head) ? value.slice(head.length) : value,
  ),
  trimSuffix: ofTexts(2, (tail = '', value = '') =>
    tail !== '' && value.endsWith(tail) ? value.slice(0, -tail.length) : value,
  ),
  replaceAll: ofTexts(3, (from = '', to = '', value = '') => {
    const parts = value.split(from);
    if (parts.length * to.length + value.length > LONGEST_TEXT)
      throw new FunctionFault('the text is too long');
    return parts.join(to);
  }),
  split: ofTexts(2, (by = '', value = '') => (value.trim() === '' ? [] : value.trim().split(by))),
  join: { least: 2, most: 2, run: ([by, items]) => list(items).map(print).join(text(by)) },
  indent: { least: 2, most: 2, run: indent },
  contains: { least: 2, most: 2, run: holds },
  in: { least: 2, most: 2, run: ([among, item]) => holds([item, among]) },
  base64Encode: ofTexts(1, (value = '') => Buffer.from(value).toString('base64')),
  base64Decode: ofTexts(1, (value = '') => Buffer.from(value, 'base64').toString()),
  base64URLEncode: ofTexts(1, (value = '') => Buffer.from(value).toString('base64url')),
  base64URLDecode: ofTexts(1, (value = '') => Buffer.from(value, 'base64url').toString()),
  urlquery: ofTexts(1, (value = '') => encodeURIComponent(value).replaceAll('%20', '+')),
  md5sum: ofTexts(1, (value = '') => createHash('md5').update(value).digest('hex')),
  sha256Hex: ofTexts(1, (value = '') => createHash('sha256').update(value).digest('hex')),
  hmacSHA256Hex: ofTexts(2, (value = '', key = '') => createHmac('sha256', key).update(value).digest('hex')),
  toJSON: { least: 1, most: 1, run: ([value]) => toJson(value) },
  toJSONPretty: { least: 1, most: 1, run: ([value]) => toJson(value, 2) },
  parseJSON: ofTexts(1, (value = '') => {
    if (value.trim() === '') return {};
    try {
      return JSON.parse(value) as Value;
    } catch (error) {
      throw new FunctionFault(error instanceof Error ? error.message : 'it is no JSON');
    }
  }),
  parseBool: ofTexts(1, (value = '') => {
    if (/^(1|t|T|true|TRUE|True)$/.test(value)) return true;
    if (/^(0|f|F|false|FALSE|False|)$/.test(value)) return false;
    throw new FunctionFault(`${JSON.stringify(value.slice(0, 40))} is not a bool`);
  }),
  parseInt: parsed('a whole number', /^[+-]?\d+$/),
  parseUint: parsed('a whole number from 0 up', /^\d+$/),
  parseFloat: parsed('a number', /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/),
};

const NUMBERS: Readonly<Record<string, Entry>> = {
  add: ofNumbers((b, a) => a + b),
  subtract: ofNumbers((b, a) => a - b),
  multiply: ofNumbers((b, a) => a * b),
  divide: ofNumbers((b, a) => (bothWhole(a, b) ? Math.trunc(a / b) : a / b)),
  modulo: ofNumbers((b, a) => a % b),
  minimum: ofNumbers((b, a) => Math.min(a, b)),
  maximum: ofNumbers((b, a) => Math.max(a, b)),
  eq: { least: 2, most: 16, run: ([a, ...rest]) => rest.some((b) => compare(a, b) === 0) },
  ne: { least: 2, most: 2, run: ([a, b]) => compare(a, b) !== 0 },
  lt: ordered((order) => order < 0),
  le: ordered((order) => order <= 0),
  gt: ordered((order) => order > 0),
  ge: ordered((order) => order >= 0),
  loop: { least: 1, most: 2, run: loop },
};

const GENERAL: Readonly<Record<string, Entry>> = {
  // Short of the whole: the evaluator stops at the first that decides.
  and: { least: 1, most: 16, run: (args) => args.find((value) => !isTrue(value)) ?? args.at(-1) },
  or: { least: 1, most: 16, run: (args) => args.find(isTrue) ?? args.at(-1) },
  not: { least: 1, most: 1, run: ([value]) => !isTrue(value) },
  len: {
    least: 1,
    most: 1,
    run: ([value]) => {
      if (typeof value === 'string') return Buffer.byteLength(value);
      if (isList(value)) return value.length;
      if (isMap(value)) return Object.keys(value).length;
      throw new FunctionFault(`${nameOfKind(value)} has no length`);
    },
  },
  index: { least: 1, most: 8, run: index },
  slice: { least: 1, most: 3, run: sliced },
  print: { least: 0, most: 16, run: (args) => args.map(print).join('') },
  println: { least: 0, most: 16, run: (args) => `${args.map(print).join(' ')}\n` },
  printf: { least: 1, most: 16, run: ([shape, ...args]) => format(text(shape), args) },
  sprig_default: { least: 2, most: 2, run: ([fallback, value]) => (isTrue(value) ? value : fallback) },
  sprig_ternary: { least: 3, most: 3, run: ([yes, no, value]) => (isTrue(value) ? yes : no) },
  sprig_quote: { least: 1, most: 1, run: ([value]) => JSON.stringify(print(value)) },
};

const ASKING: Readonly<Record<string, Entry>> = {
  env: { least: 1, most: 1, run: ([name], inputs) => inputs.env(text(name)) ?? '' },
  envOrDefault: { least: 2, most: 2, run: ([name, other], inputs) => inputs.env(text(name)) ?? text(other) },
  mustEnv: {
    least: 1,
    most: 1,
    run: ([name], inputs) => {
      const value = inputs.env(text(name));
      if (value === undefined) throw new FunctionFault(`there is no variable ${text(name)}`);
      return value;
    },
  },
  meta: { least: 1, most: 1, run: ([key], inputs) => inputs.env(`NOMAD_META_${cleanKey(text(key))}`) ?? '' },
  attr: { least: 1, most: 1, run: ([key], inputs) => inputs.env(`attr.${text(key)}`) ?? '' },
  node: { least: 1, most: 1, run: ([key], inputs) => inputs.env(`node.${text(key)}`) ?? '' },
  file: { least: 1, most: 1, run: ([path], inputs) => inputs.file(text(path)) },
  timestamp: { least: 0, most: 1, run: timestamp },
};

/** As the name of a variable is made of a key of `meta`. */
function cleanKey(key: string): string {
  return key.replace(/[^A-Za-z0-9_]/g, '_');
}

const FUNCTIONS: ReadonlyMap<string, Entry> = new Map(
  Object.entries({ ...GENERAL, ...TEXTS, ...NUMBERS, ...ASKING }),
);

export const FUNCTION_NAMES: ReadonlySet<string> = new Set(FUNCTIONS.keys());

/** @throws FunctionFault, and what `inputs` throws */
export function callFunction(name: string, args: readonly Value[], inputs: TemplateInputs): Value {
  const entry = FUNCTIONS.get(name);
  if (entry === undefined) throw new FunctionFault('there is no such function');
  if (args.length < entry.least || args.length > entry.most) {
    const wanted = entry.least === entry.most ? String(entry.least) : `${entry.least} to ${entry.most}`;
    throw new FunctionFault(`it wants ${wanted} arguments, found ${args.length}`);
  }
  const value = entry.run(args, inputs);
  if (typeof value === 'string' && value.length > LONGEST_TEXT)
    throw new FunctionFault('the text is too long');
  return value;
}

const CONSUL = [
  'key',
  'keyOrDefault',
  'keyExists',
  'ls',
  'safeLs',
  'tree',
  'safeTree',
  'service',
  'services',
];
const CONSUL_MORE = ['connect', 'caRoots', 'caLeaf', 'nodes', 'datacenters', 'partitions', 'byKey', 'byTag'];
const VAULT = ['secret', 'secrets', 'pkiCert'];
const SERVERS = [
  'nomadVar',
  'nomadVarExists',
  'nomadVarList',
  'nomadVarListSafe',
  'nomadService',
  'nomadServices',
];
const REGEX = [
  'regexMatch',
  'regexReplaceAll',
  'sprig_regexMatch',
  'sprig_regexFind',
  'sprig_regexReplaceAll',
];

/** Why a function that Nomad's templates have is not to be had here; undefined = Nomad has none of that name. */
export function whyNotHere(name: string): string | undefined {
  if (CONSUL.includes(name) || CONSUL_MORE.includes(name))
    return 'it asks Consul, and holdfast speaks to none';
  if (VAULT.includes(name)) return 'it asks Vault, and holdfast speaks to none';
  if (SERVERS.includes(name)) return "it asks Nomad's servers, and one host has none";
  if (REGEX.includes(name)) return 'regular expressions are not supported in templates';
  return name === 'plugin' || name === 'writeToFile' ? 'it is not allowed' : undefined;
}
