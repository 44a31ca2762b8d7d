/**
 * Owns which rule answers which event: (state, event) → (state, effects). Pure, as are the rules (`rules/`, one file for
 * each part of a task's life): no clock, no die, nothing touched. What cannot happen in a mode, or comes too late, is
 * ignored.
 */
import { Draft, type StepResult } from './draft.js';
import type { HookPhase, RunnerEvent, RunnerState, StepContext } from './machine.js';
import { begin } from './rules/begin.js';
import { decide, onExited } from './rules/end.js';
import {
  onNeverStarted,
  onNotStarted,
  onRecoveredRunning,
  onStartUncertain,
  onUnreachable,
} from './rules/recover.js';
import { onRenew } from './rules/renew.js';
import { onKill, onRestart, onSignal } from './rules/requests.js';
import {
  afterPrestart,
  onNotStored,
  onPrestartFailed,
  onStarted,
  onStartFailed,
  toPrestart,
  toStarting,
} from './rules/start.js';
import { afterPreKill, onStopFailed, onStopTimer } from './rules/stop.js';

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

function onHooksDone(draft: Draft, phase: HookPhase): void {
  const { mode } = draft;
  if (phase === 'prestart' && mode.at === 'prestart') {
    afterPrestart(draft);
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

/** The timer that the mode in hand had set has fired. */
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

/** Something of the task is there, or is being set up. */
function isLive({ mode }: Draft): boolean {
  return !['new', 'waiting', 'dead', 'finishing', 'complete', 'left'].includes(mode.at);
}
