/** Owns feed rows as they go out: each is put into words once, however many readers there are. */
import type { FeedRow } from '../state/store.js';
import { feedAllocToWire, NAMESPACE, type WireContext } from './alloc-to-wire.js';
import { FeedText } from './feed-text.js';
import { feedJobToWire } from './job-to-wire.js';
import { evaluationToWire, feedDeploymentToWire } from './scheduling-to-wire.js';
import { eventRowToWire } from './task-to-wire.js';
import { nodeSchedulingToWire } from './node-view.js';
import { parseNodeScheduling } from '../scheduler/drain.js';
import { msToNs, type FeedEvent, type FeedMessage } from './wire.js';

/** A row in words. */
export class EncodedRow extends FeedText {
  readonly index: number;
  readonly topic: string;
  /** By which a filter may find it. */
  readonly keys: readonly string[];

  constructor(event: FeedEvent) {
    const message: FeedMessage = { Index: event.Index, Events: [event] };
    super(JSON.stringify(message));
    this.index = event.Index;
    this.topic = event.Topic;
    this.keys = [event.Key, ...event.FilterKeys];
  }
}

export function encodeRow(row: FeedRow, context: WireContext): EncodedRow {
  return new EncodedRow(feedRowToWire(row, context));
}

function feedRowToWire(row: FeedRow, context: WireContext): FeedEvent {
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
        Payload: { Deployment: feedDeploymentToWire(payload.deployment, row.index) },
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
