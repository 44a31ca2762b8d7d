/** Owns waiting under AbortSignals without leaving a listener behind (AbortSignal.any leaks on Node 20). */
import { addAbortListener } from 'node:events';

/** How a wait ended: with the value of the work, or because `by` aborted first. */
export type Waited<T> =
  { readonly kind: 'value'; readonly value: T } | { readonly kind: 'aborted'; readonly by: AbortSignal };

/**
 * Waits for `work` or the first abort; leaves no listener behind. Does not cancel `work`.
 * @throws what `work` rejects with, when that comes first
 */
export async function orAborted<T>(work: Promise<T>, signals: readonly AbortSignal[]): Promise<Waited<T>> {
  const listeners: Disposable[] = [];
  try {
    return await new Promise<Waited<T>>((resolve, reject) => {
      work.then((value) => {
        resolve({ kind: 'value', value });
      }, reject);
      for (const by of signals) {
        if (by.aborted) resolve({ kind: 'aborted', by });
        else {
          listeners.push(
            addAbortListener(by, () => {
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
