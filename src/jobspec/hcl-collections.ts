/** Owns the functions of lists and maps. */
import type { Call } from './hcl-call.js';
import { list, spec, type FunctionSpec } from './hcl-call.js';
import { asNumber, asText, boolNode, mapNode, numberNode, textNode } from './hcl-made.js';
import { isEqual, truthOf } from './hcl-operators.js';
import type { Tree } from './tree.js';
import { suggest } from './words.js';

const LONGEST_RANGE = 10_000;

export function distinct(items: readonly Tree[]): Tree[] {
  const kept: Tree[] = [];
  for (const item of items) if (!kept.some((other) => isEqual(other, item))) kept.push(item);
  return kept;
}

/** As HCL orders a set: texts by their letters, numbers by value. */
export function ordered(items: readonly Tree[]): Tree[] {
  const isNumbers = items.every((item) => item.kind === 'scalar' && typeof item.value === 'number');
  return [...items].sort((a, b) => {
    if (isNumbers) return (asNumber(a) ?? 0) - (asNumber(b) ?? 0);
    const [left, right] = [asText(a) ?? '', asText(b) ?? ''];
    return left < right ? -1 : left > right ? 1 : 0;
  });
}

function flatten(items: readonly Tree[]): Tree[] {
  return items.flatMap((item) => (item.kind === 'list' ? flatten(item.items) : [item]));
}

function lengthOf(call: Call): number {
  const [arg] = call.args;
  if (arg?.kind === 'list') return arg.items.length;
  if (arg?.kind === 'map') return arg.entries.length;
  return Array.from(call.knownText(0)).length;
}

function isBlank(tree: Tree): boolean {
  return tree.kind === 'scalar' && (tree.value === null || tree.value === '');
}

function range(call: Call): Tree {
  const numbers = call.numbers();
  const [from, to] = numbers.length === 1 ? [0, numbers[0] ?? 0] : [numbers[0] ?? 0, numbers[1] ?? 0];
  const step = numbers[2] ?? (to < from ? -1 : 1);
  if (step === 0) call.fail('the step is 0');
  const made: Tree[] = [];
  for (let at = from; step > 0 ? at < to : at > to; at += step) {
    if (made.length >= LONGEST_RANGE) call.fail(`more than ${LONGEST_RANGE} numbers`);
    made.push(numberNode(call.at, at));
  }
  return list(call, made);
}

function lookup(call: Call): Tree {
  const key = call.knownText(1);
  const found = call.map(0).entries.find((entry) => entry.key === key)?.value ?? call.args[2];
  if (found !== undefined) return found;
  const keys = call.map(0).entries.map((entry) => entry.key);
  return call.fail(`the map has no key ${JSON.stringify(key)}`, suggest(key, keys, 'its keys are'));
}

function slice(call: Call): Tree {
  const { items } = call.list(0);
  const [from, to] = [call.whole(1), call.whole(2)];
  if (from < 0 || to < from || to > items.length) {
    call.fail(`${from} to ${to} is no part of a list of ${items.length}`);
  }
  return list(call, items.slice(from, to));
}

function element(call: Call): Tree {
  const { items } = call.list(0);
  const index = call.whole(1);
  if (index < 0) call.fail('the index is negative');
  return items[index % Math.max(1, items.length)] ?? call.fail('the list is empty');
}

function zipmap(call: Call): Tree {
  const [keys, values] = [call.texts(0), call.list(1).items];
  if (keys.length !== values.length) call.fail(`${keys.length} keys and ${values.length} values`);
  return mapNode(
    call.at,
    values.map((value, index) => [keys[index] ?? '', value] as const),
  );
}

