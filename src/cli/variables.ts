/** Owns where a job file's variables come from: the command line, files of values, the environment; and what file() reads. */
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { describeSystemError } from '../base/errors.js';
import { fromEnvironment, type GivenValue, type Inputs } from '../jobspec/inputs.js';
import { renderFaults } from '../jobspec/parse.js';
import { readVariableFile } from '../jobspec/variable-file.js';
import type { Options } from './command.js';
import { CliError, EXIT } from './exit.js';
import { wishesOf } from './variable-options.js';

/** A file that `file()` reads becomes part of the job, and a job has bounds. */
const LARGEST_FILE = 1024 * 1024;

/** Everything the job file may ask for. @throws CliError usage */
export function readInputs(
  options: Options,
  jobFile: string,
  env: Readonly<Record<string, string | undefined>>,
): Inputs {
  return {
    given: wishesOf(options).flatMap(({ kind, text }) =>
      kind === 'var' ? [readPair(text)] : readFile(text),
    ),
    fallback: fromEnvironment(env),
    readFile: (path) => readBeside(jobFile, path),
  };
}

function readPair(pair: string): GivenValue {
  const at = pair.indexOf('=');
  if (at <= 0) throw new CliError(EXIT.usage, `--var ${JSON.stringify(pair)}: write NAME=VALUE`);
  const text = pair.slice(at + 1);
  return { name: pair.slice(0, at).trim(), value: { kind: 'text', text }, from: '-var' };
}

function readFile(path: string): readonly GivenValue[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    const why = describeSystemError(cause);
    throw new CliError(EXIT.usage, `cannot read the file of variables ${path}: ${why}`, { cause });
  }
  const read = readVariableFile(text, path);
  if (read.ok) return read.given;
  throw new CliError(
    EXIT.usage,
    `the file of variables ${path} has faults:\n${renderFaults(read.faults, text).trimEnd()}`,
  );
}

function readBeside(jobFile: string, path: string): string {
  const full = resolve(dirname(jobFile), path);
  try {
    if (statSync(full).size > LARGEST_FILE) throw new Error('it is larger than 1 MiB');
    const bytes = readFileSync(full);
    const text = bytes.toString('utf8');
    if (!Buffer.from(text, 'utf8').equals(bytes)) throw new Error('it is no UTF-8 text');
    return text;
  } catch (error) {
    throw new Error(describeSystemError(error), { cause: error });
  }
}
