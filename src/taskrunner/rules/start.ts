/** Owns the rules of the way up: the gate, the prestart hooks, the durable intent, the start and how it can fail. */
import type { RunHandle } from '../../state/store.js';
import type { Draft } from '../draft.js';
import type { RunnerEvent } from '../machine.js';
import { decide, die } from './end.js';
import { renew } from './renew.js';
import { beginStop } from './stop.js';

/** How soon a refused intent is tried again. */
const STORE_RETRY_MS = 1_000;

/** Begins again, in the next generation if that was asked for meanwhile. */
export function toWaitingOrRenew(draft: Draft): void {
  if (draft.record.renewTo === undefined) toWaiting(draft);
  else renew(draft);
}

function toWaiting(draft: Draft): void {
  draft.set({ state: 'pending' });
  if (draft.state.gateOpen) {
    toPrestart(draft);
    return;
  }
  draft.mode = { at: 'waiting' };
  draft.enter('waiting');
}

/** The gate is open: the prestart hooks run. */
export function toPrestart(draft: Draft): void {
  draft.mode = { at: 'prestart' };
  draft.set({ state: 'pending', nextStart: undefined });
  draft.enter('prestart');
  draft.runHooks('prestart');
}

/** The prestart hooks are through. What was asked for meanwhile comes first. */
export function afterPrestart(draft: Draft): void {
  if (draft.record.killReason !== undefined) die(draft);
  else if (draft.record.renewTo !== undefined) renew(draft);
  else toStarting(draft);
}

/** A prestart hook has failed, or was cancelled. */
export function onPrestartFailed(
  draft: Draft,
  failure: Extract<RunnerEvent, { readonly kind: 'prestart_failed' }>,
): void {
  if (draft.mode.at !== 'prestart') return;
  // A hook that was cancelled because the task shall die has not failed.
  if (draft.record.killReason !== undefined) {
    die(draft);
    return;
  }
  if (draft.record.renewTo !== undefined) {
    renew(draft);
    return;
  }
  draft.emit(failure.event);
  decide(draft, { kind: 'start_error', recoverable: failure.recoverable || failure.cancelled });
}

/** Everything is set up: a new run is intended, and started when that is durable. */
export function toStarting(draft: Draft): void {
  const runId = draft.context.freshRunId;
  const attempt = draft.record.attempts + 1;
  draft.mode = { at: 'starting', runId };
  draft.set({ runId, attempts: attempt });
  draft.enter('starting');
  draft.changeRun({ kind: 'intend', runId, attempt });
  draft.effect({ kind: 'start', runId });
}

/** The store has refused the intent: nothing was started, and the attempt does not count. */
export function onNotStored(draft: Draft, error: string): void {
  if (draft.mode.at !== 'starting') return;
  draft.set({ runId: undefined, attempts: draft.record.attempts - 1 });
  if (draft.record.killReason !== undefined) {
    die(draft);
    return;
  }
  if (draft.record.renewTo !== undefined) {
    renew(draft);
    return;
  }
  draft.mode = { at: 'store_wait' };
  draft.enter('waiting', `the intent cannot be stored, nothing was started: ${error}`);
  draft.setTimer(STORE_RETRY_MS);
}

/** The workload runs. */
export function onStarted(draft: Draft, runId: string, ref: RunHandle, startedAtMs: number): void {
  draft.changeRun({ kind: 'started', runId, ref, startedAtMs });
  draft.set({ state: 'running', startedAtMs, finishedAtMs: undefined });
  draft.emit({ type: 'Started', pid: ref.workload?.pid }, startedAtMs);
  draft.mode = { at: 'running', runId };
  draft.enter('running');
  if (isToEnd(draft)) beginStop(draft, runId);
  else draft.runHooks('poststart');
}

/** The run in hand is not wanted any more. */
export function isToEnd({ record }: Draft): boolean {
  return record.killReason !== undefined || record.restartReason !== undefined;
}

/** The driver could not start the run. */
export function onStartFailed(
  draft: Draft,
  failure: Pick<
    Extract<RunnerEvent, { readonly kind: 'start_failed' }>,
    'runId' | 'event' | 'error' | 'recoverable'
  >,
): void {
  draft.emit(failure.event);
  const atMs = draft.context.wallMs;
  draft.closeRun(failure.runId, { kind: 'start_failed', error: failure.error, atMs });
  if (draft.record.killReason !== undefined) die(draft);
  else decide(draft, { kind: 'start_error', recoverable: failure.recoverable });
}
