/**
 * Owns the rules of a stop: the one way to end a run, for kill and restart. How far a stop has come is part of the record:
 * an agent that comes back goes on with it and begins nothing anew.
 */
import type { Moment, StopProgress } from '../../state/store.js';
import type { Draft } from '../draft.js';
import { nextKillRetry } from '../kill-backoff.js';
import { planStop, rungAt, type StopPlan } from '../stop-plan.js';

/** Asks the run in hand to end, or goes on with asking. */
export function beginStop(draft: Draft, runId: string): void {
  const { stop, phase } = draft.record;
  if (phase !== 'unkillable') {
    draft.enter('stopping', whyOf(draft));
  }
  if (stop === undefined) {
    draft.mode = { at: 'stopping', runId, stage: 'pre_kill', attempt: 1 };
    draft.runHooks('pre_kill');
  } else if (stop.stage === 'signal') {
    ask(draft, runId, stop);
  } else if (draft.state.skipDelay) {
    skipDelay(draft, runId);
  } else {
    waitForDelay(draft, runId, stop);
  }
}

/** The pre-kill hooks are through. */
export function afterPreKill(draft: Draft, runId: string): void {
  const delayMs = draft.state.task.shutdownDelayMs;
  if (delayMs > 0 && !draft.state.skipDelay) {
    draft.emit({ type: 'Waiting for Shutdown Delay', delayMs });
    const now = draft.now;
    const due = { ...now, wallMs: now.wallMs + delayMs, monoMs: now.monoMs + delayMs };
    waitForDelay(draft, runId, { stage: 'delay', since: now, due, failedKills: 0 });
    return;
  }
  if (delayMs > 0) draft.emit({ type: 'Skipping Shutdown Delay' });
  beginSignals(draft, runId, 0);
}

/** Somebody does not want to wait for the delay under way. */
export function skipDelay(draft: Draft, runId: string): void {
  draft.emit({ type: 'Skipping Shutdown Delay' });
  beginSignals(draft, runId, 0);
}

/** The run was not gone in time, or could not be asked. */
export function onStopFailed(draft: Draft, runId: string, error: string): void {
  const { mode, record } = draft;
  if (mode.at !== 'stopping' || mode.runId !== runId || mode.stage !== 'signal') return;
  const retry = nextKillRetry(mode.attempt);
  const unkillable = retry.kind === 'unkillable';
  // The reaper's later failures say nothing new: told once, then shown as a phase.
  if (record.phase !== 'unkillable') {
    const retryInMs = unkillable ? undefined : retry.afterMs;
    draft.emit({ type: 'Kill Failed', error, attempt: mode.attempt, retryInMs });
  }
  const every = unkillable ? `; tried again every ${retry.reapEveryMs / 1000}s` : '';
  if (unkillable) draft.enter('unkillable', error + every);
  else
    draft.enter('stopping', `${whyOf(draft)}; kill attempt ${mode.attempt} failed, trying again: ${error}`);
  if (record.stop !== undefined) draft.set({ stop: { ...record.stop, failedKills: mode.attempt } });
  draft.mode = { at: 'stopping', runId, stage: 'retry', attempt: mode.attempt };
  draft.setTimer(unkillable ? retry.reapEveryMs : retry.afterMs);
}

/** The timer of the stop under way fired. */
export function onStopTimer(draft: Draft): void {
  const { mode, record } = draft;
  if (mode.at !== 'stopping') return;
  switch (mode.stage) {
    case 'delay':
      beginSignals(draft, mode.runId, 0);
      return;
    case 'retry':
      beginSignals(draft, mode.runId, mode.attempt);
      return;
    case 'signal':
      if (record.stop !== undefined) ask(draft, mode.runId, record.stop);
      return;
    case 'pre_kill':
      return;
  }
}

/** What is left until `due`. Within a boot the monotonic clock counts; a run does not outlive its boot. */
function leftMs(due: Moment, now: Moment): number {
  return due.bootId === now.bootId ? Math.max(0, due.monoMs - now.monoMs) : 0;
}

function waitForDelay(draft: Draft, runId: string, stop: StopProgress): void {
  draft.enter('stopping', `${whyOf(draft)}; waiting for shutdown_delay`);
  draft.set({ stop });
  draft.mode = { at: 'stopping', runId, stage: 'delay', attempt: 1 };
  draft.setTimer(leftMs(stop.due, draft.now));
}

/** @param failedKills tries that have failed: the first try is told, the others ask again from the first signal on */
function beginSignals(draft: Draft, runId: string, failedKills: number): void {
  const { now } = draft;
  const plan = planOf(draft);
  const due = { ...now, wallMs: now.wallMs + plan.graceMs, monoMs: now.monoMs + plan.graceMs };
  if (failedKills === 0) {
    const reason = whyOf(draft);
    draft.enter('stopping', reason);
    draft.emit({ type: 'Killing', signal: plan.rungs[0].signal, timeoutMs: plan.graceMs, reason });
  }
  ask(draft, runId, { stage: 'signal', since: now, due, failedKills });
}

/** Sends the signal that is due now. The executor holds the deadline: whoever dies here, SIGKILL comes in time. */
function ask(draft: Draft, runId: string, stop: StopProgress): void {
  const { mode, now } = draft;
  const elapsedMs = stop.since.bootId === now.bootId ? now.monoMs - stop.since.monoMs : 0;
  const { index, signal, nextInMs } = rungAt(planOf(draft), elapsedMs);
  const isNext = mode.at === 'stopping' && mode.stage === 'signal' && index > 0;
  if (isNext) draft.emit({ type: 'Signaling', signal, reason: 'it has not ended yet' });
  draft.set({ stop });
  draft.mode = { at: 'stopping', runId, stage: 'signal', attempt: stop.failedKills + 1 };
  draft.effect({ kind: 'stop', runId, signal, graceMs: leftMs(stop.due, now) });
  if (nextInMs !== undefined) draft.setTimer(nextInMs);
}

/** Why the run shall end, for people. */
function whyOf({ record }: Draft): string {
  return record.killReason ?? record.restartReason ?? '';
}

function planOf({ state, context }: Draft): StopPlan {
  return planStop(state.task, context);
}
