/**
 * Owns the SQL of what grows and is trimmed from its old end: task events and the feed. Each row carries the bytes of
 * all rows before it, so what is held is a difference of two rows and no counter can go wrong.
 */
import { encodeJson } from './json.js';
import { slackOf, type StoreLimits } from './limits.js';
import type { Quarantine } from './quarantine.js';
import type { Recall } from './recall.js';
import { Row } from './row.js';
import { decodeEvent, decodeFeedRow } from './rows.js';
import type { Sql } from './sqlite-sql.js';
import type { FeedBounds, FeedRow, StateStore, TaskEventRow } from './store.js';
import type { History } from './tables.js';

const OF_TASK = 'alloc_id = :allocId AND task = :task';
const EVENT_END = `SELECT seq AS number, at_ms, bytes, total_bytes FROM task_events WHERE ${OF_TASK} ORDER BY seq`;
const OLDEST_EVENT = `${EVENT_END} ASC LIMIT 1`;
const NEWEST_EVENT = `${EVENT_END} DESC LIMIT 1`;
const FEED_END = 'SELECT "index" AS number, at_ms, bytes, total_bytes FROM feed ORDER BY "index"';
const OLDEST_FEED_ROW = `${FEED_END} ASC LIMIT 1`;
const NEWEST_FEED_ROW = `${FEED_END} DESC LIMIT 1`;

/** Allocs of which it is remembered where the events of their tasks end. */
const MOST_ALLOCS = 1_000;
const FEED = 'feed';

/** One end of a history. */
interface End {
  /** seq or index. */
  readonly number: number;
  readonly atMs: number;
  readonly bytes: number;
  /** Bytes of this and all rows before it. */
  readonly totalBytes: number;
}

/** Where a history ends; one without rows has no ends. */
interface Ends {
  oldest: End | undefined;
  newest: End | undefined;
}

export class SqliteHistory implements History {
  readonly #sql: Sql;
  readonly #quarantine: Quarantine;
  /** By alloc and task. */
  readonly #eventEnds: Recall<Map<string, Ends>>;
  readonly #feedEnds: Recall<Ends>;
  readonly #newestIndex: Recall<number>;

  constructor(sql: Sql, quarantine: Quarantine) {
    this.#sql = sql;
    this.#quarantine = quarantine;
    this.#eventEnds = sql.recall(MOST_ALLOCS);
    this.#feedEnds = sql.recall(1);
    this.#newestIndex = sql.recall(1);
  }

  newestEventSeq(allocId: string, task: string): number {
    return this.#endsOf(allocId, task).newest?.number ?? 0;
  }

