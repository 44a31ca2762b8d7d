/** Owns the reading and writing of single columns. What a column holds is not trusted: a disk may lie. */
import { decodeJson } from './json.js';

/** What SQLite takes. */
export type Column = string | number | null;
export type Columns = Readonly<Record<string, Column>>;

/** A column does not hold what it should: the row is bad. */
export class BadRow extends Error {
  override readonly name = 'BadRow';
}

/** One row as SQLite gave it; each reader throws BadRow when the column holds something else. */
export class Row {
  readonly #columns: Readonly<Record<string, unknown>>;

  constructor(columns: unknown) {
    if (!isRecord(columns)) throw new BadRow('no row');
    this.#columns = columns;
  }

  text(name: string): string {
    const value = this.#columns[name];
    if (typeof value !== 'string') throw this.#bad(name, 'text');
    return value;
  }

  number(name: string): number {
    const value = this.#columns[name];
    if (typeof value !== 'number') throw this.#bad(name, 'a number');
    return value;
  }

  flag(name: string): boolean {
    const value = this.#columns[name];
    if (value !== 0 && value !== 1) throw this.#bad(name, '0 or 1');
    return value === 1;
  }

  word<Word extends string>(name: string, words: readonly Word[]): Word {
    const value = this.#columns[name];
    const found = words.find((word) => word === value);
    if (found === undefined) throw this.#bad(name, `one of ${words.join(', ')}`);
    return found;
  }

  json(name: string): unknown {
    const text = this.text(name);
    try {
      return decodeJson(text);
    } catch {
      throw this.#bad(name, 'JSON');
    }
  }

  /** A JSON object; its members are the caller's to check. */
  object(name: string): Readonly<Record<string, unknown>> {
    const value = this.json(name);
    if (!isRecord(value)) throw this.#bad(name, 'a JSON object');
    return value;
  }

  isNull(name: string): boolean {
    return this.#columns[name] === null;
  }

  optionalText(name: string): string | undefined {
    return this.isNull(name) ? undefined : this.text(name);
  }

  optionalNumber(name: string): number | undefined {
    return this.isNull(name) ? undefined : this.number(name);
  }

  #bad(name: string, wanted: string): BadRow {
    const value = this.#columns[name];
    const found = typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : String(value);
    return new BadRow(`column ${name} holds ${found} and not ${wanted}`);
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Value = string | number | boolean | undefined;

/**
 * Values of a record as columns, in the same object: it is made for this. SQLite gives back the same, unless a text
 * holds half a character.
 * @throws TypeError for a number that SQLite would turn into NULL
 */
export function asColumns(values: Record<string, Value>): Columns {
  const columns: Record<string, Value | null> = values;
  for (const name of Object.keys(values)) columns[name] = asColumn(name, values[name]);
  return columns as Columns;
}

function asColumn(name: string, value: Value): Column {
  if (value === undefined) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'string') return value;
  // There is no -0 in a database.
  if (Number.isFinite(value)) return value + 0;
  throw new TypeError(`${name} is ${value}, which cannot be stored`);
}
