/**
 * Owns the verdict about a run whose end is not stored: one pure function over plain facts. It never reads a clock, a
 * file or a process; facts.ts gathers, resolve.ts carries out.
 *
 * The rule above all: as long as anything of the run may live, it is neither over nor never begun.
 */
import type { EndRecord, ExecutorStatus, ExitRecord, Read, StartFailedRecord } from './exit-record.js';
import type { Claim } from './run-dir.js';

/** What was seen of one run, all at about the same time. */
export interface RunFacts {
  /** False when the intent, or the status, is of another boot: then no pid and no socket means anything. */
  readonly sameBoot: boolean;
  readonly claim: Claim;
  readonly status: Read<ExecutorStatus>;
  readonly record: Read<ExitRecord>;
  /** The process that the status or the handle names as the executor; `unnamed` when neither does. */
  readonly executor: Life;
  /** The leader of the workload, likewise. */
  readonly workload: Life;
  /** Whether an executor of this run answers HELLO; `closed` = nobody listens; `mute` = somebody does, silently. */
  readonly socket: 'answers' | 'mute' | 'closed';
  /** Some process in the run's cgroup. */
  readonly leafPopulated: boolean;
  /** Processes found by what they carry: executors at work on this run, and processes of its workload. */
  readonly otherExecutors: boolean;
  readonly strays: boolean;
  /** The store has a handle: the agent saw this run start. */
  readonly seenStarted: boolean;
  /** The task asked that what outlives its leader be let alone. */
  readonly keepLeftovers: boolean;
}

export type Life = 'alive' | 'dead' | 'unnamed';

export type Verdict =
  | { readonly kind: 'never_started'; readonly detail: string; readonly killFirst: boolean }
  /** Its executor lives and answers. */
  | { readonly kind: 'running' }
  /** Its executor is dead, its workload is not. */
  | { readonly kind: 'adopt' }
  | { readonly kind: 'exited'; readonly record: EndRecord }
  | { readonly kind: 'start_failed'; readonly record: StartFailedRecord }
  /** It is over, and nobody saw how. */
  | {
      readonly kind: 'gone';
      readonly reason: 'host_rebooted' | 'executor_lost';
      readonly detail: string;
      readonly killFirst: boolean;
    }
  /** It is over, and what was written about that cannot be read. */
  | { readonly kind: 'unknown'; readonly detail: string; readonly killFirst: boolean }
  /**
   * It may be running: ask again. `settling` = likely to be clear within a moment; `wake` = its executor is there and
   * cannot be spoken to: it may be stopped, or its socket was removed.
   */
  | {
      readonly kind: 'unreachable';
      readonly detail: string;
      readonly settling: boolean;
      readonly wake: boolean;
    };

/** Puts a run into exactly one drawer. */
export function decideVerdict(facts: RunFacts): Verdict {
  if (!facts.sameBoot) return afterReboot(facts);
  if (facts.executor === 'alive' || facts.socket !== 'closed') return withExecutor(facts);
  if (facts.otherExecutors) return unreachable('its executor is just starting or taking over', true);
  if (facts.workload === 'alive') return withWorkloadOnly(facts);
  if (facts.record.kind === 'ok') return byRecord(facts.record.value);
  return withNobody(facts);
}

/** A record is durable and tells the truth whatever the boot; nothing else of another boot does. */
function afterReboot(facts: RunFacts): Verdict {
  if (facts.record.kind === 'ok') return byRecord(facts.record.value);
  const detail = 'the host was restarted while the task was running';
  return { kind: 'gone', reason: 'host_rebooted', detail, killFirst: false };
}

function withExecutor(facts: RunFacts): Verdict {
  if (facts.socket === 'mute') return unreachable('its executor does not answer', true, true);
  if (facts.socket === 'closed') {
    // Between ready and the socket, or between the record and leaving, this lasts a moment.
    return unreachable('its executor lives and does not listen', true, true);
  }
  const state = facts.status.kind === 'ok' ? facts.status.value.state : undefined;
  if (state === 'ready' || state === 'starting')
    return unreachable('its executor is still starting it', true);
  // Its record is on its way, and says why.
  if (state === 'failed') return unreachable('its start has failed, and that is not on record yet', true);
  return { kind: 'running' };
}

function withWorkloadOnly(facts: RunFacts): Verdict {
  if (facts.record.kind === 'ok')
    return unreachable('an exit record says that it has ended, but its process is there', false);
  if (facts.status.kind !== 'ok')
    return unreachable('its process is there, but its executor is dead and left no readable status', false);
  return { kind: 'adopt' };
}

/** No executor, no leader, no record that can be read. */
function withNobody(facts: RunFacts): Verdict {
  if (facts.status.kind === 'ok') return byStatus(facts, facts.status.value);
  if (facts.leafPopulated || facts.strays)
    return unreachable(
      'processes of it are there, but nothing readable says which of them is the task',
      false,
    );
  if (facts.record.kind === 'unreadable') return unknown(facts.record.why, false);
  if (facts.status.kind === 'unreadable') return unknown(facts.status.why, false);
  if (facts.seenStarted) return lost('its executor is dead and its run directory was lost', false);
  switch (facts.claim.kind) {
    case 'fenced':
      return neverStarted('the agent ended between deciding to start it and starting it', false);
    case 'taken':
      return neverStarted('its executor ended before it was ready', false);
    case 'free':
      return unreachable('it has not been fenced yet', true);
    case 'unclear':
      return unreachable(`it cannot be made sure that it does not start: ${facts.claim.why}`, false);
  }
}

/** The executor that wrote this status is dead, and so is the leader if there was one. */
function byStatus(facts: RunFacts, status: ExecutorStatus): Verdict {
  const killFirst = (facts.leafPopulated || facts.strays) && !facts.keepLeftovers;
  if (facts.record.kind === 'unreadable') return unknown(facts.record.why, killFirst);
  // The workload is held until its pid is in the status: without one, no instruction of it was run.
  if (status.workload === undefined && !facts.seenStarted)
    return neverStarted('its executor was killed before it had started it', killFirst);
  return lost('its executor was killed, and it ended unseen', killFirst);
}

function byRecord(record: ExitRecord): Verdict {
  return record.kind === 'ended' ? { kind: 'exited', record } : { kind: 'start_failed', record };
}

function neverStarted(detail: string, killFirst: boolean): Verdict {
  return { kind: 'never_started', detail, killFirst };
}

function lost(detail: string, killFirst: boolean): Verdict {
  return { kind: 'gone', reason: 'executor_lost', detail, killFirst };
}

function unknown(why: string, killFirst: boolean): Verdict {
  return { kind: 'unknown', detail: `what was written about its end cannot be read: ${why}`, killFirst };
}

function unreachable(detail: string, settling: boolean, wake = false): Verdict {
  return { kind: 'unreachable', detail, settling, wake };
}
