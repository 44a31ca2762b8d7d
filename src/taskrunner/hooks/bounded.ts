/** Owns the bound of one call of a hook: its deadline, its cancelling, and the word about what takes long. */
import { LazyAbort, onAbort, orAborted, type Abortable } from '../../base/abort.js';
import type { Clock } from '../../base/clock.js';
import { AgentError } from '../../base/errors.js';

/** A call that takes longer is told of in the task's phase. */
const SLOW_MS = 1_000;
/** A cancelled hook has this long to put down what it holds; then nobody waits for it any longer. */
const GRACE_MS = 1_000;

export interface Bounds {
  readonly clock: Clock;
  readonly name: string;
  readonly limitMs: number;
  /** Of the phase: kill, or the agent's leaving. */
  readonly outer: Abortable;
  /** Called once, when the work takes long. */
  readonly onSlow: () => void;
}

/**
 * Runs `work`, which is cancelled by what it is given. Work that does not heed the signal goes on by itself, unheard.
 * @throws AgentError timeout (recoverable) at the deadline, the signal's reason when `outer` aborts, else what `work` throws
 */
export async function runBounded<T>(
  { clock, name, limitMs, outer, onSlow }: Bounds,
  work: (own: LazyAbort) => Promise<T>,
): Promise<T> {
  const own = new LazyAbort();
  using deadline = clock.setTimer(limitMs, () => {
    const text = `${name} was not done after ${limitMs / 1000}s`;
    own.abort(new AgentError('timeout', text, { recoverable: true }));
  });
  using slow = clock.setTimer(SLOW_MS, onSlow);
  deadline.unref();
  slow.unref();
  const relay = onAbort(outer, () => {
    own.abort(outer.reason);
  });
  try {
    const running = work(own);
    const waited = await orAborted(running, [own]);
    if (waited.kind === 'value') return waited.value;
    await settled(running, clock);
    throw own.reason;
  } finally {
    relay[Symbol.dispose]();
  }
}

async function settled(work: Promise<unknown>, clock: Clock): Promise<void> {
  const grace = new LazyAbort();
  using timer = clock.setTimer(GRACE_MS, () => {
    grace.abort();
  });
  timer.unref();
  await orAborted(
    work.catch(() => undefined),
    [grace],
  );
}
