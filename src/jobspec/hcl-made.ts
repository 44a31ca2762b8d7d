/**
 * Owns the values that HCL's expressions are made of: trees, how one kind becomes another, and how much of them one
 * file may make (a few lines can ask for more than any machine has).
 */
import type { MapNode, ScalarNode, Tree } from './tree.js';
import { quote } from './words.js';

/** Ends the evaluation of one expression: what is wrong with it, and where. */
export class ExpressionFault extends Error {
  readonly at: number;
  readonly hint: string | undefined;

  constructor(at: number, message: string, hint?: string) {
    super(message);
    this.at = at;
    this.hint = hint;
  }
}

/** Ends the evaluation of an expression about which everything was told already. */
export class AlreadyTold extends Error {}

/** Values that one file may make; a large job file makes some thousands. */
const MOST_VALUES = 200_000;
/** Characters of text that count as one more value. */
const TEXT_UNIT = 64;

/** Counts what the expressions of one file make. */
export class Budget {
  #left = MOST_VALUES;

  /** @throws ExpressionFault */
  spend(count: number, at: number): void {
    this.#left -= count;
    if (this.#left < 0) {
      throw new ExpressionFault(at, 'this makes too much: the expressions of a file may make 200000 values');
    }
  }

  /** Nothing more may be made: also `can` and `try` must not go on after what took too long. */
  exhaust(): void {
    this.#left = -1;
  }

  /** The values of a tree, and what they weigh. @throws ExpressionFault */
  spendTree(tree: Tree, at: number): void {
    if (tree.kind === 'scalar') this.spend(1 + Math.floor(tree.written.length / TEXT_UNIT), at);
    else if (tree.kind === 'list') for (const item of tree.items) this.spendTree(item, at);
    else for (const { value } of tree.entries) this.spendTree(value, at);
    if (tree.kind !== 'scalar') this.spend(1, at);
  }
}

export function textNode(at: number, value: string): ScalarNode {
  return { kind: 'scalar', at, value, written: value };
}

export function boolNode(at: number, value: boolean): ScalarNode {
  return { kind: 'scalar', at, value, written: String(value) };
}

export function nullNode(at: number): ScalarNode {
  return { kind: 'scalar', at, value: null, written: 'null' };
}

/** @throws ExpressionFault when it is no number that can be written down */
export function numberNode(at: number, value: number): ScalarNode {
  if (!Number.isFinite(value)) throw new ExpressionFault(at, 'the result is no number');
  const exact = value === 0 ? 0 : value;
  const written = Number.isInteger(exact) ? String(BigInt(exact)) : String(exact);
  return { kind: 'scalar', at, value: exact, written };
}

export function mapNode(at: number, entries: Iterable<readonly [string, Tree]>): MapNode {
  return {
    kind: 'map',
    at,
    entries: [...new Map(entries)].map(([key, value]) => ({ key, keyAt: at, labels: undefined, value })),
  };
}

/** The tree of a plain value, all of it at one place. @throws ExpressionFault for a number that is none */
export function plainNode(value: unknown, at: number): Tree {
  if (typeof value === 'string') return textNode(at, value);
  if (typeof value === 'number') return numberNode(at, value);
  if (typeof value === 'boolean') return boolNode(at, value);
  if (Array.isArray(value)) return { kind: 'list', at, items: value.map((item) => plainNode(item, at)) };
  if (typeof value !== 'object' || value === null) return nullNode(at);
  return mapNode(
    at,
    Object.entries(value).map(([key, item]) => [key, plainNode(item, at)] as const),
  );
}

/** The same value, at the place where it is used: what is wrong with it there is told there. */
export function movedTo(tree: Tree, at: number): Tree {
  if (tree.kind === 'scalar') return { ...tree, at };
  if (tree.kind === 'list') return { ...tree, at, items: tree.items.map((item) => movedTo(item, at)) };
  const entries = tree.entries.map((entry) => ({ ...entry, keyAt: at, value: movedTo(entry.value, at) }));
  return { ...tree, at, entries };
}

/** What stands there, in words. */
export function describeMade(tree: Tree): string {
  if (tree.kind === 'list') return 'a list';
  if (tree.kind === 'map') return 'a map';
  if (tree.value === null) return 'null';
  if (typeof tree.value === 'string') return `the string ${quote(tree.value)}`;
  return typeof tree.value === 'number' ? `the number ${tree.written}` : tree.written;
}

/** Text of a scalar, as HCL makes text of it; undefined when it makes none. */
export function asText(tree: Tree): string | undefined {
  return tree.kind === 'scalar' && tree.value !== null ? tree.written : undefined;
}

/** Number of a scalar; text that is written as a number counts. */
export function asNumber(tree: Tree): number | undefined {
  if (tree.kind !== 'scalar') return undefined;
  if (typeof tree.value === 'number') return tree.value;
  const isNumber = typeof tree.value === 'string' && /^-?\d{1,30}(?:\.\d{1,30})?$/.test(tree.value);
  return isNumber ? Number(tree.value) : undefined;
}

/** Truth of a scalar; the text of `true` and `false` counts. */
export function asBool(tree: Tree): boolean | undefined {
  if (tree.kind !== 'scalar') return undefined;
  if (typeof tree.value === 'boolean') return tree.value;
  return tree.value === 'true' ? true : tree.value === 'false' ? false : undefined;
}

/** True when text holds a `${…}` that the task's start fills in: nobody can look into it before. */
export function isForLater(tree: Tree): boolean {
  if (tree.kind === 'scalar') return typeof tree.value === 'string' && /(?<!\$)\$\{/.test(tree.value);
  return tree.kind === 'list'
    ? tree.items.some(isForLater)
    : tree.entries.some(({ value }) => isForLater(value));
}
