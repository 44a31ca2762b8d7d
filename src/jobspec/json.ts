/**
 * Owns JSON text → tree with positions. Accepts exactly what JSON.parse accepts, except that a key given twice is a
 * fault and that nesting is bounded; our own because JSON.parse tells no positions and words its errors differently
 * in every version of Node.
 */
import {
  DEEPEST,
  LineIndex,
  repeatedKey,
  type Entry,
  type ReadText,
  type TextFault,
  type Tree,
} from './tree.js';
import { quote } from './words.js';

/** Reads one JSON text; the top must be an object. */
export function readJson(text: string): ReadText {
  const reader = new JsonReader(text);
  try {
    const tree = reader.readAll();
    if (tree.kind === 'map') return { tree, faults: reader.repeats };
    return { tree: undefined, faults: [{ at: tree.at, message: 'a job file must hold a JSON object' }] };
  } catch (error) {
    if (error instanceof JsonFault) return { tree: undefined, faults: [error.fault] };
    throw error;
  }
}

class JsonFault extends Error {
  readonly fault: TextFault;

  constructor(fault: TextFault) {
    super(fault.message);
    this.fault = fault;
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORDS = new Map<string, boolean | null>([
  ['true', true],
  ['false', false],
  ['null', null],
]);
const ESCAPES = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }),
);

class JsonReader {
  readonly repeats: TextFault[] = [];
  readonly #text: string;
  readonly #lines: LineIndex;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#lines = new LineIndex(text);
  }

  readAll(): Tree {
    const tree = this.#value(0);
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#unexpected('the end of the file');
    return tree;
  }

  #value(depth: number): Tree {
    this.#skipSpace();
    const at = this.#at;
    if (depth > DEEPEST) throw new JsonFault({ at, message: `more than ${DEEPEST} levels of nesting` });
    const character = this.#text[at];
    if (character === '{') return this.#object(depth);
    if (character === '[') return this.#list(depth);
    if (character === '"') {
      const value = this.#string();
      return { kind: 'scalar', at, value, written: value };
    }
    NUMBER.lastIndex = at;
    const number = NUMBER.exec(this.#text)?.[0];
    if (number !== undefined) {
      this.#at += number.length;
      return { kind: 'scalar', at, value: Number(number), written: number };
    }
    for (const [word, value] of WORDS) {
      if (!this.#text.startsWith(word, at)) continue;
      this.#at += word.length;
      return { kind: 'scalar', at, value, written: word };
    }
    throw this.#unexpected('a value');
  }

  #object(depth: number): Tree {
    const at = this.#at++;
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    this.#skipSpace();
    while (!this.#take('}')) {
      if (entries.length > 0) {
        if (!this.#take(',')) throw this.#unexpected('`,` or `}`');
        this.#skipSpace();
      }
      const keyAt = this.#at;
      if (this.#text[keyAt] !== '"') throw this.#unexpected('a key in double quotes');
      const key = this.#string();
      this.#skipSpace();
      if (!this.#take(':')) throw this.#unexpected(`\`:\` after the key ${quote(key)}`);
      const value = this.#value(depth + 1);
      const first = firsts.get(key);
      if (first === undefined) firsts.set(key, keyAt);
      else this.repeats.push(repeatedKey(key, keyAt, this.#lines.place(first)));
      entries.push({ key, keyAt, labels: undefined, value });
      this.#skipSpace();
    }
    return { kind: 'map', at, entries };
  }

  #list(depth: number): Tree {
    const at = this.#at++;
    const items: Tree[] = [];
    this.#skipSpace();
    while (!this.#take(']')) {
      if (items.length > 0 && !this.#take(',')) throw this.#unexpected('`,` or `]`');
      items.push(this.#value(depth + 1));
      this.#skipSpace();
    }
    return { kind: 'list', at, items };
  }

  #string(): string {
    const start = this.#at++;
    let value = '';
    for (;;) {
      const character = this.#text[this.#at];
      if (character === '"') break;
      if (character === undefined || character === '\n') {
        throw new JsonFault({ at: start, message: 'this string has no closing quote on its line' });
      }
      if (character < ' ') {
        throw new JsonFault({ at: this.#at, message: 'a control character in a string must be escaped' });
      }
      value += character === '\\' ? this.#escape() : character;
      this.#at++;
    }
    this.#at++;
    return value;
  }

  /** The character of an escape; leaves the position on its last character. */
  #escape(): string {
    const at = this.#at++;
    const letter = this.#text[this.#at] ?? '';
    if (letter === 'u') {
      const digits = this.#text.slice(this.#at + 1, this.#at + 5);
      if (/^[\da-fA-F]{4}$/.test(digits)) {
        this.#at += 4;
        return String.fromCharCode(parseInt(digits, 16));
      }
    }
    const character = ESCAPES.get(letter);
    if (character === undefined) {
      throw new JsonFault({ at, message: `bad escape \`\\${letter.replace(/\s/, '')}\` in a string` });
    }
    return character;
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #skipSpace(): void {
    while (this.#at < this.#text.length && ' \t\r\n'.includes(this.#text[this.#at] ?? 'x')) this.#at++;
  }

  #unexpected(wanted: string): JsonFault {
    const rest = this.#text.slice(this.#at);
    const found = rest === '' ? 'the end of the file' : `\`${/^(?:\w+|[^])/u.exec(rest)?.[0] ?? ''}\``;
    return new JsonFault({ at: this.#at, message: `expected ${wanted}, found ${found.slice(0, 40)}` });
  }
}
