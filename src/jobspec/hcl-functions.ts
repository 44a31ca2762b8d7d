/**
 * Owns the functions that a job file may call. The same file must mean the same job each time, so there is nothing here
 * that reads a clock, rolls a die or asks the network; files come from whoever reads the job file.
 */
import { createHash } from 'node:crypto';
import { type Call, list, spec, text, type FunctionSpec } from './hcl-call.js';
import { COLLECTION_FUNCTIONS, distinct, ordered } from './hcl-collections.js';
import { FORMAT_FUNCTIONS } from './hcl-format.js';
import { boolNode, ExpressionFault, numberNode, plainNode, textNode } from './hcl-made.js';
import { REGEX_FUNCTIONS, replacePattern } from './hcl-regex.js';
import { toPlain, type Tree } from './tree.js';
import { suggest } from './words.js';

/** Calls a function. @throws ExpressionFault */
export function callFunction(call: Call): Tree {
  const spec = FUNCTIONS.get(call.name);
  if (spec === undefined) throw unknownFunction(call.name, call.at);
  const count = call.args.length;
  if (count < spec.least || count > spec.most) {
    const most = spec.most === Infinity ? `at least ${spec.least}` : String(spec.most);
    const wanted =
      spec.least === spec.most
        ? String(spec.least)
        : spec.most === Infinity
          ? most
          : `${spec.least} to ${most}`;
    call.fail(`expected ${wanted} argument${wanted === '1' ? '' : 's'}, found ${count}`);
  }
  const made = spec.run(call);
  call.budget.spendTree(made, call.at);
  return made;
}

function unknownFunction(name: string, at: number): ExpressionFault {
  if (NOT_THE_SAME.has(name)) {
    const message = `${name}() gives something else each time: the same file would be another job`;
    return new ExpressionFault(at, message, 'pass the value in with `-var`');
  }
  return new ExpressionFault(
    at,
    `there is no function ${name}()`,
    suggest(name, [...FUNCTIONS.keys()], 'there are'),
  );
}

/** Functions of Nomad's that a job file cannot have here. */
const NOT_THE_SAME: ReadonlySet<string> = new Set(['bcrypt', 'timestamp', 'uuidv4', 'uuid']);

/** A function from one known text to text. */
function onText(change: (value: string) => string): FunctionSpec {
  return spec(1, 1, (call) => text(call, change(call.knownText(0))));
}

function onNumber(change: (value: number) => number): FunctionSpec {
  return spec(1, 1, (call) => numberNode(call.at, change(call.number(0))));
}

function substr(call: Call): Tree {
  const letters = Array.from(call.knownText(0));
  const [from, count] = [call.whole(1), call.whole(2)];
  const begin = from < 0 ? Math.max(0, letters.length + from) : from;
  return text(call, letters.slice(begin, count < 0 ? undefined : begin + count).join(''));
}

