/** Owns knowing when an alloc has ended for good: what follows its files ends then. */
import type { StateStore } from '../state/store.js';

/** Aborts once nothing more will be written by the alloc. Lets go of the store when `signal` aborts. */
export function untilAllocEnded(store: StateStore, allocId: string, signal: AbortSignal): AbortSignal {
  const ended = new AbortController();
  const look = (): void => {
    const status = store.getAlloc(allocId)?.record.clientStatus;
    if (status !== 'pending' && status !== 'running' && status !== 'unknown') ended.abort();
  };
  const subscription = store.onCommitted((rows) => {
    if (rows.some(({ payload, key }) => payload.topic === 'Allocation' && key === allocId)) look();
  });
  const stop = (): void => {
    subscription[Symbol.dispose]();
  };
  signal.addEventListener('abort', stop, { once: true });
  ended.signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  look();
  return ended.signal;
}
