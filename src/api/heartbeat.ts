/** Owns heartbeats of streams: a sign of life while a source has nothing to say. */
import type { Clock } from '../base/clock.js';

/**
 * What `source` gives, and `beat` whenever it gave nothing for `everyMs`. A reader that leaves first
 * makes `source` end (by its signal), then returns this one: the return waits for the source's.
 */
export async function* withHeartbeat<T>(
  source: AsyncGenerator<T, void, void>,
  options: { readonly beat: T; readonly everyMs: number; readonly clock: Clock },
): AsyncGenerator<T, void, void> {
  const reader = new Reader(source);
  try {
    for (;;) {
      const next = await reader.next(options);
      if (next === 'late') yield options.beat;
      else if (next.done === true) return;
      else yield next.value;
    }
  } finally {
    await source.return();
  }
}

/** Asks a generator for one value at a time, and can be asked again while it is still thinking. */
class Reader<T> {
  readonly #source: AsyncGenerator<T, void, void>;
  #asked: Promise<void> | undefined;
  #answer: IteratorResult<T, void> | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** One listener at a time: a promise that waits for days must not collect them. */
  #wake: (() => void) | undefined;

  constructor(source: AsyncGenerator<T, void, void>) {
    this.#source = source;
  }

  /** @throws what the source throws */
  async next(wait: {
    readonly everyMs: number;
    readonly clock: Clock;
  }): Promise<IteratorResult<T, void> | 'late'> {
    this.#asked ??= this.#ask();
    if (this.#answer === undefined && this.#failure === undefined) {
      await new Promise<void>((resolve) => {
        const timer = wait.clock.setTimer(wait.everyMs, resolve);
        this.#wake = () => {
          timer[Symbol.dispose]();
          resolve();
        };
      });
      this.#wake = undefined;
    }
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#answer === undefined) return 'late';
    const answer = this.#answer;
    this.#answer = undefined;
    this.#asked = undefined;
    return answer;
  }

  async #ask(): Promise<void> {
    try {
      this.#answer = await this.#source.next();
    } catch (error) {
      this.#failure = { error };
    }
    this.#wake?.();
  }
}
