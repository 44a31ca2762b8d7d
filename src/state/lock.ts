/**
 * Owns who may write a store: one process at a time. The lock is the kernel's, held through an empty SQLite file, so it
 * goes with its process however that ends and cannot be stale. A text file beside it says who holds it, for people.
 */
import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { pid } from 'node:process';
import Sqlite, { type Database } from 'better-sqlite3';
import { describeError, AgentError } from '../base/errors.js';
import { isAlive, readBootId, readProcessStat, type ProcessRef } from '../base/host.js';
import { isRecord } from './row.js';

/** Between taking the lock and saying who did, the holder needs a moment. */
const OWNER_TRIES = 40;
const OWNER_TRY_MS = 25;

/** Closing it gives the store to the next; twice is allowed. */
export interface StoreLock extends Disposable {
  readonly path: string;
}

interface Owner extends ProcessRef {
  readonly bootId: string;
}

/**
 * Takes the lock of the store at `path`, or says who has it.
 * @throws AgentError store_locked; store_unavailable when the folder cannot be written
 */
export function takeStoreLock(path: string): StoreLock {
  const lockPath = `${path}.lock`;
  const ownerPath = `${path}.owner`;
  const db = openExclusively(path, lockPath, ownerPath);
  // From here on an owner file left by somebody else is a lie.
  sayOwner(ownerPath);
  let held = true;
  return {
    path: lockPath,
    [Symbol.dispose]: () => {
      if (!held) return;
      held = false;
      rmSync(ownerPath, { force: true });
      db.close();
    },
  };
}

function openExclusively(path: string, lockPath: string, ownerPath: string): Database {
  let db: Database | undefined;
  try {
    db = new Sqlite(lockPath, { timeout: 0 });
    chmodSync(lockPath, 0o600);
    // Held in memory: nothing is ever written, so a full disk cannot keep the agent from its store.
    db.pragma('journal_mode = MEMORY');
    db.exec('BEGIN EXCLUSIVE');
    return db;
  } catch (error) {
    db?.close();
    if (error instanceof Sqlite.SqliteError && error.code.startsWith('SQLITE_BUSY'))
      throw lockedError(path, ownerPath);
    throw new AgentError('store_unavailable', `cannot lock ${lockPath}: ${describeError(error)}`, {
      recoverable: true,
      cause: error,
    });
  }
}

function sayOwner(ownerPath: string): void {
  const startTicks = readProcessStat(pid)?.startTicks ?? 0;
  const owner: Owner = { pid, startTicks, bootId: readBootId() };
  try {
    writeFileSync(`${ownerPath}.new`, `${JSON.stringify(owner)}\n`, { mode: 0o600 });
    renameSync(`${ownerPath}.new`, ownerPath);
  } catch {
    // A full disk. The lock holds without it; only the error message of a second agent is poorer.
    rmSync(ownerPath, { force: true });
  }
}

function lockedError(path: string, ownerPath: string): AgentError {
  const owner = findOwner(ownerPath);
  const who = owner === undefined ? 'another process' : `another agent, pid ${owner.pid},`;
  return new AgentError(
    'store_locked',
    `${who} is using ${path}: stop it first, or give this agent a data directory of its own (--data-dir)`,
  );
}

/** The holder of the lock, once it has said so; undefined when it does not, or is in another pid namespace. */
function findOwner(ownerPath: string): Owner | undefined {
  for (let attempt = 0; attempt < OWNER_TRIES; attempt++) {
    const owner = readOwner(ownerPath);
    if (owner !== undefined && owner.bootId === readBootId() && isAlive(owner)) return owner;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, OWNER_TRY_MS);
  }
  return undefined;
}

function readOwner(ownerPath: string): Owner | undefined {
  try {
    const owner: unknown = JSON.parse(readFileSync(ownerPath, 'utf8'));
    if (!isRecord(owner)) return undefined;
    const { pid: ownerPid, startTicks, bootId } = owner;
    if (typeof ownerPid !== 'number' || typeof startTicks !== 'number' || typeof bootId !== 'string') {
      return undefined;
    }
    return { pid: ownerPid, startTicks, bootId };
  } catch {
    return undefined;
  }
}
