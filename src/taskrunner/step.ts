/**
 * Owns the rules of a task's life: (state, event) → (state, effects). Pure: reads no clock, rolls no die, touches
 * nothing. Whatever can happen in a mode is handled in that mode; what cannot, or comes too late, is ignored.
 * Over 300 lines because it is the one place where a reader sees the whole life of a task.
 */
import { roleOf } from '../jobspec/lifecycle.js';
import type { ExitReport } from '../events/exit-result.js';
import type { Moment, RunHandle, TaskRecord } from '../state/store.js';
import { Draft, type StepResult } from './draft.js';
import {
  UNSEEN_EXIT,
  type HookPhase,
  type RunnerEvent,
  type RunnerState,
  type StepContext,
} from './machine.js';
import { afterPreKill, beginStop, onStopFailed, onStopTimer, skipDelay } from './stopping.js';
import { afterSuccess, decideRestart, type AttemptEnd } from './restart-policy.js';

/** How soon a refused intent is tried again. */
const STORE_RETRY_MS = 1_000;
/** How soon a run that cannot be spoken to is looked at again: doubling from the first to the second. */
const RECOVER_RETRY_FIRST_MS = 500;
const RECOVER_RETRY_LAST_MS = 30_000;

/** Works out what `event` means for a task in `state`. */
export function step(state: RunnerState, event: RunnerEvent, context: StepContext): StepResult {
  const draft = new Draft(state, context);
  if (draft.mode.at !== 'left') apply(draft, event);
  else if (event.kind === 'restart' || event.kind === 'signal') draft.refused = 'the agent is leaving';
  return draft.result();
}

function apply(draft: Draft, event: RunnerEvent): void {
  switch (event.kind) {
    case 'begin':
      begin(draft, event.lastRanForMs);
      return;
    case 'gate_open':
      draft.update({ gateOpen: true });
      if (draft.mode.at === 'waiting') toPrestart(draft);
      return;
    case 'held':
      if (draft.mode.at === 'waiting' && draft.record.phaseDetail !== event.why) {
        draft.enter('waiting', event.why);
      }
      return;
    case 'hooks_done':
      if (event.attempt === draft.record.attempts) onHooksDone(draft, event.phase);
      return;
    case 'waiting_on':
      if (event.attempt === draft.record.attempts) onWaitingOn(draft, event.phase, event.what);
      return;
    case 'prestart_failed':
      onPrestartFailed(draft, event);
      return;
    case 'not_stored':
      onNotStored(draft, event.error);
      return;
    case 'started':
      if (isStarting(draft, event.runId)) onStarted(draft, event.runId, event.ref, event.startedAtMs);
      return;
    case 'start_failed':
      if (isStarting(draft, event.runId)) onStartFailed(draft, event);
      return;
    case 'start_uncertain':
      if (isStarting(draft, event.runId)) onStartUncertain(draft, event.runId, event.error);
      return;
    case 'recovered_running':
      if (isInHand(draft, event.runId)) onRecoveredRunning(draft, event.runId, event.ref, event.startedAtMs);
      return;
    case 'recovered_start_failed':
      if (isInHand(draft, event.runId)) onNotStarted(draft, event);
      return;
    case 'recovered_never_started':
      if (isInHand(draft, event.runId)) onNeverStarted(draft, event.runId, event.detail);
      return;
    case 'unreachable':
      if (isInHand(draft, event.runId)) onUnreachable(draft, event.runId, event.detail);
      return;
    case 'exited':
      if (isInHand(draft, event.runId)) onExited(draft, event.runId, event.report);
      return;
    case 'stop_failed':
      onStopFailed(draft, event.runId, event.error);
      return;
    case 'timer':
      if (event.id === draft.state.timer) onTimer(draft);
      return;
    case 'kill':
      onKill(draft, event);
      return;
    case 'restart':
      onRestart(draft, event.reason, event.byPolicy ?? false);
      return;
    case 'renew':
      onRenew(draft, event.generation, event.reason);
      return;
    case 'signal':
      onSignal(draft, event.signal, event.reason);
      return;
    case 'finish':
      if (draft.mode.at === 'dead') {
        draft.mode = { at: 'finishing' };
        draft.runHooks('stop');
      }
      return;
    case 'update': {
      const before = draft.state.task;
      draft.update({ task: event.task, jobType: event.jobType });
      if (isLive(draft)) draft.effect({ kind: 'run_update_hooks', attempt: draft.record.attempts, before });
      return;
    }
    case 'say':
      // What comes after the end is about nothing that is remembered; the alloc may be purged by then.
      if (draft.mode.at !== 'complete') draft.emit(event.event);
      return;
    case 'shutdown':
      draft.effect({ kind: 'abort_hooks' });
      draft.effect({ kind: 'detach' });
      draft.effect({ kind: 'done' });
      draft.mode = { at: 'left' };
      return;
  }
}

