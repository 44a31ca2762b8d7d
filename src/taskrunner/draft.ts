/** Owns the making of one step's result: the next record with its stamped events, the run changes, the effects. */
import { appendBounded } from '../events/ring.js';
import { failsTask, type StampedTaskEvent, type TaskEvent } from '../events/task-event.js';
import type { Moment, RunOutcome, TaskPhase, TaskRecord } from '../state/store.js';
import type { Effect, HookPhase, Mode, RunChange, RunnerState, StepContext } from './machine.js';

/** What one step came to. */
export interface StepResult {
  readonly state: RunnerState;
  /** New events, oldest first; they are in `state.record.recentEvents` already. */
  readonly events: readonly StampedTaskEvent[];
  readonly runChanges: readonly RunChange[];
  readonly effects: readonly Effect[];
  /** The request could not be granted and nothing was done; in words, for whoever asked. */
  readonly refused: string | undefined;
}

/** Mutable while one step is worked out, then read once by `result()`. */
export class Draft {
  readonly context: StepContext;
  record: TaskRecord;
  mode: Mode;
  refused: string | undefined;
  #state: RunnerState;
  #timerSet = false;
  readonly #events: StampedTaskEvent[] = [];
  readonly #runChanges: RunChange[] = [];
  readonly #effects: Effect[] = [];

  constructor(state: RunnerState, context: StepContext) {
    this.#state = state;
    this.context = context;
    this.record = state.record;
    this.mode = state.mode;
  }

  get state(): RunnerState {
    return this.#state;
  }

  /** Now, as a moment that can be stored. */
  get now(): Moment {
    return { wallMs: this.context.wallMs, monoMs: this.context.monoMs, bootId: this.context.bootId };
  }

  set(fields: Partial<TaskRecord>): void {
    this.record = { ...this.record, ...fields };
  }

  /** Enters a phase that people see, with what it waits for. */
  enter(phase: TaskPhase, detail = ''): void {
    this.set({ phase, phaseDetail: detail });
    if (this.record.waitingSinceMs !== undefined) this.set({ waitingSinceMs: undefined });
  }

  update(fields: Partial<Pick<RunnerState, 'task' | 'jobType' | 'gateOpen' | 'skipDelay'>>): void {
    this.#state = { ...this.#state, ...fields };
  }

  /** @param atMs wall time it happened, when that is known to be earlier than now */
  emit(event: TaskEvent, atMs = this.context.wallMs): void {
    const stamped: StampedTaskEvent = { seq: this.record.lastEventSeq + 1, atMs, event };
    const { recent, dropped } = appendBounded(this.record.recentEvents, stamped);
    this.#events.push(stamped);
    this.set({
      lastEventSeq: stamped.seq,
      recentEvents: recent,
      eventsDropped: this.record.eventsDropped + dropped,
      ...(failsTask(event) ? { failed: true } : {}),
    });
  }

  effect(effect: Effect): void {
    this.#effects.push(effect);
  }

  runHooks(phase: HookPhase): void {
    this.effect({ kind: 'run_hooks', phase, attempt: this.record.attempts });
  }

  changeRun(change: RunChange): void {
    this.#runChanges.push(change);
  }

  /** Closes the attempt in hand. */
  closeRun(runId: string, outcome: RunOutcome): void {
    this.changeRun({ kind: 'outcome', runId, outcome });
    this.effect({ kind: 'release', runId });
    this.set({ runId: undefined });
    if (this.record.stop !== undefined) this.set({ stop: undefined });
  }

  /** Sets the one timer that counts; an earlier one that fires later is ignored. */
  setTimer(delayMs: number): void {
    this.#timerSet = true;
    this.effect({ kind: 'set_timer', id: this.#state.timer + 1, delayMs });
  }

  result(): StepResult {
    // A new mode does not know what the old one's timer was for.
    const timer = this.#state.timer + (this.#timerSet || this.mode !== this.#state.mode ? 1 : 0);
    return {
      state: { ...this.#state, record: this.record, mode: this.mode, timer },
      events: this.#events,
      runChanges: this.#runChanges,
      effects: this.#effects,
      refused: this.refused,
    };
  }
}
