/**
 * Owns what the ended runs of a task left on the host. It is evidence until the end is durable; then it goes. The store
 * keeps the order, so whatever was owed before something was stored is stored as well. What is still owed when the agent
 * ends is found by its next start.
 */
import { describeError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import type { Logger } from '../base/log.js';

export class Releases {
  readonly #logger: Logger;
  readonly #known = new Map<string, () => Promise<void>>();
  /** Of runs whose end waits for a disk that refuses writes. */
  readonly #owed: { readonly runId: string; readonly release: () => Promise<void> }[] = [];
  /** All that has begun. */
  #begun: Promise<unknown> = Promise.resolve();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** How the run is cleaned up after, when its time has come. */
  know(runId: string, release: () => Promise<void>): void {
    this.#known.set(runId, release);
  }

  /** The run is over. @param stored whether its end is durable, or still kept in memory */
  release(runId: string, stored: 'stored' | 'kept'): void {
    const release = this.#known.get(runId);
    this.#known.delete(runId);
    if (release !== undefined) this.#owed.push({ runId, release });
    if (stored === 'stored') this.pay();
  }

  /** Cleans up after every run that is over: all of it is durable by now. */
  pay(): void {
    for (const { runId, release } of this.#owed.splice(0)) {
      failpoint('run.before_release');
      const released = release().catch((error: unknown) => {
        this.#logger.warn(
          { run_id: runId, error: describeError(error) },
          'cannot clean up after a run, ignoring',
        );
      });
      this.#begun = Promise.all([this.#begun, released]).then(() => undefined);
    }
  }

  /** Resolves when what has begun is done: then nothing is held any more by runs whose end is stored. */
  async settled(): Promise<void> {
    await this.#begun;
  }
}
