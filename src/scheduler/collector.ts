/**
 * Owns forgetting what is over: its directories first, then its records, so that nothing is left on disk that nobody
 * knows of. Looks now and then, and when it is asked to. What may go is decided in gc.ts.
 */
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { Clock, Timer } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { Change, StateStore } from '../state/store.js';
import { chooseGarbage, findGarbage, type Garbage, type GcLimits } from './gc.js';

/** How full the disk of the data directory is, in percent. */
export interface DiskUse {
  readonly usedPercent: number;
  readonly inodesUsedPercent: number;
}

export interface CollectorLimits extends GcLimits {
  readonly intervalMs: number;
  /** Above these the oldest goes, until it is below or nothing is left that may. */
  readonly diskUsedPercent: number;
  readonly inodesUsedPercent: number;
}

export interface CollectorDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: StateStore;
  readonly allocs: AllocTable;
  readonly limits: CollectorLimits;
  readonly diskUse: () => Promise<DiskUse>;
  readonly removeAllocDir: (allocId: string) => Promise<void>;
  /** Runs work while no job is changed. */
  readonly exclusively: <T>(work: () => Promise<T>) => Promise<T>;
}

export class Collector implements Disposable {
  readonly #deps: CollectorDeps;
  #timer: Timer | undefined;
  #isClosed = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: CollectorDeps) {
    this.#deps = deps;
  }

  /** Looks now and then from now on. */
  start(): void {
    const { clock, limits, logger } = this.#deps;
    this.#timer = clock.setTimer(limits.intervalMs, () => {
      this.#inTurn(() => this.#collectDue())
        .catch((error: unknown) => {
          logger.warn({ error: describeError(error) }, 'cannot collect what is over, trying again');
        })
        .finally(() => {
          if (!this.#isClosed) this.start();
        });
    });
    this.#timer.unref();
  }

  /** Forgets everything that may be forgotten. @returns how many allocs went */
  collectAll(): Promise<number> {
    return this.#inTurn(() => this.#forget(this.#find()));
  }

  /** Forgets one alloc. @throws AgentError not_found; bad_request: it is needed, with the reason */
  collect(allocId: string): Promise<void> {
    return this.#inTurn(async () => {
      const { store, allocs } = this.#deps;
      const alloc = store.getAlloc(allocId)?.record;
      if (alloc === undefined) throw new AgentError('not_found', `no alloc ${allocId}: see holdfast ps -a`);
      if (allocs.isLive(allocId))
        throw new AgentError('bad_request', `alloc ${allocId} is not over: stop it first`);
      const found = this.#find().find(({ allocIds }) => allocIds.includes(allocId));
      if (found === undefined) {
        const why = `it is the newest in its place of job ${alloc.jobId}`;
        throw new AgentError(
          'bad_request',
          `alloc ${allocId} cannot be forgotten: ${why}; stop the job first`,
        );
      }
      await this.#forget([found]);
    });
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#timer?.[Symbol.dispose]();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #collectDue(): Promise<void> {
    const { clock, limits } = this.#deps;
    await this.#forget(chooseGarbage(this.#find(), limits, clock.wallMs()));
    for (const oldest of this.#find()) {
      if (this.#isClosed || !(await this.#isFull())) return;
      await this.#forget([oldest]);
    }
  }

  async #isFull(): Promise<boolean> {
    const { limits, diskUse, logger } = this.#deps;
    try {
      const { usedPercent, inodesUsedPercent } = await diskUse();
      return usedPercent > limits.diskUsedPercent || inodesUsedPercent > limits.inodesUsedPercent;
    } catch (error) {
      logger.warn({ error: describeError(error) }, 'cannot see how full the disk is, ignoring');
      return false;
    }
  }

  #find(): readonly Garbage[] {
    const { store, allocs } = this.#deps;
    // What is kept for the disk is not seen yet: nothing may be judged by what was.
    if (store.keptChanges() > 0) return [];
    return findGarbage({
      jobs: store.listJobs().map(({ record }) => record),
      allocs: store.listAllocs().map(({ record }) => record),
      isLive: (id) => allocs.isLive(id),
    });
  }

  async #forget(chosen: readonly Garbage[]): Promise<number> {
    const { logger, exclusively, removeAllocDir } = this.#deps;
    let count = 0;
    for (const one of chosen) {
      if (this.#isClosed) break;
      try {
        // Directories are removed while jobs may change: a dead alloc does not come back to life.
        for (const id of one.allocIds) await removeAllocDir(id);
        count += await exclusively(() => this.#forgetRecords(one));
      } catch (error) {
        logger.warn(
          { job_id: one.jobId, alloc_ids: one.allocIds, error: describeError(error) },
          'cannot forget what is over, trying again later',
        );
      }
    }
    if (count > 0) logger.info({ allocs: count }, 'forgot what is over');
    return count;
  }

  /** @returns how many allocs went: none when it is needed again by now */
  async #forgetRecords(one: Garbage): Promise<number> {
    const { store } = this.#deps;
    const now = this.#find().find(
      ({ jobId, allocIds }) => jobId === one.jobId && allocIds.every((id) => one.allocIds.includes(id)),
    );
    if (now?.wholeJob !== one.wholeJob) return 0;
    const changes: Change[] = one.allocIds.map((allocId) => ({ kind: 'delete_alloc', allocId }));
    if (one.wholeJob) changes.push({ kind: 'delete_job', jobId: one.jobId });
    await store.commit(changes, { whenRefused: 'reject' });
    return one.allocIds.length;
  }
}
