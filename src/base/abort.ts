/**
 * Owns waiting under AbortSignals without leaving a listener behind (AbortSignal.any leaks on Node 20), and the abort whose
 * signal is made only for who asks for it.
 */
import { addAbortListener } from 'node:events';

/**
 * An AbortController that makes its signal when somebody asks for it: most calls that can be cancelled never look at
 * theirs, and a signal with its listeners costs more than what they do.
 */
export class LazyAbort {
  readonly #listeners = new Set<() => void>();
  #controller: AbortController | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  get aborted(): boolean {
    return this.#aborted !== undefined;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted.reason);
    }
    return this.#controller.signal;
  }

  /** What `abort` was given, or an AbortError. */
  get reason(): unknown {
    return this.signal.reason as unknown;
  }

  /** Aborting twice does nothing. */
  abort(reason?: unknown): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = { reason };
    this.#controller?.abort(reason);
    for (const tell of this.#listeners) tell();
  }

  /** Calls `listener` when it aborts, soon when it has; dispose of what it returns. */
  onAbort(listener: () => void): Disposable {
    const tell = (): void => {
      if (this.#listeners.delete(tell)) listener();
    };
    this.#listeners.add(tell);
    if (this.#aborted !== undefined) queueMicrotask(tell);
    return { [Symbol.dispose]: () => this.#listeners.delete(tell) };
  }
}

/** What can abort a wait. */
export type Abortable = AbortSignal | LazyAbort;

/** Calls `listener` when it aborts, soon when it has; dispose of what it returns. */
export function onAbort(by: Abortable, listener: () => void): Disposable {
  return by instanceof LazyAbort ? by.onAbort(listener) : addAbortListener(by, listener);
}

/** How a wait ended: with the value of the work, or because `by` aborted first. */
export type Waited<T, By extends Abortable = AbortSignal> =
  { readonly kind: 'value'; readonly value: T } | { readonly kind: 'aborted'; readonly by: By };

/**
 * Waits for `work` or the first abort; leaves no listener behind. Does not cancel `work`.
 * @throws what `work` rejects with, when that comes first
 */
export async function orAborted<T, By extends Abortable = AbortSignal>(
  work: Promise<T>,
  signals: readonly By[],
): Promise<Waited<T, By>> {
  const listeners: Disposable[] = [];
  try {
    return await new Promise<Waited<T, By>>((resolve, reject) => {
      work.then((value) => {
        resolve({ kind: 'value', value });
      }, reject);
      for (const by of signals) {
        if (by.aborted) resolve({ kind: 'aborted', by });
        else {
          listeners.push(
            onAbort(by, () => {
              resolve({ kind: 'aborted', by });
            }),
          );
        }
      }
    });
  } finally {
    for (const listener of listeners) listener[Symbol.dispose]();
  }
}
