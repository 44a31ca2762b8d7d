/** What is remembered of rows is what the rows say, whatever becomes of a transaction. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import Sqlite from 'better-sqlite3';
import { Recall } from '../../../src/state/recall.js';
import { Sql } from '../../../src/state/sqlite-sql.js';

describe('Recall', () => {
  it('holds the newest, up to its bound', () => {
    const recall = new Recall<number>(2);
    for (const [key, value] of [
      ['a', 1],
      ['b', 2],
      ['a', 3],
      ['c', 4],
    ] as const) {
      recall.set(key, value);
    }
    assert.deepEqual(
      ['a', 'b', 'c'].map((key) => recall.get(key)),
      [undefined, 2, 4],
    );
  });

  it('reads what it does not know, once', () => {
    const recall = new Recall<number>(2);
    let reads = 0;
    const read = (): number => ++reads;
    assert.deepEqual([recall.getOr('a', read), recall.getOr('a', read)], [1, 1]);
    recall.delete('a');
    assert.equal(recall.getOr('a', read), 2);
  });
});

describe('Sql', () => {
  let dir: string;
  let sql: Sql;
  let recall: Recall<string>;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'holdfast-recall-'));
    const db = new Sqlite(join(dir, 'x.db'));
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE rows (key TEXT PRIMARY KEY, value TEXT)');
    sql = new Sql(db);
    recall = sql.recall(10);
    put('old');
  });
  afterEach(() => {
    sql.db.close();
    rmSync(dir, { recursive: true });
  });

  function put(value: string): void {
    sql.transact(() => {
      write(value);
    });
  }

  function write(value: string): void {
    sql.put('rows', ['key'], { key: 'k', value });
    recall.set('k', value);
  }

  const fail = (): never => {
    throw new Error('on purpose');
  };

  it('keeps what was committed', () => {
    put('new');
    sql.transact(() => undefined);
    assert.equal(recall.get('k'), 'new');
  });

  it('forgets what is undone', () => {
    const undone = (): void => {
      sql.transact(() => {
        write('undone');
        fail();
      });
    };
    assert.throws(undone, /on purpose/);
    assert.equal(recall.get('k'), undefined);
  });

  it('forgets what is undone of a transaction that goes on', () => {
    sql.transact(() => {
      write('new');
      assert.throws(() => {
        sql.transact(() => {
          write('undone');
          fail();
        });
      }, /on purpose/);
      assert.equal(recall.get('k'), undefined);
    });
    assert.equal(sql.text('SELECT value FROM rows'), 'new');
  });

  it('forgets when another connection has written, and not when it has only read', () => {
    const other = new Sqlite(join(dir, 'x.db'));
    try {
      other.prepare('SELECT * FROM rows').all();
      sql.transact(() => undefined);
      assert.equal(recall.get('k'), 'old');
      other.exec(`UPDATE rows SET value = 'theirs'`);
      sql.transact(() => {
        assert.equal(recall.get('k'), undefined);
      });
    } finally {
      other.close();
    }
  });

  it('puts rows of other columns into the same table', () => {
    sql.put('rows', ['key'], { value: 'turned', key: 'k' });
    sql.put('rows', ['key'], { key: 'bare' });
    assert.deepEqual(sql.all('SELECT * FROM rows ORDER BY key'), [
      { key: 'bare', value: null },
      { key: 'k', value: 'turned' },
    ]);
  });
});