export const COLLECTION_FUNCTIONS: readonly (readonly [string, FunctionSpec])[] = [
  ['length', spec(1, 1, (call) => numberNode(call.at, lengthOf(call)))],
  [
    'concat',
    spec(1, Infinity, (call) =>
      list(
        call,
        call.args.flatMap((_, index) => call.list(index).items),
      ),
    ),
  ],
  ['flatten', spec(1, 1, (call) => list(call, flatten(call.list(0).items)))],
  [
    'compact',
    spec(1, 1, (call) =>
      list(
        call,
        call.list(0).items.filter((item) => !isBlank(item)),
      ),
    ),
  ],
  ['distinct', spec(1, 1, (call) => list(call, distinct(call.list(0).items)))],
  ['reverse', spec(1, 1, (call) => list(call, [...call.list(0).items].reverse()))],
  ['sort', spec(1, 1, (call) => list(call, ordered(call.texts(0).map((item) => textNode(call.at, item)))))],
  ['slice', spec(3, 3, slice)],
  ['element', spec(2, 2, element)],
  [
    'index',
    spec(2, 2, (call) => {
      const found = call
        .list(0)
        .items.findIndex((item) => call.args[1] !== undefined && isEqual(item, call.args[1]));
      return found === -1 ? call.fail('the list does not hold this value') : numberNode(call.at, found);
    }),
  ],
  [
    'contains',
    spec(2, 2, (call) => {
      const [held, wanted] = [call.list(0), call.args[1]];
      return boolNode(call.at, wanted !== undefined && held.items.some((item) => isEqual(item, wanted)));
    }),
  ],
  ['range', spec(1, 3, range)],
  [
    'sum',
    spec(1, 1, (call) =>
      numberNode(
        call.at,
        call
          .list(0)
          .items.reduce(
            (sum, item) => sum + (asNumber(item) ?? call.fail('it holds something that is no number')),
            0,
          ),
      ),
    ),
  ],
  [
    'merge',
    spec(0, Infinity, (call) =>
      mapNode(
        call.at,
        call.args.flatMap((arg, index) =>
          isBlank(arg) ? [] : call.map(index).entries.map(({ key, value }) => [key, value] as const),
        ),
      ),
    ),
  ],
  [
    'keys',
    spec(1, 1, (call) =>
      list(
        call,
        call
          .map(0)
          .entries.map(({ key }) => key)
          .sort()
          .map((key) => textNode(call.at, key)),
      ),
    ),
  ],
  [
    'values',
    spec(1, 1, (call) =>
      list(
        call,
        [...call.map(0).entries].sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ value }) => value),
      ),
    ),
  ],
  ['lookup', spec(2, 3, lookup)],
  ['zipmap', spec(2, 2, zipmap)],
  [
    'coalesce',
    spec(
      1,
      Infinity,
      (call) => call.args.find((arg) => !isBlank(arg)) ?? call.fail('all arguments are null or empty'),
    ),
  ],
  [
    'coalescelist',
    spec(
      1,
      Infinity,
      (call) =>
        call.args.find((arg, index) => call.list(index).items.length > 0 && arg.kind === 'list') ??
        call.fail('all lists are empty'),
    ),
  ],
  [
    'setintersection',
    spec(1, Infinity, (call) => {
      const [first, ...others] = call.args.map((_, index) => call.list(index).items);
      const isInAll = (item: Tree): boolean =>
        others.every((other) => other.some((one) => isEqual(one, item)));
      return list(call, ordered(distinct((first ?? []).filter(isInAll))));
    }),
  ],
  [
    'setsubtract',
    spec(2, 2, (call) => {
      const taken = call.list(1).items;
      const left = call.list(0).items.filter((item) => !taken.some((one) => isEqual(one, item)));
      return list(call, ordered(distinct(left)));
    }),
  ],
  [
    'setproduct',
    spec(2, Infinity, (call) => {
      const lists = call.args.map((_, index) => call.list(index).items);
      call.budget.spend(
        lists.reduce((product, { length }) => product * length, lists.length),
        call.at,
      );
      const rows = lists.reduce<Tree[][]>(
        (made, items) => made.flatMap((row) => items.map((item) => [...row, item])),
        [[]],
      );
      return list(
        call,
        rows.map((row) => list(call, row)),
      );
    }),
  ],
  [
    'chunklist',
    spec(2, 2, (call) => {
      const { items } = call.list(0);
      const size = call.whole(1);
      if (size < 1) call.fail('a chunk holds at least 1');
      const begins = items.flatMap((_, index) => (index % size === 0 ? [index] : []));
      return list(
        call,
        begins.map((begin) => list(call, items.slice(begin, begin + size))),
      );
    }),
  ],
  [
    'alltrue',
    spec(1, 1, (call) =>
      boolNode(
        call.at,
        call.list(0).items.every((item) => truthOf(item, 'alltrue()')),
      ),
    ),
  ],
  [
    'anytrue',
    spec(1, 1, (call) =>
      boolNode(
        call.at,
        call.list(0).items.some((item) => truthOf(item, 'anytrue()')),
      ),
    ),
  ],
  [
    'setunion',
    spec(1, Infinity, (call) =>
      list(call, ordered(distinct(call.args.flatMap((_, index) => call.list(index).items)))),
    ),
  ],
];
