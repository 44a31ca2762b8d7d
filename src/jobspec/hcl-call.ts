/** Owns how a function of the job language is called: its arguments as the function wants them, and its result. */
import { asNumber, asText, describeMade, ExpressionFault, isForLater, textNode } from './hcl-made.js';
import type { Budget } from './hcl-made.js';
import type { ListNode, MapNode, Tree } from './tree.js';

/** Reads a file that a job file names; throws an Error whose message says why it cannot be read. */
export type ReadText = (path: string) => string;

/** What a function is called with. */
export class Call {
  readonly name: string;
  readonly at: number;
  readonly args: readonly Tree[];
  readonly budget: Budget;
  readonly readFile: ReadText | undefined;

  constructor(
    name: string,
    at: number,
    args: readonly Tree[],
    around: { readonly budget: Budget; readonly readFile: ReadText | undefined },
  ) {
    this.name = name;
    this.at = at;
    this.args = args;
    this.budget = around.budget;
    this.readFile = around.readFile;
  }

  /** Any text, also one that is filled in when the task starts. */
  textOf(index: number): string {
    const text = asText(this.#arg(index));
    return text ?? this.#wanted(index, 'a string');
  }

  /** Text that the function looks into. */
  knownText(index: number): string {
    this.#refuseLater(index);
    return this.textOf(index);
  }

  number(index: number): number {
    this.#refuseLater(index);
    return asNumber(this.#arg(index)) ?? this.#wanted(index, 'a number');
  }

  whole(index: number): number {
    const number = this.number(index);
    return Number.isInteger(number) ? number : this.#wanted(index, 'a whole number');
  }

  list(index: number): ListNode {
    const arg = this.#arg(index);
    return arg.kind === 'list' ? arg : this.#wanted(index, 'a list');
  }

  map(index: number): MapNode {
    const arg = this.#arg(index);
    return arg.kind === 'map' ? arg : this.#wanted(index, 'a map');
  }

  texts(index: number): string[] {
    return this.list(index).items.map((item) => asText(item) ?? this.#wanted(index, 'a list of strings'));
  }

  numbers(): number[] {
    return this.args.map((_, index) => this.number(index));
  }

  fail(message: string, hint?: string): never {
    throw new ExpressionFault(this.at, `${this.name}(): ${message}`, hint);
  }

  #arg(index: number): Tree {
    const arg = this.args[index];
    if (arg === undefined) this.fail(`argument ${index + 1} is missing`);
    return arg;
  }

  #refuseLater(index: number): void {
    const arg = this.#arg(index);
    if (!isForLater(arg)) return;
    const message = `${this.name}() cannot look into ${describeMade(arg)}: that is only known when the task starts`;
    throw new ExpressionFault(arg.at, message);
  }

  #wanted(index: number, what: string): never {
    const arg = this.#arg(index);
    const which = this.args.length === 1 ? '' : `argument ${index + 1}: `;
    throw new ExpressionFault(arg.at, `${this.name}(): ${which}expected ${what}, found ${describeMade(arg)}`);
  }
}

export interface FunctionSpec {
  readonly least: number;
  readonly most: number;
  readonly run: (call: Call) => Tree;
}

/** A `replace` or `join` in a loop must not make a text that nobody can hold. */
const LONGEST_TEXT = 1024 * 1024;

export function text(call: Call, value: string): Tree {
  if (value.length > LONGEST_TEXT) call.fail('the text is longer than 1 MiB');
  return textNode(call.at, value);
}

export function spec(least: number, most: number, run: (call: Call) => Tree): FunctionSpec {
  return { least, most, run };
}

export function list(call: Call, items: readonly Tree[]): Tree {
  return { kind: 'list', at: call.at, items };
}
