/**
 * Owns the words of the task runner's state machine: what it can be in, what can happen to it, and what it can ask
 * its shell to do. The rules are in step.ts and rules/; the shell in task-runner.ts.
 */
import type { TaskEvent } from '../events/task-event.js';
import type { ExitReport, ExitResult } from '../events/exit-result.js';
import type { JobType, Task } from '../jobspec/types.js';
import type { RunHandle, RunOutcome, TaskRecord } from '../state/store.js';
import type { AttemptEnd } from './restart-policy.js';

/**
 * Where the runner is. The record (durable) says what the world needs to know; the mode (volatile) says what the
 * runner itself waits for. After a crash the mode is rebuilt from the record by the event `begin`.
 */
export type Mode =
  | { readonly at: 'new' }
  /** For the lifecycle gate. */
  | { readonly at: 'waiting' }
  | { readonly at: 'prestart' }
  /** The store refused the intent: nothing was started, a timer tries again. */
  | { readonly at: 'store_wait' }
  /** The intent is being stored, then the driver starts it. */
  | { readonly at: 'starting'; readonly runId: string }
  /** Finding out what became of a run after a restart of the agent. */
  | { readonly at: 'recovering'; readonly runId: string; readonly tries: number }
  | { readonly at: 'running'; readonly runId: string }
  | { readonly at: 'stopping'; readonly runId: string; readonly stage: StopStage; readonly attempt: number }
  /** The run ended and that is stored; exited hooks are at work, then it is decided what follows. */
  | { readonly at: 'exited'; readonly end: AttemptEnd }
  | { readonly at: 'backoff' }
  /** Resident until the alloc ends. */
  | { readonly at: 'dead' }
  /** Stop hooks are at work. */
  | { readonly at: 'finishing' }
  | { readonly at: 'complete' }
  /** The agent is leaving: nothing is done or stored any more. */
  | { readonly at: 'left' };

/** How far a stop has come. `retry` waits after a failed kill. */
export type StopStage = 'pre_kill' | 'delay' | 'signal' | 'retry';

export interface RunnerState {
  readonly record: TaskRecord;
  readonly mode: Mode;
  /** As of the newest job version: settings are read when they are used, never when a run starts. */
  readonly task: Task;
  readonly jobType: JobType;
  /** The lifecycle gate has opened. It may open while the runner is busy with something else. */
  readonly gateOpen: boolean;
  /** Id of the one timer that counts when it fires: it counts only in the mode that set it. */
  readonly timer: number;
  /** Skip `shutdown_delay` in the stop under way. */
  readonly skipDelay: boolean;
}

export type HookPhase = 'prestart' | 'poststart' | 'pre_kill' | 'exited' | 'stop';

/** What happens to a runner. */
export type RunnerEvent =
  /** First of all. `lastRanForMs`: of the newest ended run, if known. */
  | { readonly kind: 'begin'; readonly lastRanForMs: number | undefined }
  | { readonly kind: 'gate_open' }
  /** Why the gate is closed, in words; '' = the usual. */
  | { readonly kind: 'held'; readonly why: string }
  /** `attempt` as in the effect that this answers. */
  | { readonly kind: 'hooks_done'; readonly phase: HookPhase; readonly attempt: number }
  /** A hook takes long; in words, what for. */
  | {
      readonly kind: 'waiting_on';
      readonly phase: HookPhase;
      readonly attempt: number;
      readonly what: string;
    }
  /** Only prestart can fail; all others log and go on. */
  | {
      readonly kind: 'prestart_failed';
      readonly event: TaskEvent;
      readonly recoverable: boolean;
      readonly cancelled: boolean;
    }
  /** The intent could not be made durable: nothing was started. */
  | { readonly kind: 'not_stored'; readonly error: string }
  | {
      readonly kind: 'started';
      readonly runId: string;
      readonly ref: RunHandle;
      readonly startedAtMs: number;
    }
  | {
      readonly kind: 'start_failed';
      readonly runId: string;
      readonly event: TaskEvent;
      readonly error: string;
      readonly recoverable: boolean;
    }
  /** The driver cannot say whether it started: it must be found out, not tried again. */
  | { readonly kind: 'start_uncertain'; readonly runId: string; readonly error: string }
  | {
      readonly kind: 'recovered_running';
      readonly runId: string;
      readonly ref: RunHandle;
      readonly startedAtMs: number;
    }
  | {
      readonly kind: 'recovered_start_failed';
      readonly runId: string;
      readonly error: string;
      readonly recoverable: boolean;
    }
  | { readonly kind: 'recovered_never_started'; readonly runId: string; readonly detail: string }
  | { readonly kind: 'unreachable'; readonly runId: string; readonly detail: string }
  /** Seen live, or found by recovery. */
  | { readonly kind: 'exited'; readonly runId: string; readonly report: ExitReport }
  | { readonly kind: 'stop_failed'; readonly runId: string; readonly error: string }
  | { readonly kind: 'timer'; readonly id: number }
  | {
      readonly kind: 'kill';
      readonly reason: string;
      readonly skipDelay: boolean;
      /** Said first, for example that a sibling failed. */
      readonly because: TaskEvent | undefined;
    }
  /** `byPolicy`: it counts against the restart policy, which may say no. */
  | { readonly kind: 'restart'; readonly reason: string; readonly byPolicy?: boolean }
  /** The whole alloc starts anew: end what runs, then begin again as if nothing had been, also after a success. */
  | { readonly kind: 'renew'; readonly generation: number; readonly reason: string }
  | { readonly kind: 'signal'; readonly signal: string; readonly reason: string }
  /** Every task of the alloc is dead: run the stop hooks and be done. */
  | { readonly kind: 'finish' }
  | { readonly kind: 'update'; readonly task: Task; readonly jobType: JobType }
  | { readonly kind: 'say'; readonly event: TaskEvent }
  | { readonly kind: 'shutdown' };

