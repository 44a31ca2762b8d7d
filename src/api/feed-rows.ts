/** Owns feed rows as they go out: each is put into words once, however many readers there are. */
import type { FeedRow } from '../state/store.js';
import { feedAllocToWire, NAMESPACE, type WireContext } from './alloc-to-wire.js';
import { feedJobToWire } from './job-to-wire.js';
import { deploymentToWire, evaluationToWire } from './scheduling-to-wire.js';
import { eventRowToWire } from './task-to-wire.js';
import { nodeSchedulingToWire } from './node-view.js';
import { parseNodeScheduling } from '../scheduler/drain.js';
import { msToNs, type FeedEvent, type FeedMessage } from './wire.js';

export interface EncodedRow {
  readonly index: number;
  readonly topic: string;
  /** By which a filter may find it. */
  readonly keys: readonly string[];
  /** The whole message. */
  readonly text: string;
}

export function encodeRow(row: FeedRow, context: WireContext): EncodedRow {
  const event = feedRowToWire(row, context);
  const message: FeedMessage = { Index: row.index, Events: [event] };
  return {
    index: row.index,
    topic: event.Topic,
    keys: [event.Key, ...event.FilterKeys],
    text: JSON.stringify(message),
  };
}

export function feedRowToWire(row: FeedRow, context: WireContext): FeedEvent {
  const { payload } = row;
  const base = { Key: row.key, Namespace: NAMESPACE, Index: row.index, Time: msToNs(row.atMs) };
  switch (payload.type) {
    case 'JobRegistered':
    case 'JobDeregistered':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [],
        Payload: { Job: feedJobToWire(payload.job, row.index) },
      };
    case 'JobPurged':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [],
        Payload: { Job: null, Deleted: true },
      };
    case 'AllocationUpdated':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.alloc.jobId],
        Payload: { Allocation: feedAllocToWire(payload.alloc, payload.tasks, row.index, context) },
      };
    case 'AllocationPurged':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.jobId],
        Payload: { Allocation: null, Deleted: true },
      };
    case 'NodeSchedulingUpdated':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [],
        Payload: { Node: nodeSchedulingToWire(parseNodeScheduling(payload.scheduling)) },
      };
    case 'TaskEvent':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.jobId, payload.event.allocId],
        Payload: { TaskEvent: eventRowToWire(payload.event, payload.jobId) },
      };
    case 'DeploymentStatusUpdate':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.deployment.jobId],
        Payload: { Deployment: deploymentToWire(payload.deployment, at(row.index)) },
      };
    case 'EvaluationUpdated':
      return {
        ...base,
        Topic: payload.topic,
        Type: payload.type,
        FilterKeys: [payload.evaluation.jobId],
        Payload: { Evaluation: evaluationToWire(payload.evaluation, at(row.index)) },
      };
  }
}

/** A row tells what was at its index; when the thing was made is not in it. */
function at(index: number): { readonly createIndex: number; readonly modifyIndex: number } {
  return { createIndex: index, modifyIndex: index };
}

/** The newest rows, without a gap. */
export class RecentRows {
  readonly #limit: number;
  readonly #rows: EncodedRow[] = [];
  /** Everything after this index is in `#rows`. */
  #floor: number;
  #newest: number;

  /** @param index of the newest row before the first one pushed */
  constructor(index: number, limit: number) {
    this.#floor = index;
    this.#newest = index;
    this.#limit = limit;
  }

  push(rows: readonly FeedRow[], context: WireContext): void {
    for (const row of rows) {
      this.#rows.push(encodeRow(row, context));
      this.#newest = row.index;
    }
    // Half of them at once, so that dropping costs little.
    if (this.#rows.length <= this.#limit) return;
    const dropped = this.#rows.splice(0, this.#rows.length - Math.ceil(this.#limit / 2));
    this.#floor = dropped.at(-1)?.index ?? this.#floor;
  }

  /** Notes rows without keeping them, or any older ones. */
  skip(rows: readonly FeedRow[]): void {
    this.#newest = rows.at(-1)?.index ?? this.#newest;
    this.#floor = this.#newest;
    this.#rows.length = 0;
  }

  newest(): number {
    return this.#newest;
  }

  /** Rows after `index`; undefined when some of them are not here any more. */
  after(index: number): readonly EncodedRow[] | undefined {
    if (index < this.#floor) return undefined;
    if (index >= this.#newest) return [];
    let low = 0;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#rows[middle]?.index ?? 0) > index) high = middle;
      else low = middle + 1;
    }
    return this.#rows.slice(low);
  }
}