/** Answers about another attempt than the one in hand come too late to matter. */
function isInHand(draft: Draft, runId: string): boolean {
  return draft.record.runId === runId;
}

function isStarting(draft: Draft, runId: string): boolean {
  return draft.mode.at === 'starting' && isInHand(draft, runId);
}

// ---- begin: from the record alone ------------------------------------------------------------------------------

function begin(draft: Draft, lastRanForMs: number | undefined): void {
  const { record } = draft;
  if (record.lastEventSeq === 0) draft.emit({ type: 'Received' });
  if (record.phase === 'complete') {
    draft.mode = { at: 'complete' };
    draft.effect({ kind: 'done' });
    return;
  }
  if (record.runId !== undefined) {
    draft.mode = { at: 'recovering', runId: record.runId, tries: 0 };
    draft.effect({ kind: 'recover', runId: record.runId });
    return;
  }
  switch (record.phase) {
    case 'dead':
      draft.mode = { at: 'dead' };
      return;
    case 'backoff':
      resumeBackoff(draft);
      return;
    case 'exited':
    case 'running':
    case 'stopping':
    case 'unkillable':
      afterExit(draft, { kind: 'exit', result: record.lastExit ?? UNSEEN_EXIT, ranForMs: lastRanForMs });
      return;
    case 'waiting':
    case 'prestart':
    case 'starting':
      if (record.killReason !== undefined) die(draft);
      else toWaitingOrRenew(draft);
  }
}

/** The delay that is left counts on; a restart of the agent neither forgets nor shortens it. */
function resumeBackoff(draft: Draft): void {
  const { nextStart, killReason, lastRestartAtMs } = draft.record;
  if (killReason !== undefined) {
    die(draft);
    return;
  }
  draft.mode = { at: 'backoff' };
  draft.setTimer(nextStart === undefined ? 0 : leftMs(nextStart, lastRestartAtMs, draft.now));
}

/** Across a reboot only the wall clock is left, and a step of it must not make the delay longer than it was. */
function leftMs(due: Moment, setAtWallMs: number | undefined, now: Moment): number {
  if (due.bootId === now.bootId) return Math.max(0, due.monoMs - now.monoMs);
  const wholeMs = due.wallMs - (setAtWallMs ?? now.wallMs);
  return Math.max(0, Math.min(due.wallMs - now.wallMs, wholeMs));
}

// ---- up --------------------------------------------------------------------------------------------------------

