/** Owns the rules of what is asked of a task from outside: to end, to start anew, to take a signal. */
import type { Draft } from '../draft.js';
import type { RunnerEvent } from '../machine.js';
import { die } from './end.js';
import { toPrestart } from './start.js';
import { beginStop, skipDelay } from './stop.js';

/** The task shall end and stay ended. */
export function onKill(draft: Draft, kill: Extract<RunnerEvent, { readonly kind: 'kill' }>): void {
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

/** The run in hand shall end and a new one begin. */
export function onRestart(draft: Draft, reason: string, byPolicy: boolean): void {
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

/** The workload shall get a signal. */
export function onSignal(draft: Draft, signal: string, reason: string): void {
  if (draft.mode.at !== 'running' && draft.mode.at !== 'stopping') {
    draft.refused = `task is not running (it is ${draft.record.phase})`;
    return;
  }
  draft.emit({ type: 'Signaling', signal, reason });
  draft.effect({ kind: 'signal', signal });
}
