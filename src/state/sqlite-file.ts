/**
 * Owns the database file: says what is in it before anything is touched, and opens it the way the store needs. Call only
 * while holding the store's lock: opening and closing files of a database in use would drop its locks.
 */
import { chmodSync, closeSync, existsSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import Sqlite, { type Database } from 'better-sqlite3';
import { AgentError, describeError, errnoOf } from '../base/errors.js';
import { SCHEMA_VERSION } from './migrations.js';
import { asStoreError } from './sqlite-sql.js';

/** Longest wait for another program that has the database open (a backup, sqlite3 by hand): it blocks the agent. */
const BUSY_MS = 500;
/** The write-ahead log is cut back to this after a checkpoint. */
const WAL_LIMIT_BYTES = 16 * 2 ** 20;

/** The first 100 bytes (SQLite file format §1.3). */
const HEADER_BYTES = 100;
const MAGIC = 'SQLite format 3\0';
const USER_VERSION_OFFSET = 60;

/**
 * Opens the database at `path`, or makes an empty one, readable by its owner only.
 * @throws AgentError store_corrupt, schema_too_new (both leave the file as it is), store_unavailable
 */
export function openDatabaseFile(path: string): Database {
  let db: Database | undefined;
  try {
    if (isEmpty(path)) closeSync(openSync(path, 'a', 0o600));
    else refuseStrangers(path);
    chmodSync(path, 0o600);
    db = new Sqlite(path, { timeout: BUSY_MS });
    configure(db);
    checkPages(db);
    return db;
  } catch (error) {
    db?.close();
    throw openingError(path, error);
  }
}

/** What failed at opening, with what to do about it. */
export function openingError(path: string, error: unknown): unknown {
  const known = asStoreError(error, path);
  if (known instanceof AgentError && known.code === 'store_corrupt') return corruptError(path, known.message);
  if (known instanceof AgentError && known.code !== 'store_unavailable') return known;
  if (!(known instanceof AgentError) && errnoOf(error) === undefined) return known;
  const message = `cannot open ${path}: ${describeError(known)}; free space or give the agent's user access`;
  return new AgentError('store_unavailable', message, { recoverable: true, cause: error });
}

function corruptError(path: string, why: string): AgentError {
  return new AgentError(
    'store_corrupt',
    `${path} is damaged (${why}): move it aside together with ${path}-wal and put back a copy, or start without it; ` +
      'running tasks are not touched',
  );
}

function isEmpty(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

/** Reads, and changes nothing. */
function refuseStrangers(path: string): void {
  const header = readHeader(path);
  if (header.length < HEADER_BYTES || header.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    throw corruptError(path, 'it is no SQLite database');
  }
  refuseNewer(path, header.readUInt32BE(USER_VERSION_OFFSET));
  // The newest pages may still be in the log, and the version with them. A reader leaves log and file alone.
  const sidecars = [`${path}-wal`, `${path}-shm`].filter((sidecar) => !existsSync(sidecar));
  const db = new Sqlite(path, { readonly: true, timeout: BUSY_MS });
  try {
    refuseNewer(path, Number(db.pragma('user_version', { simple: true })));
    if (db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'meta'`).get() === undefined) return;
    const told = db.prepare(`SELECT value FROM meta WHERE key = 'schema_version'`).pluck().get();
    refuseNewer(path, Number(told ?? 0));
  } finally {
    db.close();
    for (const sidecar of sidecars) rmSync(sidecar, { force: true });
  }
}

function refuseNewer(path: string, version: number): void {
  if (!(version > SCHEMA_VERSION)) return;
  throw new AgentError(
    'schema_too_new',
    `${path} was written by a newer holdfast (schema ${version}, this one knows ${SCHEMA_VERSION}): ` +
      'start that version again, or give this one another data directory',
  );
}

function readHeader(path: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  const fd = openSync(path, 'r');
  try {
    return header.subarray(0, readSync(fd, header, 0, HEADER_BYTES, 0));
  } finally {
    closeSync(fd);
  }
}

function configure(db: Database): void {
  const mode = db.pragma('journal_mode = WAL', { simple: true });
  if (mode !== 'wal')
    throw new AgentError('store_unavailable', `write-ahead log refused (journal mode ${String(mode)})`);
  db.pragma('synchronous = FULL');
  db.pragma(`journal_size_limit = ${WAL_LIMIT_BYTES}`);
  db.pragma('temp_store = MEMORY');
  // Damage is found where it is met, not where it has spread to.
  db.pragma('cell_size_check = ON');
  db.pragma('trusted_schema = OFF');
}

/** Reads every page once, about half a second a gigabyte from the cache: damage found now harms nobody. */
function checkPages(db: Database): void {
  const verdict = db.pragma('quick_check(1)', { simple: true });
  if (verdict !== 'ok') throw new AgentError('store_corrupt', String(verdict));
}
