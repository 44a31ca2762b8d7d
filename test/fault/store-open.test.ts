/** What a store does with a file that is not as it should be: it changes nothing and says what to do, or it copes. */
import assert from 'node:assert/strict';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  copyFileSync,
} from 'node:fs';
import { afterEach, describe, it } from 'node:test';
import Sqlite from 'better-sqlite3';
import { AgentError, type ErrorCode } from '../../src/base/errors.js';
import type { Logger } from '../../src/base/log.js';
import { silentLogger } from '../../src/base/log.js';
import { SCHEMA_VERSION } from '../../src/state/migrations.js';
import type { FeedRow, StateStore } from '../../src/state/store.js';
import { addEvent, putAlloc, putHook, putJob, putRun, putTask } from '../helpers/records.js';
import { imageOf } from '../helpers/store-image.js';
import { StoreOnDisk } from '../helpers/stores.js';

describe('a store that is opened', () => {
  const disks: StoreOnDisk[] = [];
  const newDisk = (): StoreOnDisk => {
    const disk = new StoreOnDisk();
    disks.push(disk);
    return disk;
  };
  afterEach(async () => {
    await Promise.all(disks.splice(0).map((disk) => disk.remove()));
  });

  /** A closed store with something of everything in it. */
  async function filled(): Promise<StoreOnDisk> {
    const disk = newDisk();
    const store = disk.open();
    for (const id of ['a1', 'a2']) {
      await store.commit([
        putJob(),
        putAlloc({ id }),
        putTask({ allocId: id }),
        putRun({ allocId: id, runId: `r-${id}` }),
        putHook({ allocId: id }),
        addEvent(1, undefined, id),
        addEvent(2, undefined, id),
      ]);
    }
    await store.close();
    return disk;
  }

  function sql(disk: StoreOnDisk, text: string): void {
    const db = new Sqlite(disk.path);
    db.exec(text);
    db.close();
  }

  /** Opening fails with `code`, says `hint`, and leaves the folder byte for byte as it was. */
  function assertRefused(disk: StoreOnDisk, code: ErrorCode, hint: RegExp): void {
    const files = (): string[] =>
      readdirSync(disk.dir)
        .filter((name) => !name.endsWith('.lock'))
        .sort();
    const before = files().map((name) => [name, readFileSync(`${disk.dir}/${name}`).toString('hex')]);
    assert.throws(
      () => disk.open(),
      (error) => error instanceof AgentError && error.code === code && hint.test(error.message),
    );
    const after = files().map((name) => [name, readFileSync(`${disk.dir}/${name}`).toString('hex')]);
    assert.deepEqual(after, before);
  }

  it('makes its folder, and takes an empty file for a new store', async () => {
    const disk = newDisk();
    writeFileSync(disk.path, '');
    assert.deepEqual(disk.open().listJobs(), []);
    const deep = newDisk();
    mkdirSync(`${deep.dir}/x`);
    assert.equal(statSync(disk.path).mode & 0o777, 0o600);
    await disk.remove();
  });

  it('is the same after closing, and after dying with everything in the log', async () => {
    const disk = newDisk();
    const store = disk.open();
    await store.commit([putJob(), putAlloc(), putTask(), putRun(), addEvent(1)]);
    const image = imageOf(store);
    const copy = newDisk();
    for (const suffix of ['', '-wal']) copyFileSync(disk.path + suffix, copy.path + suffix);
    assert.deepEqual(imageOf(copy.open()), image);
    await store.close();
    assert.deepEqual(imageOf(disk.open()), image);
  });

  it('loses only the end when its log is cut short', async () => {
    const disk = newDisk();
    const store = disk.open();
    await store.commit([putJob(), putAlloc(), putTask()]);
    const whole = statSync(`${disk.path}-wal`).size;
    await store.commit([addEvent(1)]);
    const copy = newDisk();
    for (const suffix of ['', '-wal']) copyFileSync(disk.path + suffix, copy.path + suffix);
    truncateSync(`${copy.path}-wal`, whole + 100);
    const reopened = copy.open();
    assert.deepEqual(reopened.listTaskEvents({}), []);
    assert.equal(reopened.listTasks('a1').length, 1);
    assert.equal(await reopened.commit([addEvent(1)]), 'stored');
  });

  const strangers: Readonly<Record<string, Buffer | string>> = {
    text: 'this is no database\n'.repeat(100),
    noise: Buffer.from(Array.from({ length: 8192 }, (_, n) => (n * 131 + 7) % 256)),
    'a header and nothing else': 'SQLite format 3\0',
  };
  for (const [name, content] of Object.entries(strangers)) {
    it(`refuses ${name} and leaves it alone`, () => {
      const disk = newDisk();
      writeFileSync(disk.path, content, { mode: 0o600 });
      assertRefused(disk, 'store_corrupt', /move it aside/);
    });
  }

  it('refuses a database that was cut short or has a page of noise in it', async () => {
    for (const damage of [
      (path: string) => {
        truncateSync(path, 5 * 4096);
      },
      (path: string) => {
        const bytes = readFileSync(path);
        writeFileSync(path, bytes.fill(0xa5, 4 * 4096, 6 * 4096));
      },
    ]) {
      const disk = await filled();
      damage(disk.path);
      assertRefused(disk, 'store_corrupt', /move it aside/);
    }
  });

  it('refuses a newer schema and leaves it alone, also when only the log knows', async () => {
    const disk = await filled();
    sql(disk, `UPDATE meta SET value = '${SCHEMA_VERSION + 1}' WHERE key = 'schema_version'`);
    assertRefused(disk, 'schema_too_new', /newer holdfast.*start that version/);
    const header = await filled();
    sql(header, `PRAGMA user_version = ${SCHEMA_VERSION + 7}`);
    assertRefused(header, 'schema_too_new', new RegExp(`schema ${SCHEMA_VERSION + 7}`));

    const live = await filled();
    const copy = newDisk();
    const db = new Sqlite(live.path);
    db.pragma(`user_version = ${SCHEMA_VERSION + 1}`);
    for (const suffix of ['', '-wal']) copyFileSync(live.path + suffix, copy.path + suffix);
    db.close();
    assert.ok(statSync(`${copy.path}-wal`).size > 0);
    assertRefused(copy, 'schema_too_new', /newer holdfast/);
  });

  it('moves rows that it cannot read to quarantine, says so, and opens', async () => {
    const disk = await filled();
    sql(
      disk,
      `UPDATE jobs SET spec = '{"id":"web"';
       UPDATE job_versions SET version = 'two';
       UPDATE allocs SET client_status = 'fine' WHERE alloc_id = 'a2';
       UPDATE tasks SET recent_events = '[7]', run_id = x'00ff' WHERE alloc_id = 'a1';
       UPDATE runs SET handle = '{"workload":{"pid":4711}}' WHERE run_id = 'r-a1';
       UPDATE hook_state SET done = 2 WHERE alloc_id = 'a1';
       UPDATE task_events SET event = '?' WHERE alloc_id = 'a1' AND seq = 1;
       UPDATE feed SET payload = '[]' WHERE "index" = 2`,
    );
    const said: string[] = [];
    const note = (fields: object): void => {
      if ('table' in fields) said.push(String(fields.table));
    };
    const logger: Logger = { ...silentLogger, error: note };
    const store = disk.open({ logger });
    const tables = ['jobs', 'job_versions', 'allocs', 'tasks', 'runs', 'hook_state'];
    assert.deepEqual(said, tables);
    const keys = store.listQuarantined().map(({ table, key }) => [table, key]);
    assert.deepEqual(keys.slice(2), [
      ['allocs', 'a2'],
      ['tasks', 'a1/server'],
      ['runs', 'r-a1'],
      ['hook_state', 'a1/server/task_dir'],
    ]);
    const [run] = store.listQuarantined().filter(({ table }) => table === 'runs');
    assert.match(run?.error ?? '', /driver state/);
    assert.match(run?.raw ?? '', /4711/, 'its processes can be found');
    assert.equal(store.listTasks('a2').length, 1, 'what belongs to a bad alloc stays');
    assert.deepEqual(store.listTasks('a1'), []);
    assert.equal(store.getRun('r-a1'), undefined);
    assert.equal(store.getJob('web'), undefined);
    assert.equal(await store.commit([putAlloc({ clientStatus: 'lost' }), putTask(), putJob()]), 'stored');

    const events = store.listTaskEvents({ allocId: 'a1' }).map(({ seq }) => seq);
    assert.deepEqual(events, [2]);
    const feed = store.readFeed(0, 3).map(({ index }) => index);
    assert.deepEqual(feed, [1, 3], 'history is checked when it is read');
    assert.deepEqual(
      store.readFeed(1, 1).map(({ index }) => index),
      [3],
    );
    assert.deepEqual(said.slice(6), ['task_events', 'feed']);
    await store.close();
    assert.equal(disk.open().listQuarantined().length, 8);
  });

  it('copes with a row that goes bad while it runs', async () => {
    const disk = await filled();
    const store: StateStore = disk.open();
    sql(disk, `UPDATE tasks SET phase = 'dancing' WHERE alloc_id = 'a1'`);
    assert.equal(store.getTask('a1', 'server'), undefined);
    const [row] = store.listQuarantined();
    assert.deepEqual([row?.table, row?.key], ['tasks', 'a1/server']);
    assert.match(row?.error ?? '', /column phase holds "dancing"/);
    sql(disk, `UPDATE tasks SET phase = 'dancing' WHERE alloc_id = 'a2'`);
    assert.equal(await store.commit([putAlloc({ id: 'a2', clientStatus: 'running' })]), 'stored');
    assert.equal(store.listQuarantined().length, 2, 'also when it is met in the middle of a commit');
  });

  it('believes the disk and not its memory when another program has written', async () => {
    const disk = await filled();
    const store = disk.open();
    const told: FeedRow[] = [];
    store.onCommitted((rows) => told.push(...rows));
    await store.commit([putTask(), addEvent(3), putTask({ allocId: 'a2' })]);
    sql(
      disk,
      `UPDATE tasks SET phase = 'dancing' WHERE alloc_id = 'a1';
       UPDATE allocs SET client_description = 'by hand' WHERE alloc_id = 'a2';
       DELETE FROM task_events WHERE alloc_id = 'a1'; DELETE FROM feed`,
    );
    told.length = 0;
    await store.commit([putAlloc({ clientStatus: 'running' }), addEvent(1), putTask({ allocId: 'a2' })]);
    assert.deepEqual(
      store.listQuarantined().map(({ key }) => key),
      ['a1/server'],
    );
    const [first, , second] = told.map(({ payload }) => payload);
    assert.ok(first?.type === 'AllocationUpdated' && second?.type === 'AllocationUpdated');
    assert.deepEqual(first.tasks, []);
    assert.equal(second.alloc.clientDescription, 'by hand');
    assert.deepEqual(store.readFeed(0, 10), told);
  });
});
