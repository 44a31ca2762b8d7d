/** Owns reading a job file for a command. */
import { readFile } from 'node:fs/promises';
import { describeSystemError } from '../base/errors.js';
import { parseJobFile, renderFaults } from '../jobspec/parse.js';
import type { Job } from '../jobspec/types.js';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';

/**
 * Reads and checks a job file. Its faults go to stderr, and nothing is returned.
 * @throws CliError usage when it cannot be read
 */
export async function readJobFile(cli: Cli, path: string): Promise<Job | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new CliError(EXIT.usage, `cannot read the job file ${path}: ${describeSystemError(cause)}`, {
      cause,
    });
  }
  const parsed = parseJobFile(text, path);
  if (parsed.ok) return parsed.job;
  cli.output.note(renderFaults(parsed.faults, text).trimEnd());
  return undefined;
}
