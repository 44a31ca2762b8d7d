/**
 * Owns jobs in stand-alone mode: registers, stops and purges them, and carries out what place.ts decides. One
 * evaluation at a time, so that no place is ever filled twice. Over 300 lines because registering, stopping and
 * purging share that one turn and its retries.
 */
import type { AllocSubject, AllocTable } from '../allocrunner/alloc-table.js';
import type { Clock } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import { newUuid } from '../base/ids.js';
import type { Logger } from '../base/log.js';
import type { Job } from '../jobspec/types.js';
import type { AllocRecord, Change, JobRecord, StateStore } from '../state/store.js';
import { newTaskRecord } from '../taskrunner/machine.js';
import { whileIneligible } from './drain.js';
import { place, type PlaceInput, type Placement } from './place.js';
import { nextJob, planJob, type JobPlan } from './plan.js';

export interface SchedulerDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: StateStore;
  readonly allocs: AllocTable;
  /** Removes what an alloc left on disk. */
  readonly removeAllocDir: (allocId: string) => Promise<void>;
  /** False while this host takes nothing new; absent = it always does. */
  readonly mayPlace?: () => boolean;
}

/** What a registration, stop or evaluation came to. */
export interface Evaluated {
  readonly evalId: string;
  readonly index: number;
  readonly version: number;
  readonly jobModifyIndex: number;
  readonly unchanged: boolean;
}

/** How soon a job is looked at again when the store refused what it needed. */
const EVALUATE_RETRY_MS = 5_000;

interface EvaluateOptions {
  /** The job as it was just changed, for when the store keeps the change but cannot show it yet. */
  readonly job?: JobRecord;
  readonly retryFailed?: boolean;
  readonly noShutdownDelay?: boolean;
}

/** Key in the host table: this job is to be forgotten once its allocs are over. */
const purgeKey = (jobId: string): string => `purge/${jobId}`;

