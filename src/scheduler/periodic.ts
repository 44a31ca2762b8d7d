/**
 * Owns the clock of periodic jobs: looks when the next launch is due, and has it made. What was launched last is stored
 * together with the launch, so that an agent that dies in between neither repeats nor forgets one.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Timer } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Change, JobRecord } from '../state/store.js';
import type { HandsDeps } from './hands.js';
import { decideLaunch, nextLaunchMs, periodicChild, type LaunchMark } from './launch.js';

/** Launches are due by the wall clock, which may be set; so it is looked at at least so often. */
const LOOK_MS = 30_000;
/** After a launch that could not be made. */
const RETRY_MS = 5_000;

/** Makes the launch that is due at `slotMs`, together with `changes`. */
export type Launch = (parent: JobRecord, slotMs: number, changes: readonly Change[]) => Promise<void>;

/** Key in the host table: what was launched last. */
const markKey = (jobId: string): string => `periodic/${jobId}`;

export class PeriodicLauncher {
  readonly #deps: HandsDeps;
  readonly #launch: Launch;
  #timer: Timer | undefined;
  #isLooking = false;
  #lookAgain = false;

  constructor(deps: HandsDeps, launch: Launch) {
    this.#deps = deps;
    this.#launch = launch;
  }

  /** Looks now, and from then on whenever something is due. */
  start(): void {
    if (this.#isLooking) {
      this.#lookAgain = true;
      return;
    }
    this.#isLooking = true;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    const looked = this.#look().catch((error: unknown) => {
      this.#deps.logger.error(
        { error: describeError(error) },
        'cannot see which launches are due, trying again',
      );
      return RETRY_MS;
    });
    void looked.then((inMs) => {
      this.#isLooking = false;
      if (this.#lookAgain) {
        this.#lookAgain = false;
        this.start();
        return;
      }
      if (inMs === undefined || this.#deps.allocs.leaving) return;
      this.#timer = this.#deps.clock.setTimer(inMs, () => {
        this.start();
      });
      this.#timer.unref();
    });
  }

  /** What goes with a registration: the rhythm of a new, changed or resumed job begins now. */
  markChanges(before: JobRecord | undefined, job: JobRecord): readonly Change[] {
    if (job.spec.periodic === undefined) return [];
    const nowMs = this.#deps.clock.wallMs();
    const mark = this.#mark(job.id);
    const isSame =
      before !== undefined && !before.stopped && isDeepStrictEqual(before.spec.periodic, job.spec.periodic);
    // Somebody who registers it again may want to be rid of a mark that a wrong clock has set.
    if (isSame && mark !== undefined && mark.slotMs <= nowMs) return [];
    return [this.#putMark(job.id, nowMs)];
  }

  nextLaunchMs(jobId: string): number | undefined {
    const job = this.#deps.store.getJob(jobId)?.record;
    if (job === undefined || job.stopped) return undefined;
    return nextLaunchMs(job.spec, this.#mark(jobId), this.#deps.clock.wallMs());
  }

  /** Makes every launch that is due. @returns after which time to look again; undefined = there is no periodic job */
  async #look(): Promise<number | undefined> {
    const { store, clock, logger, allocs } = this.#deps;
    let againInMs: number | undefined;
    const noLaterThan = (ms: number): void => {
      againInMs = Math.min(againInMs ?? LOOK_MS, Math.max(1, ms));
    };
    for (const { record: job } of store.listJobs()) {
      if (allocs.leaving || job.stopped || job.spec.periodic?.enabled !== true) continue;
      noLaterThan(LOOK_MS);
      try {
        const nextMs = await this.#lookAt(job);
        if (nextMs !== undefined) noLaterThan(nextMs - clock.wallMs());
      } catch (error) {
        logger.error({ job_id: job.id, error: describeError(error) }, 'cannot launch a job, trying again');
        noLaterThan(RETRY_MS);
      }
    }
    return againInMs;
  }

  /** @returns when it is due next, if that is known */
  async #lookAt(job: JobRecord): Promise<number | undefined> {
    const { store, clock, logger } = this.#deps;
    const { periodic } = job.spec;
    if (periodic === undefined) return undefined;
    const nowMs = clock.wallMs();
    const mark = this.#mark(job.id);
    if (mark === undefined) {
      await store.commit([this.#putMark(job.id, nowMs)], { whenRefused: 'reject' });
      return nextLaunchMs(job.spec, undefined, nowMs);
    }
    const decision = decideLaunch(periodic, mark, nowMs);
    switch (decision.kind) {
      case 'never':
        return undefined;
      case 'wait':
        return decision.nextMs;
      case 'begin_anew':
        logger.warn({ job_id: job.id }, 'the clock was set back by more than a day: its launches begin anew');
        await store.commit([this.#putMark(job.id, decision.mark.slotMs)], { whenRefused: 'reject' });
        return undefined;
      case 'launch': {
        const { slotMs } = decision;
        const done = this.#putMark(job.id, slotMs);
        const running = periodic.prohibitOverlap ? this.#running(job.id) : undefined;
        if (running === undefined) {
          await this.#launch(job, slotMs, [done]);
          logger.info({ job_id: job.id, child: periodicChild(job, slotMs, 0).id }, 'launched a periodic job');
        } else {
          await store.commit([done], { whenRefused: 'reject' });
          logger.info({ job_id: job.id, running }, 'a launch is skipped: the one before is not over');
        }
        return nextLaunchMs(job.spec, { slotMs }, clock.wallMs());
      }
    }
  }

  /** A launch of the job that is not over. */
  #running(jobId: string): string | undefined {
    const { store, allocs } = this.#deps;
    return store.listJobs().find(({ record }) => {
      if (record.parentId !== jobId || record.stopped) return false;
      const own = store.listAllocs({ jobId: record.id }).map((alloc) => alloc.record);
      const isWaiting = own.some(
        ({ reschedule, nextAllocId }) => reschedule?.next !== undefined && nextAllocId === undefined,
      );
      return own.length === 0 || isWaiting || own.some(({ id }) => allocs.isLive(id));
    })?.record.id;
  }

  #mark(jobId: string): LaunchMark | undefined {
    const slotMs = Number(this.#deps.store.getHost(markKey(jobId)) ?? '');
    return Number.isFinite(slotMs) && slotMs > 0 ? { slotMs } : undefined;
  }

  #putMark(jobId: string, slotMs: number): Change {
    return { kind: 'put_host', key: markKey(jobId), value: String(slotMs) };
  }
}
