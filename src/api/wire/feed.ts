/** Owns the messages of the feed. */
import type { FeedAllocation } from './alloc.js';
import type { Deployment } from './deployment.js';
import type { Evaluation } from './evaluation.js';
import type { FeedJob } from './job.js';
import type { Node, NodeSchedulingJson } from './node.js';
import type { TaskEventRow } from './run.js';
import type { TaskResourceUsage } from './usage.js';

export const FEED_TOPICS = [
  'Job',
  'Allocation',
  'TaskEvent',
  'Evaluation',
  'Deployment',
  'Node',
  'Stats',
] as const;

interface FeedEventBase {
  /** Job id, alloc id, or `<alloc>/<task>`. */
  readonly Key: string;
  /** Other keys by which a filter finds it: the job id. */
  readonly FilterKeys: readonly string[];
  readonly Namespace: string;
  readonly Index: number;
  /** Nanoseconds since 1970. */
  readonly Time: number;
}

export type FeedEvent = FeedEventBase &
  (
    | {
        readonly Topic: 'Job';
        readonly Type: 'JobRegistered' | 'JobDeregistered';
        readonly Payload: { readonly Job: FeedJob };
      }
    | {
        readonly Topic: 'Job';
        readonly Type: 'JobPurged';
        readonly Payload: { readonly Job: null; readonly Deleted: true };
      }
    | {
        readonly Topic: 'Allocation';
        readonly Type: 'AllocationUpdated';
        readonly Payload: { readonly Allocation: FeedAllocation };
      }
    | {
        readonly Topic: 'Allocation';
        readonly Type: 'AllocationPurged';
        readonly Payload: { readonly Allocation: null; readonly Deleted: true };
      }
    | {
        readonly Topic: 'Node';
        readonly Type: 'NodeSchedulingUpdated';
        /** What has changed of the node; all of it: GET /v1/node/:id. */
        readonly Payload: { readonly Node: NodeSchedulingJson };
      }
    | {
        readonly Topic: 'TaskEvent';
        readonly Type: 'TaskEvent';
        readonly Payload: { readonly TaskEvent: TaskEventRow };
      }
    | {
        readonly Topic: 'Stats';
        readonly Type: 'TaskUsage';
        readonly Payload: { readonly Stats: TaskResourceUsage };
      }
    | {
        readonly Topic: 'Deployment';
        readonly Type: 'DeploymentStatusUpdate';
        readonly Payload: { readonly Deployment: Deployment };
      }
    | {
        readonly Topic: 'Evaluation';
        readonly Type: 'EvaluationUpdated';
        readonly Payload: { readonly Evaluation: Evaluation };
      }
  );

/** What is true now and not kept: told only to those who name its topic, at the index where they are. */
export type PassingEvent = Omit<Extract<FeedEvent, { readonly Topic: 'Stats' }>, 'Index'>;

export interface FeedSnapshot {
  readonly Node: Node;
  readonly Jobs: readonly FeedJob[];
  readonly Allocations: readonly FeedAllocation[];
  /** Oldest first. */
  readonly Deployments: readonly Deployment[];
}

/** One message of the feed; `{}` is a heartbeat. Tell them apart by the key that is there. */
export type FeedMessage =
  | {
      readonly Index: number;
      readonly Events: readonly FeedEvent[];
    }
  | { readonly Index: number; readonly Snapshot: FeedSnapshot }
  | { readonly Index: number; readonly Lost: { readonly From: number; readonly To: number } }
  | Readonly<Record<string, never>>;
