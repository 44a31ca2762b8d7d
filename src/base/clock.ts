/**
 * Owns time and chance. The only file that reads a clock, sets a timer or rolls a die; everything else takes a
 * `Clock`, so that decisions can be tested with a fake one.
 */
import { hrtime } from 'node:process';

/** A pending timer. Disposing it cancels it; disposing twice, or after it fired, does nothing. */
export interface Timer extends Disposable {
  /** Lets the process end although this timer is pending. */
  unref(): void;
}

/** Source of time and chance. */
export interface Clock {
  /** Wall time in milliseconds since 1970. For display and for records; never subtract two of them. */
  wallMs(): number;
  /**
   * CLOCK_MONOTONIC in milliseconds: it counts from the boot of the host, so values of two agents that ran in the
   * same boot may be compared. Values of different boots may not.
   */
  monoMs(): number;
  /** Uniform in [0, 1). */
  roll(): number;
  /** Calls `fire` once, after at least `delayMs`. */
  setTimer(delayMs: number, fire: () => void): Timer;
}

/** setTimeout fires at once beyond this; longer waits are made of several. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** The real clock of this host. */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monoMs: () => Number(hrtime.bigint() / 1000n) / 1000,
  roll: () => Math.random(),
  setTimer: (delayMs, fire) => {
    let keepAlive = true;
    let handle: NodeJS.Timeout;
    const arm = (leftMs: number): void => {
      const sliceMs = Math.min(leftMs, LONGEST_TIMEOUT_MS);
      handle = setTimeout(() => {
        if (leftMs > sliceMs) arm(leftMs - sliceMs);
        else fire();
      }, sliceMs);
      if (!keepAlive) handle.unref();
    };
    arm(Math.max(0, delayMs));
    return {
      unref: () => {
        keepAlive = false;
        handle.unref();
      },
      [Symbol.dispose]: () => {
        clearTimeout(handle);
      },
    };
  },
};

/** Resolves after `delayMs`, or earlier when `signal` aborts. Never rejects: ask the signal which it was. */
export async function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      timer[Symbol.dispose]();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.setTimer(delayMs, done);
    signal?.addEventListener('abort', done);
  });
}
