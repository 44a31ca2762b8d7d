/** Owns which ports of the host an alloc gets. Pure. What has a port, and for how long, is in the allocs' records. */
import type { Port } from '../jobspec/types.js';

/** Nomad's range of ports that are chosen. */
const FIRST_CHOSEN = 20_000;
const LAST_CHOSEN = 32_000;

export type PortChoice =
  | { readonly kind: 'chosen'; readonly ports: Readonly<Record<string, number>> }
  /** In words, for people. */
  | { readonly kind: 'taken'; readonly why: string };

/**
 * Gives each label its port.
 * @param holders who has a port now, in words
 * @param roll uniform in [0, 1): where the search begins, so that a port that was just left is not had again at once
 */
export function choosePorts(
  wanted: readonly Port[],
  holders: ReadonlyMap<number, string>,
  roll: number,
): PortChoice {
  const chosen = new Map<string, number>();
  for (const { label, static: number } of wanted) {
    if (number === undefined) continue;
    const holder = holders.get(number);
    if (holder !== undefined) return { kind: 'taken', why: `port ${number} (${label}) is used by ${holder}` };
    chosen.set(label, number);
  }
  const count = LAST_CHOSEN - FIRST_CHOSEN + 1;
  const statics = new Set(chosen.values());
  let next = Math.floor(roll * count);
  let tried = 0;
  for (const { label, static: number } of wanted) {
    if (number !== undefined) continue;
    for (; tried < count; tried++, next++) {
      const port = FIRST_CHOSEN + (next % count);
      if (holders.has(port) || statics.has(port)) continue;
      chosen.set(label, port);
      tried++;
      next++;
      break;
    }
    if (!chosen.has(label)) {
      return { kind: 'taken', why: `no port from ${FIRST_CHOSEN} to ${LAST_CHOSEN} is free for ${label}` };
    }
  }
  return { kind: 'chosen', ports: Object.fromEntries(chosen) };
}
