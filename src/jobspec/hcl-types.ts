/** Owns the types of variables: `string`, `list(number)`, `object({…})`; and how a value becomes one of them. */
import { partsOf, type HclNode } from './hcl-faults.js';
import {
  asBool,
  asNumber,
  asText,
  boolNode,
  describeMade,
  ExpressionFault,
  mapNode,
  nullNode,
  numberNode,
  textNode,
} from './hcl-made.js';
import type { Element, Objects } from './hcl-objects.js';
import type { Tree } from './tree.js';
import { suggest } from './words.js';

export type VariableType =
  | { readonly kind: 'any' | 'string' | 'number' | 'bool' }
  | { readonly kind: 'list' | 'set' | 'map'; readonly of: VariableType }
  | { readonly kind: 'tuple'; readonly items: readonly VariableType[] }
  | { readonly kind: 'object'; readonly fields: ReadonlyMap<string, Field> };

interface Field {
  readonly type: VariableType;
  readonly isOptional: boolean;
}

const PLAIN = ['string', 'number', 'bool', 'any'] as const;
const MADE = ['list', 'set', 'map', 'object', 'tuple'] as const;

/** Reads a type as it is written. @throws ExpressionFault */
export function readType(node: HclNode, text: string, objects: Objects): VariableType {
  const [part, ...more] = partsOf(node);
  const written = text.slice(node.from, node.to);
  const bad = (): ExpressionFault =>
    new ExpressionFault(
      node.from,
      `there is no type \`${written.slice(0, 40)}\``,
      suggest(written, [...PLAIN, 'list(string)', 'map(string)', 'set(string)'], 'types are'),
    );
  if (part === undefined || more.length > 0) throw bad();
  const word = text.slice(part.from, part.to);
  if (part.name === 'LiteralValue') {
    throw new ExpressionFault(node.from, `a type has no quotes: ${word.replaceAll('"', '')}`);
  }
  if (part.name === 'VariableExpr') {
    const kind = PLAIN.find((known) => known === word);
    if (kind !== undefined) return { kind };
    const made = MADE.find((known) => known === word);
    if (made === 'list' || made === 'set' || made === 'map') return { kind: made, of: { kind: 'any' } };
    throw bad();
  }
  if (part.name !== 'FunctionCall') throw bad();
  const inner = partsOf(part);
  const nameNode = inner.find((child) => child.name === 'FunctionName');
  const name = nameNode === undefined ? '' : text.slice(nameNode.from, nameNode.to).trim();
  const args = partsOf(inner.find((child) => child.name === 'FunctionArguments'));
  const [only, extra] = args.filter((child) => child.name === 'Expression');
  const kind = MADE.find((known) => known === name);
  if (kind === undefined || only === undefined || extra !== undefined) throw bad();
  if (kind === 'list' || kind === 'set' || kind === 'map') return { kind, of: readType(only, text, objects) };
  const [collection] = partsOf(partsOf(only)[0]);
  if (kind === 'tuple' && collection?.name === 'Tuple') {
    const items = partsOf(collection).filter((child) => child.name === 'Expression');
    return { kind, items: items.map((item) => readType(item, text, objects)) };
  }
  if (kind === 'object' && collection?.name === 'Object') {
    const elements = objects.elements(collection);
    return { kind, fields: new Map(elements.map((element) => readField(element, text, objects))) };
  }
  throw bad();
}

