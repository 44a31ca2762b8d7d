/**
 * Owns what becomes of rows that cannot be decoded: they are moved to the table `quarantine`, said in the log and listed
 * for the operator, and the reader goes on without them. Losing sight of one row must not cost the others.
 */
import type { Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import { BadRow, isRecord, Row } from './row.js';
import type { Sql } from './sqlite-sql.js';
import type { QuarantinedRow } from './store.js';

/** Columns that name a row for people. */
const KEYS = {
  jobs: ['job_id'],
  job_versions: ['job_id', 'version'],
  allocs: ['alloc_id'],
  tasks: ['alloc_id', 'task'],
  runs: ['run_id'],
  task_events: ['alloc_id', 'task', 'seq'],
  hook_state: ['alloc_id', 'task', 'hook'],
  deployments: ['deployment_id'],
  evaluations: ['eval_id'],
  feed: ['index'],
} as const;

export type RowTable = keyof typeof KEYS;

/** Newest rows kept aside: enough to see what happened, too few to fill a disk. */
const MOST_ROWS = 10_000;

export class Quarantine {
  readonly #sql: Sql;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Bad rows that the disk did not let us move; by table and key. */
  readonly #stuck = new Map<string, QuarantinedRow>();
  /** What was logged last: a group of commits that is undone and written again finds the same row again. */
  #logged = '';

  constructor(sql: Sql, clock: Clock, logger: Logger) {
    this.#sql = sql;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Decodes rows of `table`; a bad one is moved aside and left out. */
  decode<T>(table: RowTable, found: readonly unknown[], decode: (row: Row) => T): readonly T[] {
    const good: T[] = [];
    for (const columns of found) {
      try {
        good.push(decode(new Row(columns)));
      } catch (error) {
        if (!(error instanceof BadRow)) throw error;
        this.#moveAside(table, columns, error.message);
      }
    }
    return good;
  }

  list(): readonly QuarantinedRow[] {
    const rows = this.#sql.all('SELECT * FROM quarantine ORDER BY place').flatMap((columns) => {
      const row = new Row(columns);
      try {
        return [
          {
            table: row.text('table_name'),
            key: row.text('key'),
            error: row.text('error'),
            raw: row.text('raw'),
            atMs: row.number('at_ms'),
          },
        ];
      } catch {
        // A bad row about a bad row: nothing is left that could be said of it.
        return [];
      }
    });
    return [...rows, ...this.#stuck.values()];
  }

  #moveAside(table: RowTable, columns: unknown, error: string): void {
    const values = isRecord(columns) ? columns : {};
    const key = KEYS[table].map((name) => String(values[name])).join('/');
    const row = { table, key, error, raw: describeRow(values), atMs: this.#clock.wallMs() };
    if (this.#stuck.has(`${table} ${key}`)) return;
    const what = `${table} ${key} ${error}`;
    if (what !== this.#logged)
      this.#logger.error({ table, key, error }, 'a row cannot be read and is moved to quarantine');
    this.#logged = what;
    const nested = this.#sql.db.inTransaction;
    this.#sql.forget();
    try {
      this.#sql.transact(() => {
        this.#sql.run(
          `INSERT INTO quarantine (table_name, key, error, raw, at_ms) VALUES (:table, :key, :error, :raw, :atMs)`,
          row,
        );
        this.#sql.run(`DELETE FROM ${table} WHERE rowid = :place`, {
          place: values['place'] ?? values['index'],
        });
        this.#sql.run(`DELETE FROM quarantine WHERE place <= (SELECT MAX(place) FROM quarantine) - :most`, {
          most: MOST_ROWS,
        });
      });
    } catch (cause) {
      // The disk may have ended the transaction around this: going on would write outside of it.
      if (nested) throw cause;
      this.#stuck.set(`${table} ${key}`, row);
      this.#logger.warn({ table, key, error: describeError(cause) }, 'it could not be moved, ignoring');
    }
  }
}

/** Bytes that are no text are shown as hex. */
function describeRow(values: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(values).map(([name, value]) => {
    return [name, value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value];
  });
  return JSON.stringify(Object.fromEntries(shown));
}
