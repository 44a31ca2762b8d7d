/** Owns the talk with SQLite: statements prepared once, and its errors told apart into ours. */
import { closeSync, openSync, readSync } from 'node:fs';
import Sqlite, { type Database, type Statement } from 'better-sqlite3';
import { AgentError, describeSystemError } from '../base/errors.js';

type Bound = Readonly<Record<string, unknown>>;

/** Primary result codes that say "not now": the change is good, the disk is not. Extended codes begin with them. */
const REFUSALS =
  /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|BUSY|LOCKED|NOMEM|PERM|AUTH|PROTOCOL|INTERRUPT|NOLFS)(_|$)/;
const CORRUPTIONS = /^SQLITE_(CORRUPT|NOTADB)(_|$)/;

export class Sql {
  readonly db: Database;
  readonly #statements = new Map<string, Statement>();
  readonly #transaction: Sqlite.Transaction<(work: () => unknown) => unknown>;

  constructor(db: Database) {
    this.db = db;
    this.#transaction = db.transaction((work: () => unknown) => work());
  }

  /** All rows. @throws AgentError store_unavailable, store_corrupt */
  all(text: string, bound: Bound = {}): readonly unknown[] {
    return this.#told(() => this.#prepare(text).all(bound));
  }

  /** The first row, or undefined. */
  get(text: string, bound: Bound = {}): unknown {
    return this.#told(() => this.#prepare(text).get(bound));
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
    return this.#told(() => this.#prepare(text).run(bound).changes);
  }

  /** Inserts a row, or replaces the columns of the one with the same `keys`. */
  put(table: string, keys: readonly string[], columns: Bound): void {
    const names = Object.keys(columns);
    const updates = names.map((name) => `${name} = excluded.${name}`);
    this.run(
      `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map((name) => `:${name}`).join(', ')})
       ON CONFLICT (${keys.join(', ')}) DO UPDATE SET ${updates.join(', ')}`,
      columns,
    );
  }

  /** All or nothing; nested calls are savepoints. */
  transact<T>(work: () => T): T {
    return this.#told(() => this.#transaction.immediate(work) as T);
  }

  #told<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw asStoreError(error, this.db.name);
    }
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
