/**
 * Owns the record of one alloc: keeps it up to what is known of its tasks, and stores it with the change of a task that
 * it comes from, or by itself. What it says comes from the pure files beside it; it asks nothing of the tasks.
 */
import type { Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { TaskEvent } from '../events/task-event.js';
import type { Job, JobType, TaskGroup } from '../jobspec/types.js';
import { updateOf } from '../jobspec/update-rules.js';
import type { AllocRecord, Change, Moment, StateStore, TaskRecord, WhenRefused } from '../state/store.js';
import { newTaskRecord } from '../taskrunner/machine.js';
import type { TaskRunner } from '../taskrunner/task-runner.js';
import { reduceClientStatus } from './client-status.js';
import type { AllocSubject } from './deps.js';
import { decideEnding } from './ending.js';
import {
  decideHealth,
  isLost,
  whyTaskIsNotWell,
  type CheckVerdict,
  type HealthState,
  type WatchedTask,
} from './health.js';
import type { GatedTask } from './lifecycle-gate.js';
import { decideRunTime } from './run-time.js';

/** What can be wished of an alloc. */
export type AllocWish = Partial<
  Pick<
    AllocRecord,
    'desiredStatus' | 'desiredDescription' | 'noShutdownDelay' | 'jobVersion' | 'deploymentId' | 'health'
  >
>;

export interface AllocJournalDeps {
  readonly clock: Clock;
  readonly bootId: string;
  readonly logger: Logger;
  readonly store: StateStore;
  /** The tasks are over, or the agent leaves: nothing is judged any more. */
  readonly isAtRest: () => boolean;
  /** How sure this agent is of a task's record; undefined while it has no runner yet. */
  readonly supervision: (task: string) => TaskRunner['supervision'] | undefined;
  /** What the checks that count say together. */
  readonly checks: () => CheckVerdict;
  /** Tells something of a task. */
  readonly say: (task: string, event: TaskEvent) => void;
}

export class AllocJournal {
  readonly #deps: AllocJournalDeps;
  readonly #records = new Map<string, TaskRecord>();
  #alloc: AllocRecord;
  #group: TaskGroup;
  #jobType: JobType;
  /** The store has refused the record, with an intent: it goes with the next change. */
  #isOwed = false;
  /** A bad verdict that tasks are being told of: it is stored with the first event that tells of it. */
  #verdict: Pick<HealthState, 'health' | 'watch'> | undefined;

  /** Takes up the tasks as they are stored; what is not there is new. */
  constructor(deps: AllocJournalDeps, { alloc, job, group, isNew, records }: AllocSubject) {
    this.#deps = deps;
    this.#alloc = alloc;
    this.#group = group;
    this.#jobType = job.type;
    for (const { name } of group.tasks) {
      const stored = (): TaskRecord | undefined =>
        records === undefined
          ? deps.store.getTask(alloc.id, name)
          : records.find((record) => record.task === name);
      const record = isNew === true ? undefined : stored();
      this.#records.set(name, record ?? newTaskRecord(alloc.id, name));
    }
  }

  /** The newest record, perhaps a moment ahead of the store. */
  get alloc(): AllocRecord {
    return this.#alloc;
  }

  get group(): TaskGroup {
    return this.#group;
  }

  /** The tasks of the group with their newest records. */
  tasks(): readonly GatedTask[] {
    return this.#group.tasks.flatMap((task) => {
      const record = this.#records.get(task.name);
      return record === undefined ? [] : [{ task, record }];
    });
  }

  /** What the alloc is specified as from now on. */
  update(job: Job, group: TaskGroup): void {
    this.#group = group;
    this.#jobType = job.type;
  }

  /** Changes the record; it is stored with what comes next. */
  change(fields: Partial<AllocRecord>): void {
    this.#alloc = { ...this.#alloc, ...fields, modifiedAtMs: this.#deps.clock.wallMs() };
  }

  /** Notes what is wanted of the alloc: every change of a task is stored with it, so that no older wish overwrites it. */
  want(wish: AllocWish): void {
    const isNewVersion = wish.jobVersion !== undefined && wish.jobVersion !== this.#alloc.jobVersion;
    if (isNewVersion || 'health' in wish) this.#verdict = undefined;
    this.change({ ...wish, ...(isNewVersion ? { health: undefined } : {}) });
  }

  /** Stores the record as it is now. @throws AgentError store_unavailable, with `reject` */
  put(whenRefused: WhenRefused): Promise<'stored' | 'kept'> {
    return this.#deps.store.commit([{ kind: 'put_alloc', alloc: this.#alloc }], { whenRefused });
  }

  /** Stores that the whole alloc shall begin anew. @throws AgentError store_unavailable: then nothing has changed */
  async beginGeneration(): Promise<void> {
    const generation = this.#alloc.generation ?? 0;
    this.change({ generation: generation + 1 });
    try {
      await this.put('reject');
    } catch (error) {
      this.change({ generation });
      // It may have gone to the store with a change of a task.
      this.#isOwed = true;
      throw error;
    }
  }

  /** Stores changes of a task, and with them what follows of them for the alloc. */
  persistTask(
    record: TaskRecord,
    changes: readonly Change[],
    whenRefused: WhenRefused,
  ): Promise<'stored' | 'kept'> {
    this.#records.set(record.task, record);
    const before = this.#alloc;
    if (this.#verdict !== undefined && changes.some(tellsOfVerdict)) {
      const { health, watch } = this.#verdict;
      this.#verdict = undefined;
      this.change({ health, healthWatch: watch });
    }
    this.#reduce();
    if (this.#alloc === before && !this.#isOwed) return this.#deps.store.commit(changes, { whenRefused });
    this.#isOwed = false;
    const commit = this.#deps.store.commit([...changes, { kind: 'put_alloc', alloc: this.#alloc }], {
      whenRefused,
    });
    commit.catch(() => {
      this.#isOwed = true;
    });
    return commit;
  }

  /** Brings the record up to date, and stores it when that has changed anything. @returns when to look again */
  keepUp(fields: Partial<AllocRecord> = {}): readonly number[] {
    const before = this.#alloc;
    if (Object.keys(fields).length > 0) this.change(fields);
    const lookAgainInMs = this.#reduce();
    if (this.#alloc !== before) {
      this.put('keep').catch((error: unknown) => {
        this.#deps.logger.error({ error: describeError(error) }, 'a change can never be stored, ignoring');
      });
    }
    return lookAgainInMs;
  }

  /** Now, as a moment that can be stored. */
  now(): Moment {
    const { clock, bootId } = this.#deps;
    return { wallMs: clock.wallMs(), monoMs: clock.monoMs(), bootId };
  }

  #reduce(): readonly number[] {
    const runTime = this.#watchRunTime();
    const { status, description } = reduceClientStatus(
      [...this.#records.values()],
      this.#alloc.runTime?.isOver,
    );
    if (status !== this.#alloc.clientStatus || description !== this.#alloc.clientDescription) {
      this.change({ clientStatus: status, clientDescription: description });
    }
    const judged = this.#judge();
    if (judged === undefined) return [runTime].flatMap((ms) => ms ?? []);
    const { health, watch } = judged;
    const isNew = health?.healthy === false && this.#alloc.health === undefined;
    if (isNew && this.#tellUnhealthy(health.detail)) this.#verdict = { health, watch };
    else if (health !== this.#alloc.health || watch !== this.#alloc.healthWatch) {
      this.change({ health, healthWatch: watch });
    }
    return [runTime, judged.lookAgainInMs].flatMap((ms) => ms ?? []);
  }

  /** @returns when to look again */
  #watchRunTime(): number | undefined {
    if (this.#deps.isAtRest() || decideEnding(this.#alloc, this.tasks()) !== undefined) return;
    const { runTime, lookAgainInMs } = decideRunTime(this.#alloc, this.#group, this.now());
    if (runTime !== this.#alloc.runTime) this.change({ runTime });
    return lookAgainInMs;
  }

  /** What is to be said of the alloc's health now; undefined while that must not be said. */
  #judge(): HealthState | undefined {
    if (this.#verdict !== undefined) return undefined;
    if (this.#deps.isAtRest() || this.#alloc.desiredStatus === 'stop') return undefined;
    const tasks = this.#watched();
    if (tasks === undefined) return undefined;
    return decideHealth({
      alloc: this.#alloc,
      strategy: updateOf(this.#jobType, this.#group),
      tasks,
      checks: this.#deps.checks(),
      now: this.now(),
    });
  }

  /** Undefined while this agent does not know yet what became of a run of the agent before. */
  #watched(): readonly WatchedTask[] | undefined {
    const watched = this.tasks().map((one) => ({
      ...one,
      supervision: this.#deps.supervision(one.task.name) ?? 'not_known_yet',
    }));
    if (watched.some(({ supervision }) => supervision === 'not_known_yet')) return undefined;
    return watched.map((one) => ({ ...one, isSupervised: one.supervision === 'yes' }));
  }

  /**
   * Said to the tasks that are to blame; what has failed or ended has said so itself.
   * @returns whether it is on its way to anyone
   */
  #tellUnhealthy(message: string): boolean {
    const tasks = this.#watched() ?? [];
    if (tasks.some(isLost)) return false;
    const toBlame = tasks.filter((one) => whyTaskIsNotWell(one) !== undefined);
    for (const { task } of toBlame.length > 0 ? toBlame : tasks) {
      this.#deps.say(task.name, { type: 'Alloc Unhealthy', message });
    }
    return true;
  }
}

function tellsOfVerdict(change: Change): boolean {
  return change.kind === 'add_task_event' && change.event.event.type === 'Alloc Unhealthy';
}
