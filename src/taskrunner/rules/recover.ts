/** Owns the rules of recovery: what a verdict about the run in hand means to a task whose agent was away. */
import type { RunHandle } from '../../state/store.js';
import type { Draft } from '../draft.js';
import type { RunnerEvent } from '../machine.js';
import { die, onExited, wasTold } from './end.js';
import { isToEnd, onStarted, onStartFailed, toWaitingOrRenew } from './start.js';
import { beginStop } from './stop.js';

/** How soon a run that cannot be spoken to is looked at again: doubling from the first to the second. */
const RECOVER_RETRY_FIRST_MS = 500;
const RECOVER_RETRY_LAST_MS = 30_000;

/** The driver does not know whether it has started the run: that is found out, not tried again. */
export function onStartUncertain(draft: Draft, runId: string, error: string): void {
  draft.mode = { at: 'recovering', runId, tries: 0 };
  draft.enter('starting', `finding out whether it started: ${error}`);
  draft.effect({ kind: 'recover', runId });
}

/** The run goes on, and is supervised again. */
export function onRecoveredRunning(draft: Draft, runId: string, ref: RunHandle, startedAtMs: number): void {
  if (draft.mode.at !== 'recovering') return;
  const { record } = draft;
  // Started is said once a run.
  if (!wasTold(draft)) {
    onStarted(draft, runId, ref, startedAtMs);
    return;
  }
  draft.changeRun({ kind: 'started', runId, ref, startedAtMs });
  draft.mode = { at: 'running', runId };
  if (isToEnd(draft)) beginStop(draft, runId);
  else {
    if (record.phase !== 'running' || record.phaseDetail !== '') draft.enter('running');
    draft.runHooks('poststart');
  }
}

/** The run is known to have failed to start. */
export function onNotStarted(
  draft: Draft,
  failure: Extract<RunnerEvent, { readonly kind: 'recovered_start_failed' }>,
): void {
  if (draft.mode.at !== 'recovering') return;
  const { runId, error, recoverable } = failure;
  if (wasTold(draft)) onVanished(draft, runId, error);
  else onStartFailed(draft, { runId, event: { type: 'Driver Failure', error }, error, recoverable });
}

/** It is known to have started, and now there is no trace of it: an end that nobody saw. */
function onVanished(draft: Draft, runId: string, detail: string): void {
  onExited(draft, runId, {
    result: { kind: 'unknown', reason: 'executor_lost', detail },
    startedAtMs: draft.record.startedAtMs,
    endedAtMs: draft.context.wallMs,
    ranForMs: undefined,
    usage: undefined,
    logComplete: false,
    leftoversKilled: 0,
  });
}

/** The run was never started, and cannot be any more. */
export function onNeverStarted(draft: Draft, runId: string, detail: string): void {
  if (draft.mode.at !== 'recovering') return;
  if (wasTold(draft)) {
    onVanished(draft, runId, detail);
    return;
  }
  draft.closeRun(runId, { kind: 'never_started', detail, atMs: draft.context.wallMs });
  if (draft.record.killReason !== undefined) die(draft);
  else toWaitingOrRenew(draft);
}

/** Something lives and cannot be spoken to: asked again and again; nothing is started in its place. */
export function onUnreachable(draft: Draft, runId: string, detail: string): void {
  if (draft.mode.at !== 'recovering') return;
  const { tries } = draft.mode;
  if (tries === 0) draft.emit({ type: 'Failed Restoring Task', error: detail });
  draft.mode = { at: 'recovering', runId, tries: tries + 1 };
  draft.enter(draft.record.phase, `cannot be reached, trying again: ${detail}`);
  draft.setTimer(Math.min(RECOVER_RETRY_FIRST_MS * 2 ** tries, RECOVER_RETRY_LAST_MS));
}
