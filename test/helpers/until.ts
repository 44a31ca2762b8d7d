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