export class Scheduler {
  readonly #deps: SchedulerDeps;
  #last: Promise<unknown> = Promise.resolve();
  /** Jobs for which a timer is set. */
  readonly #reconsidering = new Set<string>();

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    deps.allocs.onEnded((jobId) => {
      void this.#reconsider(jobId);
    });
  }

  /** Takes up every alloc that was not over when the agent ended, then whatever its jobs still want. */
  async restore(): Promise<void> {
    const { store, allocs } = this.#deps;
    for (const { record: alloc } of store.listAllocs()) {
      const tasks = store.listTasks(alloc.id);
      const over = tasks.length > 0 && tasks.every((task) => task.phase === 'complete');
      const subject = over ? undefined : this.#subject(alloc);
      if (subject !== undefined) allocs.run(subject);
    }
    for (const { record: job } of store.listJobs()) {
      await this.#reconsider(job.id);
    }
  }

  /** @throws AgentError conflict, store_unavailable */
  register(spec: Job, checkIndex?: number): Promise<Evaluated> {
    return this.#inTurn(async () => {
      const { store, clock } = this.#deps;
      const before = store.getJob(spec.id);
      const indexNow = before?.modifyIndex ?? 0;
      if (checkIndex !== undefined && checkIndex !== indexNow) {
        throw new AgentError(
          'conflict',
          `job ${spec.id} has changed: its index is ${indexNow}, not ${checkIndex}; look at it with "holdfast inspect ${spec.id}", then run it with --check-index ${indexNow}`,
        );
      }
      const job = nextJob(before?.record, spec, clock.wallMs());
      const same = job === before?.record;
      if (!same) {
        await store.commit(
          [
            { kind: 'put_job', job },
            { kind: 'put_host', key: purgeKey(spec.id), value: '' },
          ],
          { whenRefused: 'reject' },
        );
      }
      await this.#evaluateOrRetry(spec.id, { retryFailed: true });
      return this.#evaluated(spec.id, same);
    });
  }

  /** Says what `register` would do now, and does nothing. */
  plan(spec: Job): JobPlan {
    const { store, clock } = this.#deps;
    return planJob(store.getJob(spec.id), spec, { ...this.#seen(spec.id), nowMs: clock.wallMs() });
  }

  /**
   * Acts also when the disk refuses writes (a task may be what fills it); the store keeps the change until it can.
   * @throws AgentError not_found
   */
  stop(
    jobId: string,
    options: { readonly purge: boolean; readonly noShutdownDelay: boolean },
  ): Promise<Evaluated> {
    return this.#inTurn(async () => {
      const { store } = this.#deps;
      const before = store.getJob(jobId);
      if (before === undefined) throw new AgentError('not_found', `no job ${jobId}: see holdfast ps -a`);
      const { record } = before;
      const job = record.stopped ? record : { ...record, version: record.version + 1, stopped: true };
      const changes: Change[] = record.stopped ? [] : [{ kind: 'put_job', job }];
      if (options.purge) changes.push({ kind: 'put_host', key: purgeKey(jobId), value: 'yes' });
      if (changes.length > 0) await store.commit(changes, { whenRefused: 'keep' });
      if (options.noShutdownDelay) await this.#hurry(jobId);
      await this.#evaluateOrRetry(jobId, { job, noShutdownDelay: options.noShutdownDelay });
      return this.#evaluated(jobId, changes.length === 0);
    });
  }

  /** Stops one alloc; the evaluation when it is over fills its place again. @throws AgentError not_found */
  stopAlloc(
    allocId: string,
    noShutdownDelay: boolean,
    why = 'alloc was stopped by request',
  ): Promise<{ evalId: string; index: number }> {
    return this.#inTurn(async () => {
      const { store } = this.#deps;
      const found = store.getAlloc(allocId);
      if (found === undefined) throw new AgentError('not_found', `no alloc ${allocId}`);
      await this.#stopAllocs([{ alloc: found.record, why }], noShutdownDelay);
      return { evalId: newUuid(), index: store.index() };
    });
  }

  /** Looks at every job again, in its turn: this host takes new allocs again. */
  reconsiderAll(): void {
    for (const { record: job } of this.#deps.store.listJobs()) void this.#reconsider(job.id);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Looks at a job again because something happened to it. Never rejects: what cannot be done now is tried later. */
  async #reconsider(jobId: string): Promise<void> {
    const { allocs, store, logger } = this.#deps;
    if (allocs.leaving) return;
    // What is kept for the disk is not seen by reads yet, and a place must be judged by how its alloc really ended.
    if (store.keptChanges() > 0) {
      this.#reconsiderLater(jobId);
      return;
    }
    await this.#inTurn(() => this.#evaluateOrRetry(jobId, {})).catch((error: unknown) => {
      logger.error({ job_id: jobId, error: describeError(error) }, 'cannot evaluate a job, trying again');
    });
  }

  #reconsiderLater(jobId: string): void {
    if (this.#reconsidering.has(jobId)) return;
    this.#reconsidering.add(jobId);
    const timer = this.#deps.clock.setTimer(EVALUATE_RETRY_MS, () => {
      this.#reconsidering.delete(jobId);
      void this.#reconsider(jobId);
    });
    timer.unref();
  }

  /** The wish is stored by now: when it cannot be carried out at once, that is for us to repeat. */
  async #evaluateOrRetry(jobId: string, options: EvaluateOptions): Promise<void> {
    try {
      await this.#evaluate(jobId, options);
      if (this.#deps.store.keptChanges() > 0) this.#reconsiderLater(jobId);
    } catch (error) {
      this.#reconsiderLater(jobId);
      throw error;
    }
  }

  async #evaluate(jobId: string, options: EvaluateOptions): Promise<void> {
    const { store } = this.#deps;
    const job = options.job ?? store.getJob(jobId)?.record;
    if (job === undefined) return;
    const wanted = place({ ...this.#seen(jobId), job, retryFailed: options.retryFailed ?? false });
    const placements = (this.#deps.mayPlace?.() ?? true) ? wanted : whileIneligible(wanted, job);
    await this.#stopAllocs(
      placements.filter((placement) => placement.kind === 'stop'),
      options.noShutdownDelay ?? false,
    );
    await this.#run(job, placements);
    await this.#purgeIfOver(job);
  }

  /** What of this host decides about the places of a job. */
  #seen(jobId: string): Pick<PlaceInput, 'allocs' | 'isLive' | 'specOf'> {
    const { store, allocs } = this.#deps;
    return {
      allocs: store.listAllocs({ jobId }).map(({ record }) => record),
      isLive: (id) => allocs.isLive(id),
      specOf: (version) => store.getJobVersion(jobId, version)?.record.spec,
    };
  }

  /** Allocs that stop already, and wait for `shutdown_delay`, shall not wait any longer. */
  async #hurry(jobId: string): Promise<void> {
    const { store, allocs } = this.#deps;
    const waiting = store
      .listAllocs({ jobId })
      .flatMap(({ record }) => allocs.get(record.id)?.alloc ?? [])
      .filter((alloc) => alloc.desiredStatus === 'stop' && !alloc.noShutdownDelay);
    await this.#stopAllocs(
      waiting.map((alloc) => ({ alloc, why: alloc.desiredDescription })),
      true,
    );
  }

  async #stopAllocs(
    stops: readonly { readonly alloc: AllocRecord; readonly why: string }[],
    noShutdownDelay: boolean,
  ): Promise<void> {
    const { store, allocs, logger } = this.#deps;
    const stopped = stops.flatMap(({ alloc, why }) => {
      const runner = allocs.get(alloc.id);
      if (runner === undefined) return [];
      const wish = { desiredStatus: 'stop', desiredDescription: why, noShutdownDelay } as const;
      return [{ runner, alloc: runner.want(wish) }];
    });
    if (stopped.length === 0) return;
    // A disk that refuses writes must not keep anything alive: stopping acts all the same.
    const puts = stopped.map(({ alloc }): Change => ({ kind: 'put_alloc', alloc }));
    await store.commit(puts, { whenRefused: 'keep' }).catch((error: unknown) => {
      logger.error({ error: describeError(error) }, 'cannot store that allocs shall stop, stopping them');
    });
    for (const { runner } of stopped) runner.stop();
  }

  async #run(job: JobRecord, placements: readonly Placement[]): Promise<void> {
    const { store, clock, allocs } = this.#deps;
    const created = placements
      .filter((placement) => placement.kind === 'create')
      .map(({ group, index }): AllocSubject => {
        return { alloc: newAlloc(job, group.name, index, clock.wallMs()), job: job.spec, group };
      });
    const updated = placements
      .filter((placement) => placement.kind === 'update_in_place')
      .flatMap(({ alloc, group }) => {
        const runner = allocs.get(alloc.id);
        if (runner === undefined) return [];
        return [{ runner, group, before: alloc, alloc: runner.want({ jobVersion: job.version }) }];
      });
    const changes: Change[] = [
      ...updated.map(({ alloc }): Change => ({ kind: 'put_alloc', alloc })),
      ...created.flatMap(({ alloc, group }): Change[] => [
        { kind: 'put_alloc', alloc },
        ...group.tasks.map((task): Change => ({
          kind: 'put_task',
          task: newTaskRecord(alloc.id, task.name),
        })),
      ]),
    ];
    try {
      if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
    } catch (error) {
      for (const { runner, before } of updated) runner.want({ jobVersion: before.jobVersion });
      throw error;
    }
    for (const { runner, group } of updated) runner.update(job.spec, group);
    for (const subject of created) allocs.run(subject);
  }

  async #purgeIfOver(job: JobRecord): Promise<void> {
    const { store, allocs, logger, removeAllocDir } = this.#deps;
    if (!job.stopped || store.getHost(purgeKey(job.id)) !== 'yes') return;
    const remembered = store.listAllocs({ jobId: job.id }).map(({ record }) => record.id);
    if (remembered.some((id) => allocs.isLive(id))) return;
    for (const id of remembered) {
      try {
        await removeAllocDir(id);
      } catch (error) {
        // Forgetting the alloc now would leave a directory that nobody knows of: a purge is over when nothing is left.
        logger.warn(
          { alloc_id: id, error: describeError(error) },
          'cannot remove an alloc directory, trying again',
        );
        this.#reconsiderLater(job.id);
        return;
      }
    }
    await store.commit([
      ...remembered.map((allocId): Change => ({ kind: 'delete_alloc', allocId })),
      { kind: 'delete_job', jobId: job.id },
      { kind: 'put_host', key: purgeKey(job.id), value: '' },
    ]);
  }

  /** An alloc with the spec of its own version; undefined (and logged) when that is not known any more. */
  #subject(alloc: AllocRecord): AllocSubject | undefined {
    const job = this.#deps.store.getJobVersion(alloc.jobId, alloc.jobVersion)?.record.spec;
    const group = job?.groups.find((candidate) => candidate.name === alloc.group);
    if (job === undefined || group === undefined) {
      this.#deps.logger.error(
        { alloc_id: alloc.id, job_id: alloc.jobId, version: alloc.jobVersion },
        'the job version of an alloc is missing: its processes, if any, are not supervised',
      );
      return undefined;
    }
    return { alloc, job, group };
  }

  #evaluated(jobId: string, unchanged: boolean): Evaluated {
    const { store } = this.#deps;
    const job = store.getJob(jobId);
    return {
      evalId: newUuid(),
      index: store.index(),
      version: job?.record.version ?? 0,
      jobModifyIndex: job?.modifyIndex ?? store.index(),
      unchanged,
    };
  }
}

function newAlloc(job: JobRecord, group: string, index: number, nowMs: number): AllocRecord {
  return {
    id: newUuid(),
    jobId: job.id,
    jobVersion: job.version,
    group,
    index,
    desiredStatus: 'run',
    desiredDescription: '',
    noShutdownDelay: false,
    clientStatus: 'pending',
    clientDescription: 'No tasks have started',
    createdAtMs: nowMs,
    modifiedAtMs: nowMs,
  };
}
