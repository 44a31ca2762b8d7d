/**
 * Owns the one turn in which jobs are changed, so that no place is ever filled twice, and when each job is looked at
 * again without anything happening to it.
 */
import type { Timer } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import { EVALUATE_RETRY_MS, type EvaluateOptions, type Evaluator } from './evaluator.js';
import type { HandsDeps } from './hands.js';

export class Turns {
  readonly #deps: HandsDeps;
  readonly #evaluator: Evaluator;
  #last: Promise<unknown> = Promise.resolve();
  /** Of jobs that have been promised a look which has not begun. */
  readonly #looks = new Map<string, Promise<void>>();
  /** When each job is looked at again. */
  readonly #alarms = new Map<string, Timer>();

  constructor(deps: HandsDeps, evaluator: Evaluator) {
    this.#deps = deps;
    this.#evaluator = evaluator;
  }

  /** Does `work` when all that was begun before is done. */
  take<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /**
   * The same for work that decides from reads. They do not show what is kept for the disk: that is written first, or it
   * would be overwritten.
   * @throws AgentError store_unavailable
   */
  takeCaughtUp<T>(work: () => Promise<T>): Promise<T> {
    return this.take(async () => {
      const { store } = this.#deps;
      if (store.keptChanges() > 0) await store.commit([], { whenRefused: 'reject' });
      return work();
    });
  }

  /** Looks at a job again because something happened to it. Never rejects: what cannot be done now is tried later. */
  async reconsider(jobId: string): Promise<void> {
    const { allocs, store, logger } = this.#deps;
    if (allocs.leaving) return;
    // What is kept for the disk is not seen by reads yet, and a place must be judged by how its alloc really ended.
    if (store.keptChanges() > 0) {
      this.#setAlarm(jobId, EVALUATE_RETRY_MS);
      return;
    }
    // A hundred allocs that end together are one reason to look, not a hundred: each look reads all of them.
    let look = this.#looks.get(jobId);
    if (look === undefined) {
      look = this.take(() => {
        this.#looks.delete(jobId);
        return this.evaluate(jobId, {});
      }).catch((error: unknown) => {
        logger.error({ job_id: jobId, error: describeError(error) }, 'cannot evaluate a job, trying again');
      });
      this.#looks.set(jobId, look);
    }
    await look;
  }

  /**
   * Lets what was just begun get on its way: a look reads for half a millisecond in which nothing could start or stop. One turn
   * of the event loop stores what the tasks make of it, in the next they have acted.
   */
  async yield(): Promise<void> {
    for (let turn = 0; turn < 2; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  /** One alarm a job: the earliest that is known of. */
  #setAlarm(jobId: string, inMs: number): void {
    this.#alarms.get(jobId)?.[Symbol.dispose]();
    const timer = this.#deps.clock.setTimer(inMs, () => {
      this.#alarms.delete(jobId);
      void this.reconsider(jobId);
    });
    timer.unref();
    this.#alarms.set(jobId, timer);
  }

  /** The wish is stored by now: when it cannot be carried out at once, that is for us to repeat. */
  async evaluate(jobId: string, options: EvaluateOptions): Promise<void> {
    try {
      const { againInMs } = await this.#evaluator.evaluate(jobId, options);
      const wait = this.#deps.store.keptChanges() > 0 ? EVALUATE_RETRY_MS : againInMs;
      if (wait !== undefined) this.#setAlarm(jobId, wait);
    } catch (error) {
      this.#setAlarm(jobId, EVALUATE_RETRY_MS);
      throw error;
    }
  }
}
