/**
 * Owns what a launch of a periodic or parameterized job is: a job of its own, made from its parent. Pure; also when a
 * periodic job is due, from what is remembered of its last launch.
 */
import { AgentError } from '../base/errors.js';
import { nextDueMs } from '../jobspec/cron.js';
import type { Job, PeriodicSpec } from '../jobspec/types.js';
import type { JobRecord } from '../state/store.js';

/** As Nomad. */
const MOST_PAYLOAD_BYTES = 16 * 1024;

/**
 * A clock that was set back by more is taken for right now, and the rhythm begins anew; for less, nothing is launched
 * until it has come again to where it was: no launch is made twice.
 */
const SET_BACK_MS = 25 * 3_600_000;

/** The newest due time that was launched or passed over. */
export interface LaunchMark {
  readonly slotMs: number;
}

export type LaunchDecision =
  | { readonly kind: 'launch'; readonly slotMs: number }
  | { readonly kind: 'wait'; readonly nextMs: number }
  /** The mark lies in a future that was a mistake. */
  | { readonly kind: 'begin_anew'; readonly mark: LaunchMark }
  | { readonly kind: 'never' };

/**
 * Decides whether a launch is due. However many were missed, by an agent that was away or a clock that leapt, one makes
 * up for them.
 */
export function decideLaunch(periodic: PeriodicSpec, mark: LaunchMark, nowMs: number): LaunchDecision {
  if (!periodic.enabled) return { kind: 'never' };
  if (mark.slotMs > nowMs + SET_BACK_MS) return { kind: 'begin_anew', mark: { slotMs: nowMs } };
  const due = nextDueMs(periodic, mark.slotMs);
  if (due === undefined) return { kind: 'never' };
  if (due > nowMs) return { kind: 'wait', nextMs: due };
  const following = nextDueMs(periodic, due);
  const isOnlyOne = following === undefined || following > nowMs;
  return { kind: 'launch', slotMs: isOnlyOne ? due : Math.floor(nowMs / 1000) * 1000 };
}

/** When a job is launched next, for people; undefined = never. */
export function nextLaunchMs(job: Job, mark: LaunchMark | undefined, nowMs: number): number | undefined {
  if (job.periodic?.enabled !== true) return undefined;
  return nextDueMs(job.periodic, Math.max(nowMs, mark?.slotMs ?? nowMs));
}

/** The launch of a periodic job. Its id is made of the time that it is for, so that none is made twice. */
export function periodicChild(parent: JobRecord, slotMs: number, nowMs: number): JobRecord {
  const id = `${parent.id}/periodic-${Math.floor(slotMs / 1000)}`;
  return { ...childOf(parent, id, {}, nowMs), parentId: parent.id };
}

export interface Dispatch {
  /** base64; undefined = none. */
  readonly payload: string | undefined;
  readonly meta: Readonly<Record<string, string>>;
  readonly idempotencyToken: string | undefined;
}

/** The launch of a parameterized job. @throws AgentError bad_request: it is none, or the dispatch is not as it asks */
export function dispatchChild(
  parent: JobRecord,
  dispatch: Dispatch,
  made: { readonly nowMs: number; readonly shortId: string },
): JobRecord {
  checkDispatch(parent, dispatch);
  const id = `${parent.id}/dispatch-${Math.floor(made.nowMs / 1000)}-${made.shortId}`;
  const { payload, idempotencyToken } = dispatch;
  return {
    ...childOf(parent, id, dispatch.meta, made.nowMs),
    parentId: parent.id,
    dispatched: true,
    ...(payload === undefined ? {} : { payload }),
    ...(idempotencyToken === undefined ? {} : { idempotencyToken }),
  };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function childOf(
  parent: JobRecord,
  id: string,
  meta: Readonly<Record<string, string>>,
  nowMs: number,
): JobRecord {
  const { spec } = parent;
  const own: Mutable<Job> = { ...spec, id, name: id, meta: { ...spec.meta, ...meta } };
  delete own.periodic;
  delete own.parameterized;
  return { id, version: 0, spec: own, stopped: false, submittedAtMs: nowMs };
}

function checkDispatch({ id, spec, stopped }: JobRecord, { payload, meta }: Dispatch): void {
  const refuse = (why: string): never => {
    throw new AgentError('bad_request', `job ${id} cannot be dispatched so: ${why}`);
  };
  const { parameterized } = spec;
  if (parameterized === undefined) return refuse('it has no `parameterized` block');
  if (stopped) return refuse(`it is stopped; register it again`);
  const bytes = payload === undefined ? 0 : Buffer.from(payload, 'base64').length;
  if (bytes > MOST_PAYLOAD_BYTES) refuse(`the payload has ${bytes} bytes, ${MOST_PAYLOAD_BYTES} is the most`);
  if (parameterized.payload === 'required' && bytes === 0) refuse('it needs a payload');
  if (parameterized.payload === 'forbidden' && bytes > 0) refuse('it takes no payload');
  const missing = parameterized.metaRequired.filter((key) => meta[key] === undefined);
  if (missing.length > 0) refuse(`it needs meta ${missing.join(', ')} (-m ${missing[0] ?? ''}=VALUE)`);
  const known = new Set([...parameterized.metaRequired, ...parameterized.metaOptional]);
  const foreign = Object.keys(meta).filter((key) => !known.has(key));
  if (foreign.length > 0) {
    refuse(`it takes no meta ${foreign.join(', ')}; it takes ${[...known].join(', ') || 'none'}`);
  }
}
