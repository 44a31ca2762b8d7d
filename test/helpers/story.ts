/** Tells a task's story to step(): one event after the other, with what came of each, and nothing but pure values. */
import type { ExitReport, ExitResult } from '../../src/events/exit-result.js';
import type { StampedTaskEvent } from '../../src/events/task-event.js';
import type { JobType, Task } from '../../src/jobspec/types.js';
import type { RunHandle, TaskRecord } from '../../src/state/store.js';
import type { StepResult } from '../../src/taskrunner/draft.js';
import {
  newRunnerState,
  newTaskRecord,
  type Effect,
  type HookPhase,
  type RunnerEvent,
  type RunnerState,
} from '../../src/taskrunner/machine.js';
import { step } from '../../src/taskrunner/step.js';
import { EXIT_0 } from './scripted-driver.js';
import { aTask } from './specs.js';

export const REF: RunHandle = {
  executor: { pid: 2, startTicks: 1 },
  workload: { pid: 3, startTicks: 1 },
  driverState: {},
};

export interface StoryOptions {
  readonly task?: Task;
  readonly jobType?: JobType;
  readonly record?: TaskRecord;
}

export class Story {
  monoMs = 1_000;
  wallMs = 1_700_000_000_000;
  bootId = 'boot-1';
  state: RunnerState;
  /** What the store would hold. */
  readonly events: StampedTaskEvent[] = [];
  readonly results: StepResult[] = [];
  #runs = 0;

  constructor(options: StoryOptions = {}) {
    const { record = newTaskRecord('a1', 'main'), task = aTask(), jobType = 'service' } = options;
    this.state = newRunnerState(record, task, jobType);
  }

  /** One event. */
  tell(event: RunnerEvent): StepResult {
    const result = step(this.state, event, {
      wallMs: this.wallMs,
      monoMs: this.monoMs,
      bootId: this.bootId,
      roll: 0,
      freshRunId: `run-${(this.#runs += 1)}`,
      defaultKillSignal: 'SIGINT',
      maxKillTimeoutMs: 30_000,
    });
    this.state = result.state;
    this.events.push(...result.events);
    this.results.push(result);
    return result;
  }

  pass(ms: number): this {
    this.monoMs += ms;
    this.wallMs += ms;
    return this;
  }

  /** The agent is started again and reads the record. */
  again(lastRanForMs?: number): StepResult {
    const { record, task, jobType } = this.state;
    this.state = newRunnerState(record, task, jobType);
    return this.tell({ kind: 'begin', lastRanForMs });
  }

  begin(): this {
    this.tell({ kind: 'begin', lastRanForMs: undefined });
    return this;
  }

  gate(): this {
    this.tell({ kind: 'gate_open' });
    return this;
  }

  hooks(phase: HookPhase): this {
    this.tell({ kind: 'hooks_done', phase, attempt: this.state.record.attempts });
    return this;
  }

  /** From anywhere before a start to a workload that runs. */
  up(): this {
    if (this.state.mode.at === 'new') this.begin();
    if (this.state.mode.at === 'waiting') this.gate();
    this.tell({ kind: 'say', event: { type: 'Task Setup', message: 'Building Task Directory' } });
    return this.hooks('prestart').started();
  }

  started(): this {
    this.tell({ kind: 'started', runId: this.runId, ref: REF, startedAtMs: this.wallMs });
    return this;
  }

  startFails(recoverable: boolean): this {
    const event = { type: 'Driver Failure' as const, error: 'no' };
    this.tell({ kind: 'start_failed', runId: this.runId, event, error: 'no', recoverable });
    return this;
  }

  /** The workload ends; exited hooks follow. */
  exits(result: ExitResult = EXIT_0): this {
    this.tell({ kind: 'exited', runId: this.runId, report: this.report(result) });
    return this.hooks('exited');
  }

  report(result: ExitResult): ExitReport {
    return {
      result,
      startedAtMs: this.wallMs,
      endedAtMs: this.wallMs,
      ranForMs: 10,
      usage: undefined,
      logComplete: true,
      leftoversKilled: 0,
    };
  }

  kill(over: { skipDelay?: boolean; sibling?: string } = {}): StepResult {
    const because =
      over.sibling === undefined
        ? undefined
        : { type: 'Sibling Task Failed' as const, sibling: over.sibling };
    return this.tell({
      kind: 'kill',
      reason: 'job was stopped',
      skipDelay: over.skipDelay ?? false,
      because,
    });
  }

  /** The timer that is set fires. */
  timer(): StepResult {
    return this.tell({ kind: 'timer', id: this.state.timer });
  }

  get runId(): string {
    return this.state.record.runId ?? 'none';
  }

  /** Types of all events so far. */
  get said(): string[] {
    return this.events.map(({ event }) => event.type);
  }

  /** Effects of the last event. */
  get effects(): readonly Effect[] {
    return this.results.at(-1)?.effects ?? [];
  }

  get phase(): string {
    return this.state.record.phase;
  }
}
