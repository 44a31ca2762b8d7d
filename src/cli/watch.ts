/** Owns --watch: the same thing shown again and again, across a daemon that is gone for a moment. */
import { sleep } from '../base/clock.js';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';

/** How often --watch looks again. */
const WATCH_MS = 2000;
/** How long --watch waits for a daemon that went away: one that is restarted is back sooner. */
const GIVE_UP_MS = 60_000;
const HOME_AND_CLEAR = '\x1b[H\x1b[J';

/**
 * @param show writes it; `before` goes before the first line, and is empty where nothing can be drawn over
 * @throws CliError
 */
export async function watch(cli: Cli, show: (before: string) => Promise<void>): Promise<never> {
  let goneSinceMs: number | undefined;
  let wasShown = false;
  for (;;) {
    try {
      await show(cli.output.isTerminal ? HOME_AND_CLEAR : '');
      wasShown = true;
      goneSinceMs = undefined;
    } catch (error) {
      if (!wasShown || !(error instanceof CliError) || error.exitCode !== EXIT.unreachable) throw error;
      const nowMs = cli.clock.monoMs();
      if (goneSinceMs === undefined)
        cli.output.note('holdfast: the daemon went away; waiting for it to come back');
      goneSinceMs ??= nowMs;
      if (nowMs - goneSinceMs > GIVE_UP_MS) throw error;
    }
    await sleep(cli.clock, WATCH_MS);
  }
}
