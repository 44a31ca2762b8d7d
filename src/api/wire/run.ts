/** Owns the shapes of the history of a task: its runs and its events. */
import type { ExitJson, TaskEvent } from './alloc.js';

/** GET /v1/holdfast/allocation/:id/runs: one attempt to start a task. */
export interface Run {
  readonly RunID: string;
  readonly AllocID: string;
  readonly Task: string;
  readonly Attempt: number;
  readonly Driver: string;
  readonly BootID: string;
  readonly SpecHash: string;
  readonly Outcome: 'open' | 'ended' | 'start_failed' | 'never_started';
  readonly IntendedAt: string;
  readonly StartedAt: string | null;
  /** For an unknown end: when it was noticed. */
  readonly EndedAt: string | null;
  /** By the monotonic clock, nanoseconds. */
  readonly RanFor: number | null;
  readonly Pid: number | null;
  /** Set when Outcome is `ended`. */
  readonly Exit: ExitJson | null;
  /** Why it did not start; '' otherwise. */
  readonly Error: string;
  /** Null altogether while it is open; what nobody measured is null. */
  readonly Usage: {
    readonly CPUUserMs: number | null;
    readonly CPUSystemMs: number | null;
    readonly PeakMemoryBytes: number | null;
  } | null;
  /** False when bytes at the tail of its output may be missing; null while it is open. */
  readonly LogComplete: boolean | null;
  readonly LeftoversKilled: number;
  /** How often its memory was at the limit; null = not counted. */
  readonly MemoryLimitHits: number | null;
}

/** GET /v1/holdfast/events: a task event with its owner. */
export interface TaskEventRow extends TaskEvent {
  readonly AllocID: string;
  readonly JobID: string;
  readonly Task: string;
}
