/** Owns reading a job file for a command. */
import { readFile } from 'node:fs/promises';
import { describeSystemError } from '../base/errors.js';
import { parseJobFile, renderFaults, type JobResult } from '../jobspec/parse.js';
import type { Job } from '../jobspec/types.js';
import type { Cli } from './cli.js';
import type { Options } from './command.js';
import { CliError, EXIT } from './exit.js';
import { readInputs } from './variables.js';

/** A job file that was read, and what it came to. */
export interface CheckedFile {
  readonly text: string;
  readonly result: JobResult;
}

/**
 * Reads and checks a job file.
 * @param options --var and --var-file among them
 * @throws CliError usage when it, or a file of variables, cannot be read
 */
export async function checkJobFile(path: string, options: Options): Promise<CheckedFile> {
  const text = await readText(path);
  return { text, result: parseJobFile(text, path, readInputs(options, path, process.env)) };
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new CliError(EXIT.usage, `cannot read the job file ${path}: ${describeSystemError(cause)}`, {
      cause,
    });
  }
}

/** What is wrong with it, or worth knowing, goes to stderr. */
export function showFaults(cli: Cli, { text, result }: CheckedFile): void {
  if (!result.ok) cli.output.note(renderFaults(result.faults, text).trimEnd());
  else if (result.warnings.length > 0) {
    cli.output.note(`it is valid; worth knowing:\n${renderFaults(result.warnings, text).trimEnd()}`);
  }
}

/**
 * Reads and checks a job file. Its faults and warnings go to stderr; with faults nothing is returned.
 * @throws CliError usage when it cannot be read
 */
export async function readJobFile(cli: Cli, path: string, options: Options): Promise<Job | undefined> {
  const checked = await checkJobFile(path, options);
  showFaults(cli, checked);
  return checked.result.ok ? checked.result.job : undefined;
}