function readNamed(call: Call): string {
  const path = call.knownText(0);
  if (call.readFile === undefined) return call.fail('files cannot be read here');
  try {
    return call.readFile(path);
  } catch (error) {
    return call.fail(`cannot read ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function fileExists(call: Call): boolean {
  if (call.readFile === undefined) return call.fail('files cannot be read here');
  try {
    call.readFile(call.knownText(0));
    return true;
  } catch (error) {
    if (error instanceof ExpressionFault) throw error;
    return false;
  }
}

function decodeBase64(call: Call): Tree {
  const source = call.knownText(0);
  const bytes = Buffer.from(source, 'base64');
  if (bytes.toString('base64').replace(/=+$/, '') !== source.trim().replace(/=+$/, '')) {
    call.fail('this is no base64');
  }
  const decoded = bytes.toString('utf8');
  if (!Buffer.from(decoded, 'utf8').equals(bytes)) call.fail('it holds something that is no text');
  return text(call, decoded);
}

function decodeJson(call: Call): Tree {
  let value: unknown;
  try {
    value = JSON.parse(call.knownText(0));
  } catch (error) {
    return call.fail(`this is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  return plainNode(value, call.at);
}

/** Keys in order, as HCL has them. */
function encodeJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function toNumber(call: Call): Tree {
  return numberNode(call.at, call.number(0));
}

function toBool(call: Call): Tree {
  const value = call.knownText(0);
  if (value !== 'true' && value !== 'false')
    call.fail(`expected true or false, found ${JSON.stringify(value)}`);
  return boolNode(call.at, value === 'true');
}

function onHash(algorithm: string): FunctionSpec {
  return spec(1, 1, (call) => text(call, hashOf(algorithm, call.knownText(0))));
}

function hashOf(algorithm: string, value: string): string {
  return createHash(algorithm).update(value).digest('hex');
}

const TRIMMED = (set: string, from: 'start' | 'end' | 'both', value: string): string => {
  const letters = Array.from(value);
  const isIn = (letter: string | undefined): boolean => letter !== undefined && set.includes(letter);
  if (from !== 'end') while (isIn(letters[0])) letters.shift();
  if (from !== 'start') while (isIn(letters.at(-1))) letters.pop();
  return letters.join('');
};

export const FUNCTIONS: ReadonlyMap<string, FunctionSpec> = new Map<string, FunctionSpec>([
  // Text
  ['upper', onText((value) => value.toUpperCase())],
  ['lower', onText((value) => value.toLowerCase())],
  ['title', onText((value) => value.replace(/(^|\s)\p{L}/gu, (part) => part.toUpperCase()))],
  ['trimspace', onText((value) => value.trim())],
  ['chomp', onText((value) => value.replace(/[\r\n]+$/, ''))],
  ['strrev', onText((value) => Array.from(value).reverse().join(''))],
  ['trim', spec(2, 2, (call) => text(call, TRIMMED(call.knownText(1), 'both', call.knownText(0))))],
  [
    'trimprefix',
    spec(2, 2, (call) => {
      const [value, cut] = [call.knownText(0), call.knownText(1)];
      return text(call, value.startsWith(cut) ? value.slice(cut.length) : value);
    }),
  ],
  [
    'trimsuffix',
    spec(2, 2, (call) => {
      const [value, cut] = [call.knownText(0), call.knownText(1)];
      return text(call, cut !== '' && value.endsWith(cut) ? value.slice(0, -cut.length) : value);
    }),
  ],
  ['startswith', spec(2, 2, (call) => boolNode(call.at, call.knownText(0).startsWith(call.knownText(1))))],
  ['endswith', spec(2, 2, (call) => boolNode(call.at, call.knownText(0).endsWith(call.knownText(1))))],
  ['strcontains', spec(2, 2, (call) => boolNode(call.at, call.knownText(0).includes(call.knownText(1))))],
  [
    'replace',
    spec(3, 3, (call) => {
      const [value, from, to] = [call.knownText(0), call.knownText(1), call.textOf(2)];
      const pattern = /^\/([^]+)\/$/.exec(from)?.[1];
      if (pattern !== undefined) return replacePattern(call, { subject: value, pattern, by: to });
      return text(call, from === '' ? value : value.split(from).join(to));
    }),
  ],
  [
    'split',
    spec(2, 2, (call) => {
      const parts = call.knownText(1) === '' ? [''] : call.knownText(1).split(call.knownText(0));
      return list(
        call,
        parts.map((part) => textNode(call.at, part)),
      );
    }),
  ],
  [
    'join',
    spec(2, Infinity, (call) => {
      const lists = call.args.slice(1).flatMap((_, index) => call.texts(index + 1));
      return text(call, lists.join(call.textOf(0)));
    }),
  ],
  ['substr', spec(3, 3, substr)],
  [
    'indent',
    spec(2, 2, (call) =>
      text(
        call,
        call.textOf(1).replaceAll('\n', `\n${' '.repeat(Math.min(1000, Math.max(0, call.whole(0))))}`),
      ),
    ),
  ],
  ['strlen', spec(1, 1, (call) => numberNode(call.at, Array.from(call.knownText(0)).length))],
  ...FORMAT_FUNCTIONS,
  ...REGEX_FUNCTIONS,
  // Numbers
  ['abs', onNumber(Math.abs)],
  ['ceil', onNumber(Math.ceil)],
  ['floor', onNumber(Math.floor)],
  ['signum', onNumber(Math.sign)],
  ['pow', spec(2, 2, (call) => numberNode(call.at, call.number(0) ** call.number(1)))],
  ['log', spec(2, 2, (call) => numberNode(call.at, Math.log(call.number(0)) / Math.log(call.number(1))))],
  ['min', spec(1, Infinity, (call) => numberNode(call.at, Math.min(...call.numbers())))],
  ['max', spec(1, Infinity, (call) => numberNode(call.at, Math.max(...call.numbers())))],
  [
    'parseint',
    spec(2, 2, (call) => {
      const [value, base] = [call.knownText(0), call.whole(1)];
      const isWritten =
        base >= 2 && base <= 36 && /^-?[0-9a-z]+$/i.test(value) && !Number.isNaN(parseInt(value, base));
      return isWritten
        ? numberNode(call.at, parseInt(value, base))
        : call.fail(`${JSON.stringify(value)} is no number of base ${base}`);
    }),
  ],
  ...COLLECTION_FUNCTIONS,
  // Conversions
  ['toset', spec(1, 1, (call) => list(call, ordered(distinct(call.list(0).items))))],
  ['tolist', spec(1, 1, (call) => call.list(0))],
  ['tomap', spec(1, 1, (call) => call.map(0))],
  ['tostring', spec(1, 1, (call) => text(call, call.textOf(0)))],
  ['tonumber', spec(1, 1, toNumber)],
  ['tobool', spec(1, 1, toBool)],
  [
    'jsonencode',
    spec(1, 1, (call) => text(call, encodeJson(toPlain(call.args[0] ?? call.fail('argument 1 is missing'))))),
  ],
  ['jsondecode', spec(1, 1, decodeJson)],
  [
    'base64encode',
    spec(1, 1, (call) => text(call, Buffer.from(call.knownText(0), 'utf8').toString('base64'))),
  ],
  ['base64decode', spec(1, 1, decodeBase64)],
  ['urlencode', onText((value) => encodeURIComponent(value).replaceAll('%20', '+'))],
  ['md5', onHash('md5')],
  ['sha1', onHash('sha1')],
  ['sha256', onHash('sha256')],
  ['sha512', onHash('sha512')],
  // Files, relative to the job file
  ['file', spec(1, 1, (call) => text(call, readNamed(call)))],
  ['fileexists', spec(1, 1, (call) => boolNode(call.at, fileExists(call)))],
  ['filebase64', spec(1, 1, (call) => text(call, Buffer.from(readNamed(call), 'utf8').toString('base64')))],
  ['basename', onText((value) => value.replace(/\/+$/, '').replace(/^.*\//, ''))],
  ['dirname', onText((value) => (/^(.*)\/[^/]*$/.exec(value)?.[1] ?? '.') || '/')],
]);
