/** Owns waiting for a file or a directory to change. */
import { orAborted } from '../base/abort.js';
import { sleep, type Clock } from '../base/clock.js';
import { watchDirectory, type WatchDirectory } from './directory.js';

/** How long a change that no watch told of may stay unseen. */
const POLL_MS = 250;
/** A chatty task must not wake us for each of its lines. */
const COALESCE_MS = 10;

export interface ChangesOptions {
  readonly follow: boolean;
  readonly clock: Clock;
  /** Either ends the wait. */
  readonly signal?: AbortSignal;
  readonly complete?: AbortSignal;
  readonly watch?: WatchDirectory;
}

/** Waits for something to happen to a file or in a directory: a watch, with a look every POLL_MS in case it told nothing. */
export class Changes implements Disposable {
  readonly #options: ChangesOptions;
  readonly #path: string;
  #watch: Disposable | undefined;
  #isWatching = false;
  #changed = false;
  #wake: (() => void) | undefined;

  constructor(path: string, options: ChangesOptions) {
    this.#path = path;
    this.#options = options;
  }

  /** Forgets what happened so far. The watch begins with the first call of a reader that follows. */
  reset(): void {
    this.#changed = false;
    if (this.#isWatching || !this.#options.follow) return;
    this.#isWatching = true;
    this.#watch = (this.#options.watch ?? watchDirectory)(this.#path, () => {
      this.#changed = true;
      this.#wake?.();
    });
  }

  /** Resolves after a change since `reset`, a poll interval, or an abort, whichever is first. */
  async wait(): Promise<void> {
    const { clock, signal, complete } = this.#options;
    if (!this.#changed) {
      const noticed = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      const poll = clock.setTimer(POLL_MS, () => this.#wake?.());
      const signals = [signal, complete].filter((by) => by !== undefined);
      try {
        await orAborted(noticed, signals);
      } finally {
        poll[Symbol.dispose]();
        this.#wake = undefined;
      }
    }
    if (this.#changed) await sleep(clock, COALESCE_MS, signal);
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]();
  }
}