/** What the shell shall do, after the new record is stored, in this order. */
export type Effect =
  /** `attempt`: attempts made when it was asked for, so that an answer that comes too late is known as such. */
  | { readonly kind: 'run_hooks'; readonly phase: HookPhase; readonly attempt: number }
  /** The job was changed in place. */
  | { readonly kind: 'run_update_hooks'; readonly attempt: number; readonly before: Task }
  /** Cancels prestart hooks; their answer still comes. */
  | { readonly kind: 'abort_hooks' }
  /** The intent must be durable first: if the store refuses it the shell answers `not_stored` and does not start. */
  | { readonly kind: 'start'; readonly runId: string }
  | { readonly kind: 'recover'; readonly runId: string }
  | { readonly kind: 'stop'; readonly runId: string; readonly signal: string; readonly graceMs: number }
  | { readonly kind: 'signal'; readonly signal: string }
  /** Frees what the run held on the host; its end is stored by now. */
  | { readonly kind: 'release'; readonly runId: string }
  | { readonly kind: 'set_timer'; readonly id: number; readonly delayMs: number }
  | { readonly kind: 'detach' }
  /** The runner's life is over; its promise resolves. */
  | { readonly kind: 'done' };

/** A change of the runs table that goes with the record. */
export type RunChange =
  | { readonly kind: 'intend'; readonly runId: string; readonly attempt: number }
  | {
      readonly kind: 'started';
      readonly runId: string;
      readonly ref: RunHandle;
      readonly startedAtMs: number;
    }
  | { readonly kind: 'outcome'; readonly runId: string; readonly outcome: RunOutcome };

/** Time, chance and settings of the agent, for one step. */
export interface StepContext {
  readonly wallMs: number;
  readonly monoMs: number;
  readonly bootId: string;
  /** Uniform in [0, 1). */
  readonly roll: number;
  /** An id nobody has used. */
  readonly freshRunId: string;
  readonly defaultKillSignal: string;
  /** The agent's cap on a task's kill_timeout. */
  readonly maxKillTimeoutMs: number;
}

/** A runner to which nothing has happened yet: `begin` is its first event. */
export function newRunnerState(record: TaskRecord, task: Task, jobType: JobType): RunnerState {
  return { record, mode: { at: 'new' }, task, jobType, gateOpen: false, timer: 0, skipDelay: false };
}

/** The record of a task that has never been touched. */
export function newTaskRecord(allocId: string, task: string): TaskRecord {
  return {
    allocId,
    task,
    state: 'pending',
    phase: 'waiting',
    phaseDetail: '',
    failed: false,
    restarts: 0,
    lastRestartAtMs: undefined,
    startedAtMs: undefined,
    finishedAtMs: undefined,
    restartWindow: undefined,
    nextStart: undefined,
    lastExit: undefined,
    runId: undefined,
    attempts: 0,
    killReason: undefined,
    restartReason: undefined,
    lastEventSeq: 0,
    eventsDropped: 0,
    recentEvents: [],
  };
}

/** An end that nobody can tell anything about: for records whose run is closed without one. */
export const UNSEEN_EXIT: ExitResult = {
  kind: 'unknown',
  reason: 'supervision_lost',
  detail: 'the record of its end is missing',
};
