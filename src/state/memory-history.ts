/** Owns what grows in memory and is trimmed from its old end: the events of tasks and the feed. */
import { decodeJson, encodeJson } from './json.js';
import { slackOf, type StoreLimits } from './limits.js';
import type { FeedBounds, FeedRow, StateStore, TaskEventRow } from './store.js';
import type { History } from './tables.js';
import type { UndoLog } from './undo-log.js';

/** A value and the bytes of its text form. */
export interface Sized<T> {
  readonly value: T;
  readonly bytes: number;
}

/** A frozen copy that shares nothing with `given`, made through the text form of the store. */
export function freezeCopy<T>(given: T): Sized<T> {
  const text = encodeJson(given);
  const value = decodeJson(text) as T;
  freezeDeep(value);
  return { value, bytes: Buffer.byteLength(text) };
}

function freezeDeep(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  Object.freeze(value);
  for (const inner of Object.values(value)) freezeDeep(inner);
}

interface EventRow extends Sized<TaskEventRow> {
  /** Order of storing, over all tasks. */
  readonly place: number;
}

/** Events and feed, both replaced in whole when they change, so that undoing is putting back. */
export class MemoryHistory implements History {
  readonly #undo: UndoLog;
  readonly #jobIdOf: (allocId: string) => string | undefined;
  readonly #events = new Map<string, readonly EventRow[]>();
  #nextPlace = 0;
  #feed: readonly Sized<FeedRow>[] = [];
  #index = 0;

  constructor(undo: UndoLog, jobIdOf: (allocId: string) => string | undefined) {
    this.#undo = undo;
    this.#jobIdOf = jobIdOf;
  }

  newestEventSeq(allocId: string, task: string): number {
    return this.#eventsOf(allocId, task).at(-1)?.value.seq ?? 0;
  }

  /** Sequence numbers have no gap, so what is not held was dropped. */
  countDroppedEvents(allocId: string, task: string): number {
    return this.newestEventSeq(allocId, task) - this.#eventsOf(allocId, task).length;
  }

  addEvent(event: TaskEventRow): void {
    const { value } = freezeCopy(event);
    const bytes = Buffer.byteLength(encodeJson(event.event));
    const events = [...this.#eventsOf(value.allocId, value.task), { value, bytes, place: this.#nextPlace++ }];
    this.#undo.set(this.#events, eventsKey(value.allocId, value.task), events);
  }

  trimEvents(allocId: string, task: string, limits: StoreLimits): void {
    const { eventsPerTask: most, eventBytesPerTask: mostBytes } = limits;
    const events = this.#eventsOf(allocId, task);
    const newest = events.at(-1);
    const oldest = events[0];
    if (newest === undefined || oldest === undefined) return;
    let held = sumBytes(events);
    const tooMany = newest.value.seq - oldest.value.seq + 1 > most;
    const tooLarge = held > mostBytes;
    const kept = events.filter((event) => {
      const old = tooMany && event.value.seq <= newest.value.seq - (most - slackOf(most));
      const large = tooLarge && held > mostBytes - slackOf(mostBytes);
      held -= event.bytes;
      return event === newest || !(old || large);
    });
    if (kept.length < events.length) this.#undo.set(this.#events, eventsKey(allocId, task), kept);
  }

  deleteEvents(allocId: string): void {
    for (const key of [...this.#events.keys()]) {
      if (key.startsWith(eventsKey(allocId, ''))) this.#undo.delete(this.#events, key);
    }
  }

  listTaskEvents(filter: Parameters<StateStore['listTaskEvents']>[0]): readonly TaskEventRow[] {
    const { allocId, jobId, task, sinceMs, afterSeq, limit } = filter;
    const found = [...this.#events.values()].flat().filter(({ value }) => {
      if (allocId !== undefined && value.allocId !== allocId) return false;
      if (jobId !== undefined && this.#jobIdOf(value.allocId) !== jobId) return false;
      if (task !== undefined && value.task !== task) return false;
      return value.atMs >= (sinceMs ?? -Infinity) && value.seq > (afterSeq ?? 0);
    });
    const rows = found.sort((a, b) => a.place - b.place).map(({ value }) => value);
    return limit === undefined ? rows : rows.slice(Math.max(0, rows.length - limit));
  }

  addFeedRow(given: FeedRow): void {
    const { value: payload, bytes } = freezeCopy(given.payload);
    const value = Object.freeze({ ...given, payload });
    this.#setFeed([...this.#feed, { value, bytes }], given.index);
  }

  trimFeed(limits: StoreLimits, nowMs: number): void {
    const drop = countRowsToDrop(this.#feed, limits, nowMs);
    if (drop > 0) this.#setFeed(this.#feed.slice(drop), this.#index);
  }

  index(): number {
    return this.#index;
  }

  feedBounds(): FeedBounds {
    return { oldest: this.#feed[0]?.value.index ?? this.#index + 1, newest: this.#index };
  }

  readFeed(afterIndex: number, limit: number): readonly FeedRow[] {
    const from = Math.max(0, afterIndex + 1 - this.feedBounds().oldest);
    return this.#feed.slice(from, from + limit).map(({ value }) => value);
  }

  #eventsOf(allocId: string, task: string): readonly EventRow[] {
    return this.#events.get(eventsKey(allocId, task)) ?? [];
  }

  #setFeed(rows: readonly Sized<FeedRow>[], index: number): void {
    const before = [this.#feed, this.#index] as const;
    this.#undo.note(() => {
      [this.#feed, this.#index] = before;
    });
    this.#feed = rows;
    this.#index = index;
  }
}

/** How many of the oldest rows the bounds no longer hold. */
function countRowsToDrop(rows: readonly Sized<FeedRow>[], limits: StoreLimits, nowMs: number): number {
  const { feedRows, feedAgeMs, feedBytes } = limits;
  const bornBefore = nowMs - feedAgeMs;
  const oldest = rows[0];
  let drop = 0;
  const tooOld = oldest !== undefined && oldest.value.atMs < bornBefore - slackOf(feedAgeMs);
  if (tooOld && rows.length > feedRows + slackOf(feedRows)) {
    while (drop < rows.length - feedRows && (rows[drop]?.value.atMs ?? nowMs) < bornBefore) drop += 1;
  }
  let held = sumBytes(rows.slice(drop));
  if (held <= feedBytes) return drop;
  while (drop < rows.length - 1 && held > feedBytes - slackOf(feedBytes)) held -= rows[drop++]?.bytes ?? 0;
  return drop;
}

function sumBytes(rows: readonly { readonly bytes: number }[]): number {
  return rows.reduce((sum, row) => sum + row.bytes, 0);
}

function eventsKey(allocId: string, task: string): string {
  return `${allocId}\n${task}`;
}
