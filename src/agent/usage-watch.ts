/** Owns the regular look at what every running task uses: fills the history, and tells who listens. */
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { Clock, Timer } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import { SAMPLE_EVERY_MS, UsageHistory, type UsageSample } from '../stats/history.js';

export type UsageListener = (round: readonly UsageSample[]) => void;

export class UsageWatch implements Disposable {
  readonly history = new UsageHistory();
  readonly #deps: { readonly clock: Clock; readonly logger: Logger; readonly allocs: AllocTable };
  readonly #listeners = new Set<UsageListener>();
  #timer: Timer | undefined;
  #isOver = false;

  constructor(deps: { readonly clock: Clock; readonly logger: Logger; readonly allocs: AllocTable }) {
    this.#deps = deps;
  }

  /** Looks now, and again and again until it is disposed of. */
  start(): void {
    void this.#look().then(() => {
      if (this.#isOver) return;
      this.#timer = this.#deps.clock.setTimer(SAMPLE_EVERY_MS, () => {
        this.start();
      });
    });
  }

  /** Told of every round. Dispose of the answer to end it. */
  onRound(listener: UsageListener): Disposable {
    this.#listeners.add(listener);
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(listener);
      },
    };
  }

  async #look(): Promise<void> {
    const { allocs, logger } = this.#deps;
    const round: UsageSample[] = [];
    for (const allocId of allocs.liveIds()) {
      const runner = allocs.get(allocId);
      try {
        const usages = (await runner?.usage()) ?? {};
        const jobId = runner?.alloc.jobId ?? '';
        for (const [task, usage] of Object.entries(usages)) round.push({ allocId, jobId, task, usage });
      } catch (error) {
        logger.warn(
          { alloc_id: allocId, error: describeError(error) },
          'cannot see what a task uses, ignoring',
        );
      }
    }
    this.history.take(round);
    for (const listener of [...this.#listeners]) listener(round);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#timer?.[Symbol.dispose]();
  }
}