function toWaitingOrRenew(draft: Draft): void {
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

function toPrestart(draft: Draft): void {
  draft.mode = { at: 'prestart' };
  draft.set({ state: 'pending', nextStart: undefined });
  draft.enter('prestart');
  draft.runHooks('prestart');
}

function onHooksDone(draft: Draft, phase: HookPhase): void {
  const { mode } = draft;
  if (phase === 'prestart' && mode.at === 'prestart') {
    if (draft.record.killReason !== undefined) die(draft);
    else if (draft.record.renewTo !== undefined) renew(draft);
    else toStarting(draft);
  } else if (phase === 'pre_kill' && mode.at === 'stopping' && mode.stage === 'pre_kill') {
    afterPreKill(draft, mode.runId);
  } else if (phase === 'exited' && mode.at === 'exited') {
    decide(draft, mode.end);
  } else if (phase === 'stop' && mode.at === 'finishing') {
    draft.mode = { at: 'complete' };
    draft.enter('complete');
    draft.effect({ kind: 'done' });
  }
}

/** Something of the task is there, or is being set up. */
function isLive({ mode }: Draft): boolean {
  return !['new', 'waiting', 'dead', 'finishing', 'complete', 'left'].includes(mode.at);
}

/** What a phase waits for is told of it; the words for why a task is stopped stay. */
function onWaitingOn(draft: Draft, phase: HookPhase, what: string): void {
  const { mode, record, context } = draft;
  const waits =
    phase === mode.at ||
    (phase === 'pre_kill' && mode.at === 'stopping' && mode.stage === 'pre_kill') ||
    (phase === 'stop' && mode.at === 'finishing');
  if (!waits) return;
  const why = record.killReason ?? record.restartReason;
  const detail = `waiting on ${what}`;
  draft.enter(record.phase, phase === 'pre_kill' && why !== undefined ? `${why}; ${detail}` : detail);
  draft.set({ waitingSinceMs: context.wallMs });
}

function onPrestartFailed(
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

function toStarting(draft: Draft): void {
  const runId = draft.context.freshRunId;
  const attempt = draft.record.attempts + 1;
  draft.mode = { at: 'starting', runId };
  draft.set({ runId, attempts: attempt });
  draft.enter('starting');
  draft.changeRun({ kind: 'intend', runId, attempt });
  draft.effect({ kind: 'start', runId });
}

function onNotStored(draft: Draft, error: string): void {
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

function onStarted(draft: Draft, runId: string, ref: RunHandle, startedAtMs: number): void {
  draft.changeRun({ kind: 'started', runId, ref, startedAtMs });
  draft.set({ state: 'running', startedAtMs, finishedAtMs: undefined });
  draft.emit({ type: 'Started', pid: ref.workload?.pid }, startedAtMs);
  draft.mode = { at: 'running', runId };
  draft.enter('running');
  if (isToEnd(draft)) beginStop(draft, runId);
  else draft.runHooks('poststart');
}

function onStartFailed(
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

// ---- recovery --------------------------------------------------------------------------------------------------

function onStartUncertain(draft: Draft, runId: string, error: string): void {
  draft.mode = { at: 'recovering', runId, tries: 0 };
  draft.enter('starting', `finding out whether it started: ${error}`);
  draft.effect({ kind: 'recover', runId });
}

function onRecoveredRunning(draft: Draft, runId: string, ref: RunHandle, startedAtMs: number): void {
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

/** The run in hand is not wanted any more. */
function isToEnd({ record }: Draft): boolean {
  return record.killReason !== undefined || record.restartReason !== undefined;
}

/** Whether it was told before the agent died that the run in hand had started. */
function wasTold({ record }: Draft): boolean {
  return record.state === 'running';
}

function onNotStarted(
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

function onNeverStarted(draft: Draft, runId: string, detail: string): void {
  if (draft.mode.at !== 'recovering') return;
  if (wasTold(draft)) {
    onVanished(draft, runId, detail);
    return;
  }
  draft.closeRun(runId, { kind: 'never_started', detail, atMs: draft.context.wallMs });
  if (draft.record.killReason !== undefined) die(draft);
  else toWaitingOrRenew(draft);
}

function onUnreachable(draft: Draft, runId: string, detail: string): void {
  if (draft.mode.at !== 'recovering') return;
  const { tries } = draft.mode;
  if (tries === 0) draft.emit({ type: 'Failed Restoring Task', error: detail });
  draft.mode = { at: 'recovering', runId, tries: tries + 1 };
  draft.enter(draft.record.phase, `cannot be reached, trying again: ${detail}`);
  draft.setTimer(Math.min(RECOVER_RETRY_FIRST_MS * 2 ** tries, RECOVER_RETRY_LAST_MS));
}

// ---- down ------------------------------------------------------------------------------------------------------

function onExited(draft: Draft, runId: string, report: ExitReport): void {
  const { mode } = draft;
  if (mode.at !== 'running' && mode.at !== 'stopping' && mode.at !== 'recovering') return;
  if (!wasTold(draft) && report.startedAtMs !== undefined) {
    draft.set({ startedAtMs: report.startedAtMs });
    draft.emit({ type: 'Started', pid: undefined }, report.startedAtMs);
  }
  draft.emit({ type: 'Terminated', result: report.result }, Math.min(report.endedAtMs, draft.context.wallMs));
  draft.set({ lastExit: report.result, finishedAtMs: report.endedAtMs });
  draft.closeRun(runId, { kind: 'ended', report });
  afterExit(draft, { kind: 'exit', result: report.result, ranForMs: report.ranForMs });
}

function afterExit(draft: Draft, end: AttemptEnd): void {
  draft.mode = { at: 'exited', end };
  draft.enter('exited');
  draft.runHooks('exited');
}

/** What follows the end of an attempt: what was asked for comes before the policy. */
function decide(draft: Draft, end: AttemptEnd): void {
  const { record, state, context } = draft;
  if (record.killReason !== undefined) {
    die(draft);
    return;
  }
  if (record.renewTo !== undefined) {
    renewAfterEnd(draft);
    return;
  }
  if (record.restartReason !== undefined && record.restartCounts !== true) {
    again(draft, 0, record.restartReason);
    return;
  }
  const now = { at: draft.now, roll: context.roll };
  // What a check has ended is to run on, whatever code it left with.
  const isCounted = record.restartCounts === true;
  const onSuccess = isCounted ? 'restart' : afterSuccess(state.jobType, roleOf(state.task));
  const decision = decideRestart(state.task.restart, onSuccess, record.restartWindow, end, now);
  draft.set({ restartWindow: decision.window });
  switch (decision.kind) {
    case 'restart':
      again(draft, decision.afterMs, decision.reason);
      return;
    case 'give_up':
      draft.emit({ type: 'Not Restarting', reason: decision.reason });
      toDead(draft);
      return;
    case 'complete':
      toDead(draft);
  }
}

function again(draft: Draft, delayMs: number, reason: string): void {
  const { context } = draft;
  draft.emit({ type: 'Restarting', reason, delayMs });
  draft.set({
    state: 'pending',
    restarts: draft.record.restarts + 1,
    lastRestartAtMs: context.wallMs,
    restartReason: undefined,
    restartCounts: undefined,
    nextStart: { ...draft.now, wallMs: context.wallMs + delayMs, monoMs: context.monoMs + delayMs },
  });
  draft.mode = { at: 'backoff' };
  draft.enter('backoff', reason);
  draft.setTimer(delayMs);
}

/** The task was killed: said always, also when nothing was running. */
function die(draft: Draft): void {
  draft.emit({ type: 'Killed', error: undefined });
  toDead(draft);
}

function toDead(draft: Draft): void {
  draft.mode = { at: 'dead' };
  draft.set({
    state: 'dead',
    nextStart: undefined,
    restartReason: undefined,
    restartCounts: undefined,
    renewTo: undefined,
    finishedAtMs: draft.record.finishedAtMs ?? draft.context.wallMs,
  });
  draft.enter('dead');
}

// ---- asked from outside ----------------------------------------------------------------------------------------

function onKill(draft: Draft, kill: Extract<RunnerEvent, { readonly kind: 'kill' }>): void {
  const { mode } = draft;
  if (mode.at === 'dead' || mode.at === 'finishing' || mode.at === 'complete') return;
  if (kill.skipDelay) draft.update({ skipDelay: true });
  const first = draft.record.killReason === undefined;
  if (first) {
    if (kill.because !== undefined) draft.emit(kill.because);
    draft.set({ killReason: kill.reason });
  }
  switch (mode.at) {
    case 'waiting':
    case 'store_wait':
    case 'backoff':
      die(draft);
      return;
    case 'prestart':
      draft.effect({ kind: 'abort_hooks' });
      return;
    case 'running':
      beginStop(draft, mode.runId);
      return;
    case 'stopping':
      if (mode.stage === 'delay' && kill.skipDelay) skipDelay(draft, mode.runId);
      return;
    case 'new':
    case 'starting':
    case 'recovering':
    case 'exited':
    case 'left':
      // Acted upon when the answer that is awaited comes.
      return;
  }
}

function onRestart(draft: Draft, reason: string, byPolicy: boolean): void {
  const { mode } = draft;
  if (mode.at === 'running') {
    draft.emit({ type: 'Restart Signaled', reason });
    draft.set({ restartReason: reason, restartCounts: byPolicy });
    beginStop(draft, mode.runId);
  } else if (mode.at === 'backoff' && !byPolicy) {
    // The restart is counted already: only the rest of the delay is skipped.
    draft.emit({ type: 'Restart Signaled', reason });
    toPrestart(draft);
  } else {
    draft.refused = `task is not running (it is ${draft.record.phase})`;
  }
}

/** May be asked again and again, also by the next agent. A kill is final: what it has ended or will end stays so. */
function onRenew(draft: Draft, generation: number, reason: string): void {
  const { mode, record } = draft;
  if (record.killReason !== undefined || Math.max(generationOf(record), record.renewTo ?? 0) >= generation) {
    return;
  }
  switch (mode.at) {
    case 'finishing':
    case 'complete':
    case 'left':
      return;
    case 'new':
    case 'waiting':
    case 'store_wait':
      draft.set({ renewTo: generation });
      renew(draft);
      return;
    case 'backoff':
      // The restart is counted already.
      draft.emit({ type: 'Restart Signaled', reason });
      draft.set({ renewTo: generation });
      renew(draft);
      return;
    case 'dead':
      draft.emit({ type: 'Restart Signaled', reason });
      draft.set({ renewTo: generation, restartReason: reason });
      renewAfterEnd(draft);
      return;
    case 'prestart':
      draft.emit({ type: 'Restart Signaled', reason });
      draft.set({ renewTo: generation });
      draft.effect({ kind: 'abort_hooks' });
      return;
    case 'running':
      draft.emit({ type: 'Restart Signaled', reason });
      draft.set({ renewTo: generation, restartReason: reason });
      beginStop(draft, mode.runId);
      return;
    case 'starting':
    case 'recovering':
    case 'stopping':
    case 'exited':
      // Acted upon when the answer that is awaited comes.
      draft.emit({ type: 'Restart Signaled', reason });
      draft.set({ renewTo: generation, restartReason: reason });
  }
}

function generationOf({ generation }: Pick<TaskRecord, 'generation'>): number {
  return generation ?? 0;
}

/** What has run is over: it counts as one restart. */
function renewAfterEnd(draft: Draft): void {
  const { record, context } = draft;
  draft.emit({ type: 'Restarting', reason: record.restartReason ?? '', delayMs: 0 });
  draft.set({ restarts: record.restarts + 1, lastRestartAtMs: context.wallMs });
  renew(draft);
}

/** Begins in the new generation, behind a gate that is closed until the whole alloc has got there. */
function renew(draft: Draft): void {
  draft.update({ gateOpen: false });
  draft.set({
    state: 'pending',
    generation: draft.record.renewTo,
    renewTo: undefined,
    restartReason: undefined,
    restartCounts: undefined,
    failed: false,
    startedAtMs: undefined,
    finishedAtMs: undefined,
    nextStart: undefined,
  });
  draft.mode = { at: 'waiting' };
  draft.enter('waiting');
}

function onSignal(draft: Draft, signal: string, reason: string): void {
  if (draft.mode.at !== 'running' && draft.mode.at !== 'stopping') {
    draft.refused = `task is not running (it is ${draft.record.phase})`;
    return;
  }
  draft.emit({ type: 'Signaling', signal, reason });
  draft.effect({ kind: 'signal', signal });
}

// ---- time ------------------------------------------------------------------------------------------------------

function onTimer(draft: Draft): void {
  const { mode } = draft;
  switch (mode.at) {
    case 'backoff':
      toPrestart(draft);
      return;
    case 'store_wait':
      toStarting(draft);
      return;
    case 'recovering':
      draft.effect({ kind: 'recover', runId: mode.runId });
      return;
    case 'stopping':
      onStopTimer(draft);
      return;
    case 'new':
    case 'waiting':
    case 'prestart':
    case 'starting':
    case 'running':
    case 'exited':
    case 'dead':
    case 'finishing':
    case 'complete':
    case 'left':
      return;
  }
}
