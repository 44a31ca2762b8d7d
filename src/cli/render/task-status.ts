/** Owns the words for how a task is: its state with the reason, and when the next try is due. Pure. */
import { rfc3339ToMs, type AllocListStub, type TaskState } from '../../api/wire.js';
import type { Tone } from '../output.js';
import { lastTrouble } from '../reason.js';
import { formatWait } from './units.js';

/** A task as the tables show it. */
export interface TaskView {
  readonly alloc: AllocListStub;
  /** undefined when the alloc has no tasks on record yet. */
  readonly task: string | undefined;
  readonly state: TaskState | undefined;
  /** Restarts that its policy allows in an interval; undefined = not known. */
  readonly restartsAllowed: number | undefined;
}

/** What is wrong, worst first; rows are ordered by it. */
export type Trouble = 'failed' | 'lost' | 'retrying' | 'changing' | 'well' | 'over';

export interface TaskStatus {
  readonly text: string;
  readonly tone: Tone;
  readonly trouble: Trouble;
}

const TROUBLES: readonly Trouble[] = ['failed', 'lost', 'retrying', 'changing', 'well', 'over'];

/** Orders by trouble, worst first. */
export function compareTrouble(a: Trouble, b: Trouble): number {
  return TROUBLES.indexOf(a) - TROUBLES.indexOf(b);
}

/** How a task is now. */
export function taskStatus(view: TaskView, nowMs: number): TaskStatus {
  const { alloc, state } = view;
  if (alloc.ClientStatus === 'lost' || alloc.ClientStatus === 'unknown') {
    return { text: withReason(alloc.ClientStatus, alloc.ClientDescription), tone: 'bad', trouble: 'lost' };
  }
  if (state === undefined) {
    const text = withReason(alloc.ClientStatus, alloc.ClientDescription);
    const isFailed = alloc.ClientStatus === 'failed';
    return { text, tone: isFailed ? 'bad' : 'warn', trouble: isFailed ? 'failed' : 'changing' };
  }
  return phaseStatus(view, state, nowMs);
}

function phaseStatus(view: TaskView, state: TaskState, nowMs: number): TaskStatus {
  const { Phase, PhaseDetail } = state.Holdfast;
  switch (Phase) {
    case 'running':
      // It has something to say only when it is out of reach.
      return PhaseDetail === ''
        ? { text: 'running', tone: 'good', trouble: 'well' }
        : { text: withReason('running', PhaseDetail), tone: 'warn', trouble: 'retrying' };
    case 'backoff':
      return { text: backoffText(view, state, nowMs), tone: 'warn', trouble: 'retrying' };
    case 'unkillable':
      return { text: withReason('unkillable', PhaseDetail), tone: 'bad', trouble: 'failed' };
    case 'waiting':
    case 'prestart':
    case 'starting':
    case 'stopping':
      return {
        text: withReason(Phase, PhaseDetail) + waited(state, nowMs),
        tone: 'warn',
        trouble: 'changing',
      };
    case 'exited':
      return {
        text: withReason('exited', state.Holdfast.LastExit?.Text ?? ''),
        tone: 'warn',
        trouble: 'changing',
      };
    case 'dead':
    case 'complete':
      return overStatus(view, state);
  }
}

/** ` (12s)`: how long a hook has been waited for. */
function waited({ Holdfast: { WaitingSince } }: TaskState, nowMs: number): string {
  const sinceMs = WaitingSince === undefined ? undefined : rfc3339ToMs(WaitingSince);
  return sinceMs === undefined ? '' : ` (${formatWait(nowMs - sinceMs)})`;
}

/** `backoff, retry in 12s (2/3 used; exited 3)`; in delay mode, when they are used up, until the interval ends. */
function backoffText(view: TaskView, state: TaskState, nowMs: number): string {
  const { NextStart, RestartsUsed } = state.Holdfast;
  const due = NextStart === null ? undefined : rfc3339ToMs(NextStart);
  const allowed = view.restartsAllowed;
  const used =
    allowed === undefined
      ? `${RestartsUsed} used`
      : RestartsUsed > allowed
        ? `all ${allowed} restarts of its interval used`
        : `${RestartsUsed}/${allowed} used`;
  const when = due === undefined ? 'retry is due' : `retry in ${formatWait(due - nowMs)}`;
  return `backoff, ${when} (${[used, lastTrouble(state)].filter((part) => part !== '').join('; ')})`;
}

function overStatus(view: TaskView, state: TaskState): TaskStatus {
  if (state.Failed) {
    return { text: withReason('failed', lastTrouble(state)), tone: 'bad', trouble: 'failed' };
  }
  const exit = state.Holdfast.LastExit;
  // A stop that was asked for ends the run by a signal; that is no news.
  if (view.alloc.DesiredStatus === 'stop') return { text: 'stopped', tone: 'dim', trouble: 'over' };
  const { KillReason } = state.Holdfast;
  if (KillReason !== null) return { text: withReason('stopped', KillReason), tone: 'dim', trouble: 'over' };
  const isClean = exit === null || (exit.Kind === 'exited' && exit.Code === 0);
  return { text: isClean ? 'complete' : withReason('complete', exit.Text), tone: 'dim', trouble: 'over' };
}

function withReason(word: string, reason: string): string {
  return reason === '' ? word : `${word}: ${reason}`;
}