  /** Sequence numbers have no gap, so what is not held was dropped. */
  countDroppedEvents(allocId: string, task: string): number {
    const owner = { allocId, task };
    const held = this.#sql.number(`SELECT COUNT(*) FROM task_events WHERE ${OF_TASK}`, owner);
    return (asEnd(this.#sql.get(NEWEST_EVENT, owner))?.number ?? 0) - (held ?? 0);
  }

  addEvent({ allocId, task, seq, atMs, event }: TaskEventRow): void {
    const text = encodeJson(event);
    const bytes = Buffer.byteLength(text);
    const ends = this.#endsOf(allocId, task);
    const totalBytes = (ends.newest?.totalBytes ?? 0) + bytes;
    this.#sql.run(
      `INSERT INTO task_events (alloc_id, task, seq, at_ms, type, event, bytes, total_bytes)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      [allocId, task, seq, atMs, event.type, text, bytes, totalBytes],
    );
    lengthen(ends, { number: seq, atMs, bytes, totalBytes });
  }

  trimEvents(allocId: string, task: string, limits: StoreLimits): void {
    const { eventsPerTask: most, eventBytesPerTask: mostBytes } = limits;
    const { newest, oldest } = this.#endsOf(allocId, task);
    if (newest === undefined || oldest === undefined) return;
    const owner = { allocId, task, newest: newest.number };
    if (newest.number - oldest.number + 1 > most) {
      const last = newest.number - (most - slackOf(most));
      this.#sql.run(`DELETE FROM task_events WHERE ${OF_TASK} AND seq <= :last AND seq < :newest`, {
        ...owner,
        last,
      });
      this.#eventEnds.delete(allocId);
    }
    if (heldBytes(oldest, newest) > mostBytes) {
      const start = newest.totalBytes - (mostBytes - slackOf(mostBytes));
      this.#sql.run(
        `DELETE FROM task_events WHERE ${OF_TASK} AND total_bytes - bytes < :start AND seq < :newest`,
        { ...owner, start },
      );
      this.#eventEnds.delete(allocId);
    }
  }

  deleteEvents(allocId: string): void {
    this.#eventEnds.delete(allocId);
    this.#sql.run('DELETE FROM task_events WHERE alloc_id = ?', [allocId]);
  }

  listTaskEvents(filter: Parameters<StateStore['listTaskEvents']>[0]): readonly TaskEventRow[] {
    const { limit, ...bound } = filter;
    const conditions = [
      bound.allocId === undefined ? '' : 'alloc_id = :allocId',
      bound.jobId === undefined ? '' : 'alloc_id IN (SELECT alloc_id FROM allocs WHERE job_id = :jobId)',
      bound.task === undefined ? '' : 'task = :task',
      bound.sinceMs === undefined ? '' : 'at_ms >= :sinceMs',
      bound.afterSeq === undefined ? '' : 'seq > :afterSeq',
    ].filter((condition) => condition !== '');
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    // Within one task the order of numbers is that of storing, and has an index.
    const order = bound.allocId === undefined || bound.task === undefined ? 'place' : 'seq';
    const text = `SELECT * FROM task_events ${where} ORDER BY ${order} DESC LIMIT :limit`;
    const found = this.#sql.all(text, { ...bound, limit: limit ?? -1 });
    return this.#quarantine.decode('task_events', found, decodeEvent).toReversed();
  }

  addFeedRow({ index, atMs, key, payload }: FeedRow): void {
    const { topic, type } = payload;
    const text = encodeJson(payload);
    const bytes = Buffer.byteLength(text);
    const ends = this.#endsOfFeed();
    const totalBytes = (ends.newest?.totalBytes ?? 0) + bytes;
    this.#sql.run(
      `INSERT INTO feed ("index", at_ms, topic, type, key, payload, bytes, total_bytes)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      [index, atMs, topic, type, key, text, bytes, totalBytes],
    );
    lengthen(ends, { number: index, atMs, bytes, totalBytes });
    this.#newestIndex.set(FEED, index);
  }

  trimFeed(limits: StoreLimits, nowMs: number): void {
    this.#trimOldFeedRows(limits, nowMs);
    const { newest, oldest } = this.#endsOfFeed();
    if (newest === undefined || oldest === undefined) return;
    if (heldBytes(oldest, newest) <= limits.feedBytes) return;
    const start = newest.totalBytes - (limits.feedBytes - slackOf(limits.feedBytes));
    const text = 'DELETE FROM feed WHERE total_bytes - bytes < :start AND "index" < :newest';
    this.#sql.run(text, { start, newest: newest.number });
    this.#feedEnds.clear();
  }

  /** The index of the newest row ever made, also when it is long gone. */
  index(): number {
    const read = (): number => this.#sql.number(`SELECT seq FROM sqlite_sequence WHERE name = 'feed'`) ?? 0;
    return this.#sql.db.inTransaction ? this.#newestIndex.getOr(FEED, read) : read();
  }

  feedBounds(): FeedBounds {
    const newest = this.index();
    return { oldest: asEnd(this.#sql.get(OLDEST_FEED_ROW))?.number ?? newest + 1, newest };
  }

  readFeed(afterIndex: number, limit: number): readonly FeedRow[] {
    const text = 'SELECT * FROM feed WHERE "index" > :afterIndex ORDER BY "index" LIMIT :limit';
    for (;;) {
      const found = this.#sql.all(text, { afterIndex, limit });
      const rows = this.#quarantine.decode('feed', found, decodeFeedRow);
      // Only bad ones: they are gone now, and nothing at all would read as the end of the feed.
      if (rows.length > 0 || found.length === 0) return rows;
      afterIndex = new Row(found.at(-1)).number('index');
    }
  }

  #trimOldFeedRows({ feedRows, feedAgeMs }: StoreLimits, nowMs: number): void {
    const { newest, oldest } = this.#endsOfFeed();
    if (newest === undefined || oldest === undefined) return;
    const bornBefore = nowMs - feedAgeMs;
    if (newest.number - oldest.number + 1 <= feedRows + slackOf(feedRows)) return;
    if (oldest.atMs >= bornBefore - slackOf(feedAgeMs)) return;
    const last = newest.number - feedRows;
    // Only from the old end: a clock that was set back must not tear a hole.
    const text =
      'SELECT "index" FROM feed WHERE "index" <= :last AND at_ms >= :bornBefore ORDER BY "index" LIMIT 1';
    const young = this.#sql.number(text, { last, bornBefore });
    this.#sql.run('DELETE FROM feed WHERE "index" < :end', { end: young ?? last + 1 });
    this.#feedEnds.clear();
  }

  #endsOf(allocId: string, task: string): Ends {
    const ofAlloc = this.#eventEnds.getOr(allocId, () => new Map<string, Ends>());
    const known = ofAlloc.get(task);
    if (known !== undefined) return known;
    const owner = { allocId, task };
    const ends = {
      oldest: asEnd(this.#sql.get(OLDEST_EVENT, owner)),
      newest: asEnd(this.#sql.get(NEWEST_EVENT, owner)),
    };
    ofAlloc.set(task, ends);
    return ends;
  }

  #endsOfFeed(): Ends {
    return this.#feedEnds.getOr(FEED, () => ({
      oldest: asEnd(this.#sql.get(OLDEST_FEED_ROW)),
      newest: asEnd(this.#sql.get(NEWEST_FEED_ROW)),
    }));
  }
}

/** Notes that a row was added. */
function lengthen(ends: Ends, added: End): void {
  ends.newest = added;
  ends.oldest ??= added;
}

/** A damaged size counts as nothing: the bound is then a little off, and nothing fails. */
function asEnd(columns: unknown): End | undefined {
  if (columns === undefined) return undefined;
  const row = new Row(columns);
  const number = (name: string): number => {
    try {
      return row.number(name);
    } catch {
      return 0;
    }
  };
  return {
    number: number('number'),
    atMs: number('at_ms'),
    bytes: number('bytes'),
    totalBytes: number('total_bytes'),
  };
}

function heldBytes(oldest: End, newest: End): number {
  return newest.totalBytes - oldest.totalBytes + oldest.bytes;
}
