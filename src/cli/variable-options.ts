/** Owns the options --var and --var-file. Apart from variables.ts, because `run` must not load the parser for a command. */
import type { Command } from 'commander';
import type { Options } from './command.js';

/** One use of --var or --var-file; among each other they count in their order. */
export interface Wish {
  readonly kind: 'var' | 'file';
  readonly text: string;
}

/** Adds --var and --var-file, for commands that read a job file. */
export function addVariables(command: Command): Command {
  const all: Wish[] = [];
  const collect = (kind: Wish['kind']) => (text: string) => {
    all.push({ kind, text });
    return all;
  };
  return command
    .option(
      '--var <name=value>',
      'value of a variable of the job file, may be repeated; also -var',
      collect('var'),
    )
    .option(
      '--var-file <file>',
      'file of values for variables, .hcl or .json, may be repeated',
      collect('file'),
    );
}

/** What was asked for, in its order. */
export function wishesOf(options: Options): readonly Wish[] {
  // Both options collect into one list.
  return ((options['var'] ?? options['varFile']) as readonly Wish[] | undefined) ?? [];
}

/** The words of --var and --var-file, for a command line that does the same again. */
export function variableWords(options: Options): string[] {
  return wishesOf(options).flatMap(({ kind, text }) => [kind === 'var' ? '--var' : '--var-file', text]);
}
