/** Owns what is given to a job file from outside: values of its variables, and the files that it may read. */
import type { Tree } from './tree.js';

/** A value for a variable: text from a command line, or a value from a file of them. */
export interface GivenValue {
  readonly name: string;
  readonly value:
    { readonly kind: 'text'; readonly text: string } | { readonly kind: 'tree'; readonly tree: Tree };
  /** For messages: `-var`, `NOMAD_VAR_port`, `prod.hcl:3:1`. */
  readonly from: string;
}

export interface Inputs {
  /** In the order in which they were given: the last one of a name counts. */
  readonly given: readonly GivenValue[];
  /** Values that count when nothing was given, such as those of the environment; names that no variable has are nobody's fault. */
  readonly fallback: (name: string) => GivenValue | undefined;
  /** Reads a file for `file()`, relative to the job file; undefined = no files. */
  readonly readFile: ((path: string) => string) | undefined;
}

export const NO_INPUTS: Inputs = { given: [], fallback: () => undefined, readFile: undefined };

/** Names of the variables in an environment, ours first. */
const VARIABLE_PREFIXES = ['HOLDFAST_VAR_', 'NOMAD_VAR_'] as const;

/** Values from an environment. */
export function fromEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): (name: string) => GivenValue | undefined {
  return (name) => {
    for (const prefix of VARIABLE_PREFIXES) {
      const text = env[prefix + name];
      if (text !== undefined) return { name, value: { kind: 'text', text }, from: prefix + name };
    }
    return undefined;
  };
}
