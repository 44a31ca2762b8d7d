#!/usr/bin/env node
/** Owns the process of the CLI: one command line, its exit code, and a reader of our output that has gone. */
import { describeError, errnoOf } from '../base/errors.js';
import { EXIT } from './exit.js';
import { processWorld, runCli } from './program.js';

process.stdout.on('error', (error) => {
  // `holdfast logs X | head`: nobody reads on, so there is nothing left to do.
  if (errnoOf(error) === 'EPIPE') process.exit(EXIT.ok);
  throw error;
});
// Notes that nobody reads are no reason to fail.
process.stderr.on('error', () => undefined);

try {
  process.exitCode = await runCli(process.argv.slice(2), processWorld());
} catch (error) {
  process.stderr.write(`holdfast: this should not happen: ${describeError(error)}\n`);
  if ((process.env['HOLDFAST_DEBUG'] ?? '') !== '')
    process.stderr.write(`${String((error as Error).stack)}\n`);
  process.exitCode = EXIT.failed;
}