function readField(
  { from = 0, key, value }: Partial<Element>,
  text: string,
  objects: Objects,
): readonly [string, Field] {
  const keyNode = key?.getChild('Expression');
  if (keyNode == null || value === undefined) throw new ExpressionFault(from, 'this type cannot be read');
  const name = text.slice(keyNode.from, keyNode.to).replaceAll('"', '');
  const optional = /^optional\s*\(/.test(text.slice(value.from, value.to));
  if (!optional) return [name, { type: readType(value, text, objects), isOptional: false }];
  const args = partsOf(partsOf(partsOf(value)[0]).find((child) => child.name === 'FunctionArguments'));
  const first = args.find((child) => child.name === 'Expression');
  if (first === undefined) throw new ExpressionFault(value.from, 'write `optional(TYPE)`');
  return [name, { type: readType(first, text, objects), isOptional: true }];
}

/** A type as people write it. */
export function describeType(type: VariableType): string {
  switch (type.kind) {
    case 'list':
    case 'set':
    case 'map':
      return `${type.kind}(${describeType(type.of)})`;
    case 'tuple':
      return `tuple([${type.items.map(describeType).join(', ')}])`;
    case 'object':
      return `object({${[...type.fields].map(([name, field]) => `${name} = ${describeType(field.type)}`).join(', ')}})`;
    case 'any':
    case 'string':
    case 'number':
    case 'bool':
      return type.kind;
  }
}

const NOUNS = { string: 'a string', number: 'a number', bool: 'true or false' } as const;

/**
 * The value as one of the type. Null stays null.
 * @param where what is converted, for the message: `variable \`port\``
 * @throws ExpressionFault
 */
export function convert(tree: Tree, type: VariableType, where: string): Tree {
  if (type.kind === 'any' || (tree.kind === 'scalar' && tree.value === null)) return tree;
  const { at } = tree;
  const wanted = (what: string): ExpressionFault =>
    new ExpressionFault(at, `${where}: expected ${what}, found ${describeMade(tree)}`);
  switch (type.kind) {
    case 'string': {
      const text = asText(tree);
      if (text === undefined) throw wanted(NOUNS.string);
      return textNode(at, text);
    }
    case 'number': {
      const number = asNumber(tree);
      if (number === undefined) throw wanted(NOUNS.number);
      return tree.kind === 'scalar' && typeof tree.value === 'number' ? tree : numberNode(at, number);
    }
    case 'bool': {
      const truth = asBool(tree);
      if (truth === undefined) throw wanted(NOUNS.bool);
      return boolNode(at, truth);
    }
    case 'list':
    case 'set':
      if (tree.kind !== 'list') throw wanted(`a list (${describeType(type)})`);
      return {
        ...tree,
        items: tree.items.map((item, index) => convert(item, type.of, `${where}[${index}]`)),
      };
    case 'map':
      if (tree.kind !== 'map') throw wanted(`a map (${describeType(type)})`);
      return mapNode(
        at,
        tree.entries.map(({ key, value }) => [key, convert(value, type.of, `${where}.${key}`)] as const),
      );
    case 'tuple': {
      const { items } = type;
      if (tree.kind !== 'list' || tree.items.length !== items.length)
        throw wanted(`a list of ${items.length} (${describeType(type)})`);
      return {
        ...tree,
        items: tree.items.map((item, index) =>
          convert(item, items[index] ?? { kind: 'any' }, `${where}[${index}]`),
        ),
      };
    }
    case 'object':
      return convertObject(tree, type.fields, where);
  }
}

function convertObject(tree: Tree, fields: ReadonlyMap<string, Field>, where: string): Tree {
  if (tree.kind !== 'map')
    throw new ExpressionFault(tree.at, `${where}: expected a map, found ${describeMade(tree)}`);
  const held = new Map(tree.entries.map(({ key, value }) => [key, value]));
  const made = [...fields].map(([name, { type, isOptional }]) => {
    const value = held.get(name);
    if (value !== undefined) return [name, convert(value, type, `${where}.${name}`)] as const;
    if (isOptional) return [name, nullNode(tree.at)] as const;
    throw new ExpressionFault(tree.at, `${where} lacks \`${name}\` (${describeType(type)})`);
  });
  const extra = [...held.keys()].find((name) => !fields.has(name));
  if (extra !== undefined) {
    throw new ExpressionFault(
      tree.at,
      `${where} has no field \`${extra}\``,
      suggest(extra, [...fields.keys()], 'its fields are'),
    );
  }
  return mapNode(tree.at, made);
}
