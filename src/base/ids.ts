/** Owns the making and reading of ids. */
import { randomUUID } from 'node:crypto';

/** A new alloc, evaluation or node id. */
export function newUuid(): string {
  return randomUUID();
}

/** A new run id: 32 hex digits, one for each attempt to start a task. (Of random UUIDs Node keeps some in stock.) */
export function newRunId(): string {
  return randomUUID().replaceAll('-', '');
}

/** The first 8 hex digits, as people see an id. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** Fewest digits of an id prefix that a user may give (contract §1). */
export const SHORTEST_PREFIX = 4;
