/** Owns what grows in memory and is trimmed from its old end: the events of tasks and the feed. */
import { decodeJson, encodeJson } from './json.js';
import { slackOf, type StoreLimits } from './limits.js';
import type { FeedBounds, FeedRow, TaskEventRow } from './store.js';
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

/** The events of all tasks. */
export class MemoryEvents {
  readonly #undo: UndoLog;
  readonly #byTask = new Map<string, readonly EventRow[]>();
  #nextPlace = 0;

  constructor(undo: UndoLog) {
    this.#undo = undo;
  }

  newestSeq(allocId: string, task: string): number {
    return this.#of(allocId, task).at(-1)?.value.seq ?? 0;
  }

  /** Sequence numbers have no gap, so what is not held was dropped. */
  countDropped(allocId: string, task: string): number {
    return this.newestSeq(allocId, task) - this.#of(allocId, task).length;
  }

  add(event: TaskEventRow): void {
    const { value } = freezeCopy(event);
    const bytes = Buffer.byteLength(encodeJson(event.event));
    const events = [...this.#of(value.allocId, value.task), { value, bytes, place: this.#nextPlace++ }];
    this.#undo.set(this.#byTask, keyOf(value.allocId, value.task), events);
  }

  trim(allocId: string, task: string, limits: StoreLimits): void {
    const { eventsPerTask: most, eventBytesPerTask: mostBytes } = limits;
    const events = this.#of(allocId, task);
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
    if (kept.length < events.length) this.#undo.set(this.#byTask, keyOf(allocId, task), kept);
  }

  deleteAlloc(allocId: string): void {
    for (const key of [...this.#byTask.keys()]) {
      if (key.startsWith(keyOf(allocId, ''))) this.#undo.delete(this.#byTask, key);
    }
  }

  /** In the order they were stored. */
  list(matches: (row: TaskEventRow) => boolean): readonly TaskEventRow[] {
    const events = [...this.#byTask.values()].flat().filter(({ value }) => matches(value));
    return events.sort((a, b) => a.place - b.place).map(({ value }) => value);
  }

  #of(allocId: string, task: string): readonly EventRow[] {
    return this.#byTask.get(keyOf(allocId, task)) ?? [];
  }
}

/** The feed: numbered rows without a hole. */
export class MemoryFeed {
  readonly #undo: UndoLog;
  #rows: readonly Sized<FeedRow>[] = [];
  #newest = 0;

  constructor(undo: UndoLog) {
    this.#undo = undo;
  }

  bounds(): FeedBounds {
    return { oldest: this.#rows[0]?.value.index ?? this.#newest + 1, newest: this.#newest };
  }

  add(given: FeedRow): void {
    const { value: payload, bytes } = freezeCopy(given.payload);
    const value = Object.freeze({ ...given, payload });
    this.#replace([...this.#rows, { value, bytes }], given.index);
  }

  read(afterIndex: number, limit: number): readonly FeedRow[] {
    const from = Math.max(0, afterIndex + 1 - this.bounds().oldest);
    return this.#rows.slice(from, from + limit).map(({ value }) => value);
  }

  trim(limits: StoreLimits, nowMs: number): void {
    const drop = countRowsToDrop(this.#rows, limits, nowMs);
    if (drop > 0) this.#replace(this.#rows.slice(drop), this.#newest);
  }

  #replace(rows: readonly Sized<FeedRow>[], newest: number): void {
    const before = [this.#rows, this.#newest] as const;
    this.#undo.note(() => {
      [this.#rows, this.#newest] = before;
    });
    this.#rows = rows;
    this.#newest = newest;
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

function keyOf(allocId: string, task: string): string {
  return `${allocId}\n${task}`;
}
