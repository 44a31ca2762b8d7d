/** Owns the rules of a beginning: where a task stands by its record alone, whoever wrote that and however long ago. */
import type { Moment } from '../../state/store.js';
import type { Draft } from '../draft.js';
import { UNSEEN_EXIT } from '../machine.js';
import { afterExit, die } from './end.js';
import { toWaitingOrRenew } from './start.js';

/** The first event of a runner. @param lastRanForMs of the newest ended run, if known */
export function begin(draft: Draft, lastRanForMs: number | undefined): void {
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
