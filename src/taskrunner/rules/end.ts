/** Owns the rules of an end: what is said of it, and what follows: another start after a delay, a new life, or death. */
import type { ExitReport } from '../../events/exit-result.js';
import { roleOf } from '../../jobspec/lifecycle.js';
import type { Draft } from '../draft.js';
import { afterSuccess, decideRestart, type AttemptEnd } from '../restart-policy.js';
import { renewAfterEnd } from './renew.js';

/** The run in hand has ended: said, kept, and told to the exited hooks. */
export function onExited(draft: Draft, runId: string, report: ExitReport): void {
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

/** Whether it was told before the agent died that the run in hand had started. */
export function wasTold({ record }: Draft): boolean {
  return record.state === 'running';
}

/** The end is on record: the exited hooks run, then it is decided what follows. */
export function afterExit(draft: Draft, end: AttemptEnd): void {
  draft.mode = { at: 'exited', end };
  draft.enter('exited');
  draft.runHooks('exited');
}

/** What follows the end of an attempt: what was asked for comes before the policy. */
export function decide(draft: Draft, end: AttemptEnd): void {
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
export function die(draft: Draft): void {
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
