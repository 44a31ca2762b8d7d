/** A row that is put again: what is in it then, and that no index is written for what stayed the same. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import Sqlite from 'better-sqlite3';
import { silentLogger } from '../../../src/base/log.js';
import { migrate } from '../../../src/state/migrations.js';
import { Quarantine } from '../../../src/state/quarantine.js';
import { SqliteRecords } from '../../../src/state/sqlite-records.js';
import { SqliteScheduling } from '../../../src/state/sqlite-scheduling.js';
import { Sql } from '../../../src/state/sqlite-sql.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import {
  allocRecord,
  deploymentRecord,
  evaluationRecord,
  hookRecord,
  jobRecord,
  runRecord,
  taskRecord,
} from '../../helpers/records.js';

describe('a row that is put again', () => {
  let sql: Sql;
  beforeEach(() => {
    sql = new Sql(new Sqlite(':memory:'));
  });
  afterEach(() => {
    sql.db.close();
  });

  for (const [name, from, to] of [
    ['the same', 'a', 'a'],
    ['another', 'a', 'b'],
    ['none any more', 'a', null],
    ['one at last', null, 'a'],
    ['none as before', null, null],
  ] as const) {
    it(`has all that was put when its settled column is ${name}`, () => {
      sql.db.exec('CREATE TABLE owned (key TEXT PRIMARY KEY, owner TEXT, value TEXT)');
      sql.db.exec('CREATE INDEX owned_by ON owned (owner)');
      const put = (owner: string | null, value: string): void => {
        sql.put('owned', ['key'], { key: 'k', owner, value }, ['owner']);
      };
      put('before', 'new');
      put(from, 'old');
      put(to, 'changed');
      assert.deepEqual(sql.all('SELECT * FROM owned'), [{ key: 'k', owner: to, value: 'changed' }]);
      assert.deepEqual(sql.all('SELECT key FROM owned WHERE owner IS ?', [to]), [{ key: 'k' }]);
    });
  }

  it('writes no index of any table', () => {
    const { db } = sql;
    migrate(db);
    const texts: string[] = [];
    const prepare = db.prepare.bind(db);
    db.prepare = (text: string) => {
      texts.push(text);
      return prepare(text);
    };
    const quarantine = new Quarantine(sql, new FakeClock(), silentLogger);
    const records = new SqliteRecords(sql, quarantine);
    const scheduling = new SqliteScheduling(sql, quarantine);
    records.putJob(jobRecord());
    records.putAlloc(allocRecord());
    records.putTask(taskRecord());
    records.putRun(runRecord());
    records.putHook(hookRecord());
    records.putHost('key', 'value');
    scheduling.putDeployment(deploymentRecord());
    scheduling.putEvaluation(evaluationRecord());
    const writesIndex = (text: string): boolean => {
      const bound = text.match(/\?/g)?.map(() => null) ?? [];
      const steps = prepare(`EXPLAIN ${text}`).all(...bound) as { readonly opcode: string }[];
      return steps.some(({ opcode }) => opcode === 'IdxDelete');
    };
    const tableOf = (text: string): string => /INTO (\w+)/.exec(text)?.[1] ?? '';
    // The first text of a table is the one for what is usual.
    const usual = new Map(
      texts
        .filter((text) => text.includes('ON CONFLICT'))
        .reverse()
        .map((text) => [tableOf(text), text]),
    );
    assert.deepEqual([...usual.keys()].sort(), [
      'allocs',
      'deployments',
      'evaluations',
      'hook_state',
      'host',
      'job_versions',
      'jobs',
      'runs',
      'tasks',
    ]);
    assert.deepEqual(
      [...usual].filter(([, text]) => writesIndex(text)).map(([table]) => table),
      [],
    );
    // That it can be seen: for a run that is another task's one is written.
    assert.ok(texts.filter((text) => tableOf(text) === 'runs').some(writesIndex));
  });
});
