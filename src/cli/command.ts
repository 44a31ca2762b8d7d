/** Owns what the modules in commands/ are made of: how a command declares itself and how it is run. */
import type { Command } from 'commander';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';

/** What a command is given to declare itself with. */
export interface Definition {
  readonly command: Command;
  /** The words of the whole command line, without node and script. */
  readonly argv: readonly string[];
  /** Sets the action of the command: what it resolves to is the exit code. */
  readonly run: (action: Action) => void;
}

/** What a command does; it resolves to the exit code: one of EXIT, or that of a command that was run. @throws CliError */
export type Action = (cli: Cli, options: Options, operands: readonly string[]) => Promise<number>;

/** Options as commander read them; read them with the functions below. */
export type Options = Readonly<Record<string, unknown>>;

/** A module of commands/. */
export interface CommandModule {
  define(definition: Definition): void;
}

/** True when `--name` was given. */
export function flagOf(options: Options, name: string): boolean {
  return options[name] === true;
}

/** The value of `--name VALUE`; undefined when it was not given. */
export function textOf(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** The values of an option that may be given more than once. */
export function listOf(options: Options, name: string): readonly string[] {
  const value = options[name];
  return Array.isArray(value) ? value.map(String) : [];
}

/** The value of `--check-index N`. @throws CliError usage */
export function readCheckIndex(options: Options): number | undefined {
  const text = textOf(options, 'checkIndex');
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new CliError(EXIT.usage, `--check-index ${JSON.stringify(text)}: give a whole number from 0`);
}

/** Adds --json, for commands that read. */
export function addJson(command: Command): Command {
  return command.option('--json', "print the API's JSON");
}

/** Adds examples to the help. */
export function addExamples(command: Command, examples: readonly (readonly [string, string])[]): Command {
  const width = Math.max(...examples.map(([line]) => line.length));
  const lines = examples.map(([line, what]) => `  ${line.padEnd(width)}  ${what}`);
  return command.addHelpText('after', `\nExamples:\n${lines.join('\n')}`);
}

export const TARGET_HELP = 'job, job/group, job/group/task, or the first 4 or more digits of an alloc id';
