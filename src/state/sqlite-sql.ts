/**
 * Owns the talk with SQLite: statements prepared once, its errors told apart into ours, and when what is remembered of
 * rows is not true any more.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import Sqlite, { type Database, type Statement } from 'better-sqlite3';
import { AgentError, describeSystemError } from '../base/errors.js';
import { Recall } from './recall.js';

/** Values by name, or by place. */
type Bound = Readonly<Record<string, unknown>> | readonly unknown[];

/** Primary result codes that say "not now": the change is good, the disk is not. Extended codes begin with them. */
const REFUSALS =
  /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|BUSY|LOCKED|NOMEM|PERM|AUTH|PROTOCOL|INTERRUPT|NOLFS)(_|$)/;
const CORRUPTIONS = /^SQLITE_(CORRUPT|NOTADB)(_|$)/;

/** How rows are put into one table. */
interface Put {
  readonly names: readonly string[];
  /** Changes no row when a settled column is another. */
  readonly usual: Statement;
  /** For that case; undefined when no column is settled. */
  readonly any: Statement | undefined;
}

export class Sql {
  readonly db: Database;
  /** By text. A text that is made anew at each call is hashed at each call: callers give constants. */
  readonly #statements = new Map<string, Statement>();
  readonly #puts = new Map<string, Put>();
  readonly #transaction: Sqlite.Transaction<(work: () => unknown) => unknown>;
  readonly #recalls: Pick<Recall<unknown>, 'clear'>[] = [];
  /** Changes when another connection has committed. */
  #dataVersion: number | undefined;

  constructor(db: Database) {
    this.db = db;
    this.#transaction = db.transaction((work: () => unknown) => work());
  }

  /** All rows. @throws AgentError store_unavailable, store_corrupt */
  all(text: string, bound: Bound = {}): readonly unknown[] {
    try {
      return this.#prepare(text).all(bound);
    } catch (error) {
      throw asStoreError(error, this.db.name);
    }
  }

  /** The first row, or undefined. */
  get(text: string, bound: Bound = {}): unknown {
    try {
      return this.#prepare(text).get(bound);
    } catch (error) {
      throw asStoreError(error, this.db.name);
    }
  }

  /** The first column of the first row when it is a number, or undefined. */
  number(text: string, bound: Bound = {}): number | undefined {
    const value = this.#first(text, bound);
    return typeof value === 'number' ? value : undefined;
  }

  /** The first column of the first row when it is text, or undefined. */
  text(text: string, bound: Bound = {}): string | undefined {
    const value = this.#first(text, bound);
    return typeof value === 'string' ? value : undefined;
  }

  /** @returns how many rows changed */
  run(text: string, bound: Bound = {}): number {
    try {
      return this.#prepare(text).run(bound).changes;
    } catch (error) {
      throw asStoreError(error, this.db.name);
    }
  }

  /**
   * Inserts a row, or replaces the columns of the one with the same `keys`, which are those of the table.
   * For one table `keys` and `settled` are always the same.
   * @param settled TEXT or INTEGER columns that rarely change under the same keys: an index is written whenever a column of it
   *   is replaced, also by the same
   */
  put(
    table: string,
    keys: readonly string[],
    columns: Readonly<Record<string, unknown>>,
    settled: readonly string[] = [],
  ): void {
    try {
      const { usual, any } = this.#preparePut(table, keys, settled, Object.keys(columns));
      // By place: a binding by name is looked up at each call, and this is what is called most.
      const values = Object.values(columns);
      if (usual.run(...values).changes === 0) any?.run(...values);
    } catch (error) {
      throw asStoreError(error, this.db.name);
    }
  }

  /** All or nothing; nested calls are savepoints. What it undoes is forgotten. */
  transact<T>(work: () => T): T {
    const nested = this.db.inTransaction;
    try {
      return this.#transaction.immediate(() => {
        if (!nested) this.#forgetWhatOthersChanged();
        return work();
      }) as T;
    } catch (error) {
      this.forget();
      throw asStoreError(error, this.db.name);
    }
  }

  /** A memory of `most` values, which must come from rows and be kept as these are. Use it within transactions only. */
  recall<V>(most: number): Recall<V> {
    const recall = new Recall<V>(most);
    this.#recalls.push(recall);
    return recall;
  }

  /** Forgets all that is remembered: rows have changed in a way that nobody keeps track of. */
  forget(): void {
    for (const recall of this.#recalls) recall.clear();
  }

  /** Somebody may have the database open in another program. */
  #forgetWhatOthersChanged(): void {
    const version = this.number('PRAGMA data_version');
    if (version !== this.#dataVersion) this.forget();
    this.#dataVersion = version;
  }

  #first(text: string, bound: Bound): unknown {
    const row = this.get(text, bound);
    return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined;
  }

  #prepare(text: string): Statement {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.db.prepare(text);
      this.#statements.set(text, statement);
    }
    return statement;
  }

  #preparePut(
    table: string,
    keys: readonly string[],
    settled: readonly string[],
    names: readonly string[],
  ): Put {
    const known = this.#puts.get(table);
    if (known?.names.length === names.length && names.every((name, place) => name === known.names[place])) {
      return known;
    }
    const upsert = (kept: readonly string[]): Statement => {
      const updates = names.filter((name) => !keys.includes(name) && !kept.includes(name));
      const set = updates.map((name) => `${name} = excluded.${name}`).join(', ');
      const same = kept.map((name) => `${table}.${name} IS excluded.${name}`).join(' AND ');
      return this.db.prepare(
        `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})
         ON CONFLICT (${keys.join(', ')}) DO
         ${set === '' ? 'NOTHING' : `UPDATE SET ${set} ${same === '' ? '' : `WHERE ${same}`}`}`,
      );
    };
    const put = { names, usual: upsert(settled), any: settled.length === 0 ? undefined : upsert([]) };
    this.#puts.set(table, put);
    return put;
  }
}

/** True for what `asStoreError` made of a disk's refusal or damage. */
export function isDiskError(error: unknown): boolean {
  return (
    error instanceof AgentError && (error.code === 'store_unavailable' || error.code === 'store_corrupt')
  );
}

/**
 * An AgentError for what the disk did; anything else comes back as it is.
 * @param path the database: whether it can be read at all is looked at when SQLite calls it damaged
 */
export function asStoreError(error: unknown, path: string): unknown {
  if (!(error instanceof Sqlite.SqliteError)) return error;
  const message = `${error.message} (${error.code})`;
  if (CORRUPTIONS.test(error.code)) {
    // SQLite calls a read that fails with EIO "malformed" as well. Nobody shall move a good database aside for that.
    const refusal = readingFails(path);
    if (refusal === undefined) return new AgentError('store_corrupt', message, { cause: error });
    const told = `the disk gives back nothing: ${path}: ${refusal}; the database itself may be whole`;
    return new AgentError('store_unavailable', told, { recoverable: true, cause: error });
  }
  if (REFUSALS.test(error.code)) {
    return new AgentError('store_unavailable', message, { recoverable: true, cause: error });
  }
  return error;
}

/** Why not a byte of the file can be read; undefined = one can. */
function readingFails(path: string): string | undefined {
  try {
    const fd = openSync(path, 'r');
    try {
      readSync(fd, Buffer.alloc(1), 0, 1, 0);
    } finally {
      closeSync(fd);
    }
    return undefined;
  } catch (error) {
    return describeSystemError(error);
  }
}
