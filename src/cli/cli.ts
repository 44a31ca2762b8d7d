/** Owns what every command is given: the daemon, the output, the clock, and the global options. */
import type { Clock } from '../base/clock.js';
import type { ApiClient } from './http.js';
import { paintAnsi, paintNothing, type Look, type Output } from './output.js';

export interface Cli {
  readonly client: ApiClient;
  readonly output: Output;
  readonly clock: Clock;
  /** --json: the API's JSON instead of text for people. */
  readonly json: boolean;
}

/** How to render now. */
export function lookOf(cli: Cli): Look {
  return {
    width: cli.output.width(),
    paint: cli.output.color ? paintAnsi : paintNothing,
    nowMs: cli.clock.wallMs(),
  };
}

/** Writes a value as JSON for programs and people. */
export async function writeJson(cli: Cli, value: unknown): Promise<void> {
  await cli.output.write(`${JSON.stringify(value, null, 2)}\n`);
}
