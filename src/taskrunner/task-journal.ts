/**
 * Owns what of a task goes to the store: its record, its events and the run in hand, together, and in the order in which
 * they happened. Says what the caller must wait for before it acts.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { Task } from '../jobspec/types.js';
import type { Change, RunHandle, RunRecord, TaskRecord } from '../state/store.js';
import type { TaskRunnerDeps } from './deps.js';
import type { StepResult } from './draft.js';
import type { Effect, RunChange } from './machine.js';
import type { TaskSpec } from './task-spec.js';

/** What became of a change: `later` = it is on its way to the store, and nothing that was asked for waits for it. */
export type Stored = 'stored' | 'kept' | 'later';

/** How a change is handed over. */
export interface Handover {
  /** Somebody is told that it is done as soon as it is stored. */
  readonly isAwaited: boolean;
  /** What the run of this id is to be found by now, if that has changed since it was stored. */
  readonly changedRef: (runId: string) => RunHandle | undefined;
  /** What came of a change that was answered with `later`. */
  readonly onLater: (how: 'stored' | 'kept') => void;
}

export class TaskJournal {
  readonly #deps: Pick<TaskRunnerDeps, 'bootId' | 'clock' | 'persist' | 'readRun'>;
  readonly #logger: Logger;
  readonly #spec: TaskSpec;
  /** The run in hand, as last handed to the store (which may be a moment behind) or read from it. */
  #openRun: RunRecord | undefined;
  /** As last handed to the store, and taken by it. */
  #handedOver: TaskRecord;
  /** Of the task as it was last started. */
  #hashed: { readonly task: Task; readonly hash: string } | undefined;

  constructor(
    deps: Pick<TaskRunnerDeps, 'bootId' | 'clock' | 'persist' | 'readRun'>,
    logger: Logger,
    spec: TaskSpec,
  ) {
    this.#deps = deps;
    this.#logger = logger;
    this.#spec = spec;
    this.#handedOver = spec.subject.record;
  }

  /** Reads the run in hand, and keeps it up to date from now on. */
  openRun(runId: string): RunRecord | undefined {
    if (this.#openRun?.runId !== runId) this.#openRun = this.#deps.readRun(runId);
    return this.#openRun;
  }

  /** Stores what a step came to. @returns `refusal`: the store has refused the intent, in words; nothing may be started */
  async write(
    result: StepResult,
    { isAwaited, changedRef, onLater }: Handover,
  ): Promise<Stored | { readonly refusal: string }> {
    const { record } = result.state;
    const runChanges = [
      ...this.#refreshedRun(changedRef),
      ...result.runChanges.flatMap((change) => this.#runChange(change)),
    ];
    // A task that is found again as it was, or waits for a full disk or a lost executor, says the same again.
    if (runChanges.length === 0 && isDeepStrictEqual(record, this.#handedOver)) return 'stored';
    const changes = [...runChanges, ...taskChanges(result)];
    const isIntent = result.effects.some((effect) => effect.kind === 'start');
    const commit = this.#deps.persist(record, changes, isIntent ? 'reject' : 'keep');
    if (!isIntent) this.#handedOver = record;
    if (!isIntent && !isAwaited && result.effects.every(canRunBeforeStored)) {
      // The store keeps the order; waiting here would only make the next event wait. What waits is the cleaning up.
      commit.then(onLater, (error: unknown) => {
        this.#logger.error({ error: describeError(error) }, 'a change can never be stored, ignoring');
        onLater('kept');
      });
      return 'later';
    }
    try {
      const how = await commit;
      this.#handedOver = record;
      return how;
    } catch (error) {
      this.#logger.error({ error: describeError(error) }, 'cannot store a change of the task');
      return isIntent ? { refusal: describeError(error) } : 'kept';
    }
  }

  /** What is on record of the run in hand, when its limits were changed. */
  #refreshedRun(changedRef: Handover['changedRef']): readonly Change[] {
    const run = this.#openRun;
    const ref = run === undefined ? undefined : changedRef(run.runId);
    if (run === undefined || ref === undefined) return [];
    this.#openRun = { ...run, handle: ref };
    return [{ kind: 'put_run', run: this.#openRun }];
  }

  #runChange(change: RunChange): readonly Change[] {
    const { allocId, task } = this.#spec.subject;
    if (change.kind === 'intend') {
      const run: RunRecord = {
        runId: change.runId,
        allocId,
        task: task.name,
        attempt: change.attempt,
        driver: task.driver,
        bootId: this.#deps.bootId,
        specHash: this.#specHash(task),
        intendedAtMs: this.#deps.clock.wallMs(),
        handle: undefined,
        startedAtMs: undefined,
        outcome: undefined,
      };
      this.#openRun = run;
      return [{ kind: 'put_run', run }];
    }
    const open = this.#openRun;
    if (open?.runId !== change.runId) return [];
    const run: RunRecord =
      change.kind === 'started'
        ? { ...open, handle: change.ref, startedAtMs: change.startedAtMs }
        : {
            ...open,
            outcome: change.outcome,
            startedAtMs:
              open.startedAtMs ??
              (change.outcome.kind === 'ended' ? change.outcome.report.startedAtMs : undefined),
          };
    this.#openRun = run;
    return isDeepStrictEqual(run, open) ? [] : [{ kind: 'put_run', run }];
  }

  #specHash(task: Task): string {
    if (this.#hashed?.task !== task) {
      const hash = createHash('sha256').update(JSON.stringify(task)).digest('hex');
      this.#hashed = { task, hash };
    }
    return this.#hashed.hash;
  }
}

function taskChanges({ state: { record }, events }: StepResult): readonly Change[] {
  const { allocId, task } = record;
  return [
    { kind: 'put_task', task: record },
    ...events.map((event): Change => ({ kind: 'add_task_event', allocId, task, event })),
  ];
}

/** Effects that are harmless if the agent dies before the record is stored: they are simply done again. */
function canRunBeforeStored(effect: Effect): boolean {
  return (
    effect.kind === 'release' ||
    effect.kind === 'run_hooks' ||
    effect.kind === 'run_update_hooks' ||
    effect.kind === 'set_timer' ||
    effect.kind === 'abort_hooks' ||
    effect.kind === 'detach'
  );
}
