/**
 * Owns `?filter=`: the simple part of the expressions that Nomad's lists take. `Status == "running" and JobID != "web"`.
 * Pure. What it does not know is refused, never ignored. `matches` is not there: a regular expression of a caller could
 * hold up the agent.
 */
import { AgentError } from '../base/errors.js';

/** @throws AgentError bad_request when a field is not there */
export type Predicate = (item: unknown) => boolean;

const LONGEST_FILTER = 2048;
/** Parentheses and nots within one another: the parser calls itself. */
const DEEPEST = 32;

const TOKEN = /\s*(?:("(?:[^"\\]|\\.)*"|`[^`]*`)|(==|!=|\(|\))|([A-Za-z0-9_.*/-]+))/y;

interface Word {
  readonly kind: 'text' | 'sign' | 'word';
  readonly text: string;
}

/** @throws AgentError bad_request saying what is not understood */
export function parseFilter(source: string): Predicate {
  if (source.length > LONGEST_FILTER) throw fault(`at most ${LONGEST_FILTER} characters`);
  const parser = new Parser(readWords(source));
  return parser.parse();
}

function readWords(source: string): readonly Word[] {
  const words: Word[] = [];
  const text = source.trimEnd();
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (found === null) throw fault(`cannot read ${JSON.stringify(text.slice(at, at + 20))}`);
    const [, quoted, sign, word] = found;
    if (quoted !== undefined) words.push({ kind: 'text', text: unquote(quoted) });
    else if (sign !== undefined) words.push({ kind: 'sign', text: sign });
    else words.push({ kind: 'word', text: word ?? '' });
  }
  return words;
}

function unquote(quoted: string): string {
  return quoted.startsWith('`') ? quoted.slice(1, -1) : quoted.slice(1, -1).replace(/\\(.)/g, '$1');
}

class Parser {
  readonly #words: readonly Word[];
  #at = 0;
  #depth = 0;

  constructor(words: readonly Word[]) {
    this.#words = words;
  }

  parse(): Predicate {
    const all = this.#or();
    const rest = this.#words[this.#at];
    if (rest !== undefined) throw fault(`${JSON.stringify(rest.text)} was not expected`);
    return all;
  }

  #or(): Predicate {
    const parts = [this.#and()];
    while (this.#takeWord('or')) parts.push(this.#and());
    return (item) => parts.some((part) => part(item));
  }

  #and(): Predicate {
    const parts = [this.#one()];
    while (this.#takeWord('and')) parts.push(this.#one());
    return (item) => parts.every((part) => part(item));
  }

  #one(): Predicate {
    this.#depth += 1;
    if (this.#depth > DEEPEST) throw fault(`at most ${DEEPEST} within one another`);
    try {
      if (this.#takeWord('not')) {
        const inner = this.#one();
        return (item) => !inner(item);
      }
      if (!this.#take('sign', '(')) return this.#match();
      const inner = this.#or();
      if (!this.#take('sign', ')')) throw fault('a ")" is missing');
      return inner;
    } finally {
      this.#depth -= 1;
    }
  }

  #match(): Predicate {
    const first = this.#next('a field or a value');
    if (first.kind === 'text') return this.#memberOf(first.text);
    const path = readPath(first);
    if (this.#take('sign', '==')) return this.#compare(path, (value, wanted) => value === wanted);
    if (this.#take('sign', '!=')) return this.#compare(path, (value, wanted) => value !== wanted);
    if (this.#takeWord('contains')) return this.#compareRaw(path, contains);
    if (this.#takeWord('is')) {
      const negated = this.#takeWord('not');
      if (!this.#takeWord('empty')) throw fault('after "is" comes "empty" or "not empty"');
      return (item) => isEmpty(lookUp(item, path)) !== negated;
    }
    if (this.#takeWord('not')) {
      if (!this.#takeWord('contains')) throw fault('after "not" comes "contains"');
      const wanted = this.#next('a value').text;
      return (item) => !contains(lookUp(item, path), wanted);
    }
    const { text } = this.#words[this.#at] ?? { text: '' };
    throw fault(
      `after ${first.text} comes ==, !=, contains, not contains, is empty or is not empty, not ${JSON.stringify(text)}`,
    );
  }

  #memberOf(wanted: string): Predicate {
    const negated = this.#takeWord('not');
    if (!this.#takeWord('in')) throw fault('after a value comes "in" or "not in"');
    const path = readPath(this.#next('a field'));
    return (item) => contains(lookUp(item, path), wanted) !== negated;
  }

  #compare(path: readonly string[], test: (value: string, wanted: string) => boolean): Predicate {
    return this.#compareRaw(path, (value, wanted) => test(asText(value, path), wanted));
  }

  #compareRaw(path: readonly string[], test: (value: unknown, wanted: string) => boolean): Predicate {
    const wanted = this.#next('a value').text;
    return (item) => test(lookUp(item, path), wanted);
  }

  #next(what: string): Word {
    const word = this.#words[this.#at];
    if (word === undefined || word.kind === 'sign') throw fault(`${what} is missing`);
    this.#at += 1;
    return word;
  }

  #takeWord(text: string): boolean {
    return this.#take('word', text);
  }

  #take(kind: Word['kind'], text: string): boolean {
    const word = this.#words[this.#at];
    if (word?.kind !== kind || word.text !== text) return false;
    this.#at += 1;
    return true;
  }
}

function readPath({ kind, text }: Word): readonly string[] {
  if (kind !== 'word') throw fault(`${JSON.stringify(text)} is no field`);
  return text.split('.');
}

function lookUp(item: unknown, path: readonly string[]): unknown {
  let value = item;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) {
      throw fault(`there is no field ${JSON.stringify(path.join('.'))}`);
    }
    value = Reflect.get(value, name);
  }
  return value;
}

function contains(value: unknown, wanted: string): boolean {
  if (typeof value === 'string') return value.includes(wanted);
  if (Array.isArray(value)) return value.some((each) => String(each) === wanted);
  return typeof value === 'object' && value !== null && Object.hasOwn(value, wanted);
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function asText(value: unknown, path: readonly string[]): string {
  if (typeof value === 'object' && value !== null) {
    throw fault(`the field ${JSON.stringify(path.join('.'))} is no single value`);
  }
  return String(value);
}

function fault(why: string): AgentError {
  return new AgentError('bad_request', `query parameter filter: ${why}`);
}
