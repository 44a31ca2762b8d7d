/** Owns the rules of a restart of the whole alloc: what runs is ended, then the task begins anew in its next generation. */
import type { TaskRecord } from '../../state/store.js';
import type { Draft } from '../draft.js';
import { beginStop } from './stop.js';

/** May be asked again and again, also by the next agent. A kill is final: what it has ended or will end stays so. */
export function onRenew(draft: Draft, generation: number, reason: string): void {
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
export function renewAfterEnd(draft: Draft): void {
  const { record, context } = draft;
  draft.emit({ type: 'Restarting', reason: record.restartReason ?? '', delayMs: 0 });
  draft.set({ restarts: record.restarts + 1, lastRestartAtMs: context.wallMs });
  renew(draft);
}

/** Begins in the new generation, behind a gate that is closed until the whole alloc has got there. */
export function renew(draft: Draft): void {
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
