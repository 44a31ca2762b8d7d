/** Owns waiting for facts, with a deadline. */
import { readFileSync } from 'node:fs';

/** Waits for a fact with a deadline; says what was last seen when it does not come. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  options: { timeoutMs?: number; everyMs?: number; lastSeen?: () => unknown } = {},
): Promise<T> {
  const timeoutMs = options.timeoutMs ?? 20_000;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) {
      const seen =
        options.lastSeen === undefined ? '' : `; last seen: ${JSON.stringify(options.lastSeen(), null, 1)}`;
      throw new Error(`waited ${timeoutMs} ms in vain: ${what}${seen}`);
    }
    await new Promise((resolve) => setTimeout(resolve, options.everyMs ?? 15));
  }
}

/** So many looks in a row that show the same count as rest. */
const LOOKS_AT_REST = 10;

/** Waits until a number stands still, for what is held up: that nothing more comes cannot be seen otherwise. */
export async function untilAtRest(what: string, look: () => number | Promise<number>): Promise<number> {
  let last: number | undefined;
  let times = 0;
  const isAtRest = async (): Promise<boolean> => {
    const now = await look();
    times = now === last ? times + 1 : 0;
    last = now;
    return times >= LOOKS_AT_REST;
  };
  await until(`${what} stands still`, isAtRest, { lastSeen: () => last });
  return last ?? NaN;
}

/** What a process has read and written by now, in bytes, to and from anything. */
export function bytesMoved(pid: number): number {
  const io = readFileSync(`/proc/${pid}/io`, 'latin1');
  const count = (key: string): number => Number(new RegExp(`^${key}: (\\d+)$`, 'm').exec(io)?.[1]);
  return count('rchar') + count('wchar');
}
