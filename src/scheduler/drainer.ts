/**
 * Owns draining this host: what was asked for is stored first, then allocs are stopped as drain.ts says, and it goes on
 * where it was when the agent comes back. Nothing new starts meanwhile, nor afterwards until somebody says so.
 */
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { Clock, Timer } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import { NODE_SCHEDULING_KEY, type Moment, type StateStore } from '../state/store.js';
import { drainLeftMs, parseNodeScheduling, planDrain, type Drained, type NodeScheduling } from './drain.js';

export interface DrainerDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bootId: string;
  readonly store: StateStore;
  readonly allocs: Pick<AllocTable, 'get' | 'liveIds' | 'leaving'>;
  /** Stops an alloc gracefully. */
  readonly stopAlloc: (allocId: string, noShutdownDelay: boolean) => Promise<unknown>;
  /** Looks at every job again: places that were left empty may be filled. */
  readonly reconsiderAll: () => void;
}

/** What is asked of a drain. */
export interface DrainRequest {
  /** What is left then is stopped whatever it is; undefined = it may take for ever, 0 = at once. */
  readonly deadlineMs: number | undefined;
  readonly ignoreSystemJobs: boolean;
}

export class Drainer implements Disposable {
  readonly #deps: DrainerDeps;
  /** As stored, or as the store keeps it for a disk that refuses writes. */
  #now: NodeScheduling;
  #timer: Timer | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: DrainerDeps) {
    this.#deps = deps;
    this.#now = parseNodeScheduling(deps.store.getHost(NODE_SCHEDULING_KEY));
  }

  get scheduling(): NodeScheduling {
    return this.#now;
  }

  /** Begins to drain, or goes on with other settings. Resolves when it is stored and what is to be stopped has been told. */
  async enable({ deadlineMs, ignoreSystemJobs }: DrainRequest): Promise<void> {
    const now = this.#moment();
    const dueAt =
      deadlineMs === undefined
        ? undefined
        : { ...now, wallMs: now.wallMs + deadlineMs, monoMs: now.monoMs + deadlineMs };
    const startedAtMs = this.#now.drain?.startedAtMs ?? now.wallMs;
    await this.#put({ eligible: false, drain: { startedAtMs, deadlineMs, dueAt, ignoreSystemJobs } });
    await this.step();
  }

  /** Ends a drain; what was stopped is started again, unless the host shall stay ineligible. */
  async disable({ keepIneligible }: { readonly keepIneligible: boolean }): Promise<void> {
    const eligible = keepIneligible ? false : true;
    await this.#put({ eligible, drain: undefined });
    if (eligible) this.#deps.reconsiderAll();
  }

  /** @throws AgentError conflict while it drains */
  async setEligible(eligible: boolean): Promise<void> {
    if (this.#now.drain !== undefined && eligible) {
      throw new AgentError(
        'conflict',
        'this host is draining, so it cannot be eligible; "holdfast drain --disable" ends the drain',
      );
    }
    await this.#put({ ...this.#now, eligible });
    if (eligible) this.#deps.reconsiderAll();
  }

  /** Does what a drain under way asks for now. Called when it begins, when an alloc is over, and when the agent is back. */
  step(): Promise<void> {
    const done = this.#last.then(() => this.#step());
    this.#last = done.catch((error: unknown) => {
      this.#deps.logger.error({ error: describeError(error) }, 'cannot go on draining, trying again');
      this.#arm(RETRY_MS);
    });
    return this.#last.then(() => undefined);
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  async #step(): Promise<void> {
    const { allocs, stopAlloc, logger } = this.#deps;
    const { drain } = this.#now;
    this[Symbol.dispose]();
    if (drain === undefined || allocs.leaving) return;
    const leftMs = drainLeftMs(drain, this.#moment());
    const isDue = leftMs === 0;
    const live = this.#live();
    const { stop, wait } = planDrain(live, drain, isDue);
    for (const id of stop) if (!this.#isStopping(id, isDue)) await stopAlloc(id, isDue);
    if (stop.length + wait.length === 0) {
      await this.#put({ eligible: false, drain: undefined });
      logger.info(
        { live: live.length },
        'this host is drained; it takes nothing new until it is eligible again',
      );
    } else if (leftMs !== undefined && !isDue) {
      this.#arm(leftMs);
    }
  }

  /** Whether nothing is to be added to what was told to it before. */
  #isStopping(allocId: string, isDue: boolean): boolean {
    const alloc = this.#deps.allocs.get(allocId)?.alloc;
    return alloc === undefined || (alloc.desiredStatus === 'stop' && (!isDue || alloc.noShutdownDelay));
  }

  #arm(ms: number): void {
    this[Symbol.dispose]();
    if (this.#deps.allocs.leaving) return;
    this.#timer = this.#deps.clock.setTimer(ms, () => {
      void this.step();
    });
    this.#timer.unref();
  }

  #live(): readonly Drained[] {
    const { allocs, store } = this.#deps;
    return allocs.liveIds().map((allocId) => {
      const alloc = store.getAlloc(allocId)?.record;
      const job = alloc && store.getJobVersion(alloc.jobId, alloc.jobVersion)?.record.spec;
      return { allocId, type: job?.type ?? 'service' };
    });
  }

  /** Persisted, then acted upon; a disk that refuses writes must not keep a host from being drained. */
  async #put(scheduling: NodeScheduling): Promise<void> {
    this.#now = scheduling;
    const value = JSON.stringify(scheduling);
    await this.#deps.store.commit([{ kind: 'put_host', key: NODE_SCHEDULING_KEY, value }], {
      whenRefused: 'keep',
    });
  }

  #moment(): Moment {
    const { clock, bootId } = this.#deps;
    return { wallMs: clock.wallMs(), monoMs: clock.monoMs(), bootId };
  }
}

/** How soon a step is tried again that failed. */
const RETRY_MS = 5_000;
