/**
 * Owns the shape of the database: numbered steps, forward only, each in a transaction of its own. A step that was
 * released is never changed; test/golden/ holds a database of every released version.
 *
 * No foreign keys: a row that cannot be read is moved aside, and what belongs to it must not go with it.
 */
import type { Database } from 'better-sqlite3';

/** Facts that tasks and runs share: how a workload ended. NULL = it has not. */
const EXIT_COLUMNS = `
  exit_kind TEXT, exit_code INTEGER, exit_signal INTEGER, exit_core_dumped INTEGER, exit_oom_killed INTEGER,
  exit_reason TEXT, exit_detail TEXT`;

const JOB_COLUMNS = `
  job_id TEXT NOT NULL, version INTEGER NOT NULL, stopped INTEGER NOT NULL, submitted_at_ms INTEGER NOT NULL,
  spec TEXT NOT NULL, rest TEXT NOT NULL,
  create_index INTEGER NOT NULL DEFAULT 0, modify_index INTEGER NOT NULL DEFAULT 0`;

/** `place` is the order of first puts. Step n makes version n of version n - 1. */
const STEPS: readonly string[] = [
  `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

  CREATE TABLE jobs (place INTEGER PRIMARY KEY, ${JOB_COLUMNS}, UNIQUE (job_id));
  CREATE TABLE job_versions (place INTEGER PRIMARY KEY, ${JOB_COLUMNS}, UNIQUE (job_id, version));

  CREATE TABLE allocs (
    place INTEGER PRIMARY KEY, alloc_id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL, job_version INTEGER NOT NULL, group_name TEXT NOT NULL, group_index INTEGER NOT NULL,
    desired_status TEXT NOT NULL, desired_description TEXT NOT NULL, no_shutdown_delay INTEGER NOT NULL,
    client_status TEXT NOT NULL, client_description TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL, modified_at_ms INTEGER NOT NULL, rest TEXT NOT NULL,
    create_index INTEGER NOT NULL DEFAULT 0, modify_index INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX allocs_of_job ON allocs (job_id);

  CREATE TABLE tasks (
    place INTEGER PRIMARY KEY, alloc_id TEXT NOT NULL, task TEXT NOT NULL,
    state TEXT NOT NULL, phase TEXT NOT NULL, phase_detail TEXT NOT NULL, failed INTEGER NOT NULL,
    restarts INTEGER NOT NULL, last_restart_at_ms INTEGER, started_at_ms INTEGER, finished_at_ms INTEGER,
    window_wall_ms INTEGER, window_mono_ms REAL, window_boot_id TEXT, window_used INTEGER,
    next_wall_ms INTEGER, next_mono_ms REAL, next_boot_id TEXT, ${EXIT_COLUMNS},
    run_id TEXT, attempts INTEGER NOT NULL, kill_reason TEXT,
    last_event_seq INTEGER NOT NULL, events_dropped INTEGER NOT NULL, recent_events TEXT NOT NULL,
    rest TEXT NOT NULL, UNIQUE (alloc_id, task)
  );

  CREATE TABLE runs (
    place INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE,
    alloc_id TEXT NOT NULL, task TEXT NOT NULL, attempt INTEGER NOT NULL,
    driver TEXT NOT NULL, boot_id TEXT NOT NULL, spec_hash TEXT NOT NULL, intended_at_ms INTEGER NOT NULL,
    handle TEXT, started_at_ms INTEGER,
    outcome TEXT, ended_at_ms INTEGER, outcome_detail TEXT, ${EXIT_COLUMNS}, report TEXT, rest TEXT NOT NULL
  );
  CREATE INDEX runs_of_task ON runs (alloc_id, task, attempt);

  -- total_bytes = bytes of this and all earlier events of the task, so that sizes are differences.
  CREATE TABLE task_events (
    place INTEGER PRIMARY KEY, alloc_id TEXT NOT NULL, task TEXT NOT NULL, seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, type TEXT NOT NULL, event TEXT NOT NULL,
    bytes INTEGER NOT NULL, total_bytes INTEGER NOT NULL, UNIQUE (alloc_id, task, seq)
  );

  CREATE TABLE hook_state (
    place INTEGER PRIMARY KEY, alloc_id TEXT NOT NULL, task TEXT NOT NULL, hook TEXT NOT NULL,
    done INTEGER NOT NULL, boot_id TEXT, env TEXT NOT NULL, data TEXT NOT NULL, rest TEXT NOT NULL,
    UNIQUE (alloc_id, task, hook)
  );

  -- AUTOINCREMENT: an index is never used again, also when its row is long gone.
  CREATE TABLE feed (
    "index" INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, topic TEXT NOT NULL, type TEXT NOT NULL,
    key TEXT NOT NULL, payload TEXT NOT NULL, bytes INTEGER NOT NULL, total_bytes INTEGER NOT NULL
  );

  CREATE TABLE host (key TEXT PRIMARY KEY, value TEXT NOT NULL);

  CREATE TABLE quarantine (
    place INTEGER PRIMARY KEY, table_name TEXT NOT NULL, key TEXT NOT NULL, error TEXT NOT NULL,
    raw TEXT NOT NULL, at_ms INTEGER NOT NULL
  );
  `,
  `
  CREATE TABLE deployments (
    place INTEGER PRIMARY KEY, deployment_id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL, job_version INTEGER NOT NULL, status TEXT NOT NULL, description TEXT NOT NULL,
    rest TEXT NOT NULL, create_index INTEGER NOT NULL DEFAULT 0, modify_index INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX deployments_of_job ON deployments (job_id);

  CREATE TABLE evaluations (
    place INTEGER PRIMARY KEY, eval_id TEXT NOT NULL UNIQUE, job_id TEXT NOT NULL, status TEXT NOT NULL,
    rest TEXT NOT NULL, create_index INTEGER NOT NULL DEFAULT 0, modify_index INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX evaluations_of_job ON evaluations (job_id);
  `,
];

/** The version that this program writes. */
export const SCHEMA_VERSION = STEPS.length;

/** The version of an open database; 0 = empty. */
function readSchemaVersion(db: Database): number {
  return Number(db.pragma('user_version', { simple: true }));
}

/**
 * Brings a database of any older version to SCHEMA_VERSION.
 * @returns the version it had
 */
export function migrate(db: Database): number {
  const found = readSchemaVersion(db);
  for (let version = found + 1; version <= SCHEMA_VERSION; version++) {
    const step = db.transaction(() => {
      db.exec(STEPS[version - 1] ?? '');
      db.prepare(
        `INSERT INTO meta (key, value) VALUES ('schema_version', :version)
        ON CONFLICT DO UPDATE SET value = excluded.value`,
      ).run({ version: String(version) });
      db.pragma(`user_version = ${version}`);
    });
    step.immediate();
  }
  // The header in the main file tells the version to an older program that must not touch the rest.
  if (found !== SCHEMA_VERSION) db.pragma('wal_checkpoint(TRUNCATE)');
  return found;
}
