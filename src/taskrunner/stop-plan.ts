/** Owns which signals ask a task to end, and when. Pure. */
import type { StopSignal, Task } from '../jobspec/types.js';

/** One signal of a stop, counted from the first. */
export interface StopRung {
  readonly signal: string;
  readonly afterMs: number;
}

/** The whole of a stop: signals in order, the first at once, and SIGKILL after `graceMs`. */
export interface StopPlan {
  readonly rungs: readonly [StopRung, ...StopRung[]];
  readonly graceMs: number;
}

/**
 * Works out the stop of a task as it is specified now. Signals of a ladder that name no wait share what the others leave
 * of `kill_timeout`. A cap below it shortens all waits in the same proportion.
 */
export function planStop(
  task: Pick<Task, 'killSignal' | 'killTimeoutMs' | 'stopSignals'>,
  agent: { readonly defaultKillSignal: string; readonly maxKillTimeoutMs: number },
): StopPlan {
  const graceMs = Math.min(task.killTimeoutMs, agent.maxKillTimeoutMs);
  const [first, ...more] = task.stopSignals ?? [];
  if (first === undefined) {
    return { rungs: [{ signal: task.killSignal ?? agent.defaultKillSignal, afterMs: 0 }], graceMs };
  }
  const ladder = [first, ...more];
  const shareMs = shareOf(ladder, task.killTimeoutMs);
  const scale = task.killTimeoutMs === 0 ? 0 : graceMs / task.killTimeoutMs;
  let dueMs = (first.waitMs ?? shareMs) * scale;
  const rungs = more.map(({ signal, waitMs }): StopRung => {
    const rung = { signal, afterMs: Math.round(dueMs) };
    dueMs += (waitMs ?? shareMs) * scale;
    return rung;
  });
  return { rungs: [{ signal: first.signal, afterMs: 0 }, ...rungs], graceMs };
}

/** The signal that is due after `elapsedMs`, its number from 0, and how long until the next one, if there is one. */
export function rungAt(
  plan: StopPlan,
  elapsedMs: number,
): { readonly index: number; readonly signal: string; readonly nextInMs: number | undefined } {
  const index = Math.max(
    0,
    plan.rungs.findLastIndex((rung) => rung.afterMs <= elapsedMs),
  );
  const next = plan.rungs[index + 1];
  return {
    index,
    signal: (plan.rungs[index] ?? plan.rungs[0]).signal,
    nextInMs: next === undefined ? undefined : next.afterMs - elapsedMs,
  };
}

/** Sum of the waits that a ladder names. */
function namedWaitsMs(ladder: readonly StopSignal[]): number {
  return ladder.reduce((sum, { waitMs }) => sum + (waitMs ?? 0), 0);
}

function shareOf(ladder: readonly StopSignal[], graceMs: number): number {
  const open = ladder.filter(({ waitMs }) => waitMs === undefined).length;
  return open === 0 ? 0 : Math.max(0, graceMs - namedWaitsMs(ladder)) / open;
}
