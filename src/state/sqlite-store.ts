/** Owns the store on disk: takes its lock, opens and migrates the database, and puts the parts together. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import { newUuid } from '../base/ids.js';
import type { Logger } from '../base/log.js';
import { DEFAULT_STORE_LIMITS, type StoreLimits } from './limits.js';
import { takeStoreLock } from './lock.js';
import { migrate, SCHEMA_VERSION } from './migrations.js';
import { Quarantine } from './quarantine.js';
import { openDatabaseFile, openingError } from './sqlite-file.js';
import { SqliteHistory } from './sqlite-history.js';
import { SqliteRecords } from './sqlite-records.js';
import { SqliteScheduling } from './sqlite-scheduling.js';
import { isDiskError, Sql } from './sqlite-sql.js';
import type { StateStore } from './store.js';
import { TableStore } from './table-store.js';
import type { Tables } from './tables.js';

export interface SqliteStoreOptions {
  /** `<data_dir>/state.db`; its folder is made when it is missing. */
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Id of this boot of the host. */
  readonly bootId: string;
  readonly limits?: Partial<StoreLimits>;
}

/**
 * Opens the store, or makes an empty one. The caller closes it.
 * @throws AgentError store_locked, schema_too_new, store_corrupt, store_unavailable: nothing was changed then
 */
export function openSqliteStore(options: SqliteStoreOptions): StateStore {
  const { path, clock, logger } = options;
  makeFolder(path);
  const lock = takeStoreLock(path);
  try {
    const db = openDatabaseFile(path);
    const close = (): void => {
      db.close();
      lock[Symbol.dispose]();
    };
    try {
      const tables = openTables(new Sql(db), options, close);
      const limits = { ...DEFAULT_STORE_LIMITS, ...options.limits };
      return new TableStore({ tables, clock, logger, limits });
    } catch (error) {
      db.close();
      throw openingError(path, error);
    }
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

function makeFolder(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw openingError(path, error);
  }
}

function openTables(sql: Sql, options: SqliteStoreOptions, close: () => void): Tables {
  const { clock, logger, path, bootId } = options;
  const found = migrate(sql.db);
  if (found !== SCHEMA_VERSION) logger.info({ path, from: found, to: SCHEMA_VERSION }, 'database migrated');
  const hostId = sql.text(`SELECT value FROM meta WHERE key = 'host_id'`) ?? newUuid();
  note(sql, logger, { host_id: hostId, boot_id: bootId });
  const quarantine = new Quarantine(sql, clock, logger);
  const records = new SqliteRecords(sql, quarantine);
  // Every record is read once, so that a bad one is found now and not in the middle of something.
  records.check();
  const scheduling = new SqliteScheduling(sql, quarantine);
  scheduling.check();
  return {
    records,
    history: new SqliteHistory(sql, quarantine),
    scheduling,
    transact: (work) => sql.transact(work),
    isRefusal: isDiskError,
    hostId: () => hostId,
    listQuarantined: () => quarantine.list(),
    close,
  };
}

/** Writes what has changed. A full disk must not keep the agent from its store, so a refusal is only said. */
function note(sql: Sql, logger: Logger, facts: Readonly<Record<string, string>>): void {
  try {
    const stored = (key: string): string | undefined =>
      sql.text('SELECT value FROM meta WHERE key = :key', { key });
    const changed = Object.entries(facts).filter(([key, value]) => stored(key) !== value);
    if (changed.length === 0) return;
    sql.transact(() => {
      for (const [key, value] of changed) sql.put('meta', ['key'], { key, value });
    });
  } catch (error) {
    if (!isDiskError(error)) throw error;
    logger.error({ error: describeError(error) }, 'the disk refuses writes at start, ignoring');
  }
}
