/** Owns lists and maps: those that are written out, and those that a `for` makes. */
import { hasNewline, partsOf, type HclNode } from './hcl-faults.js';
import type { Expressions, Place } from './hcl-expressions.js';
import { asText, describeMade, ExpressionFault, mapNode, numberNode, textNode } from './hcl-made.js';
import type { Element } from './hcl-objects.js';
import { truthOf } from './hcl-operators.js';
import { shorten } from './hcl-text.js';
import type { Entry, MapNode, Tree } from './tree.js';

export class ListReader {
  readonly #all: Expressions;

  constructor(all: Expressions) {
    this.#all = all;
  }

  /** A list or a map. @throws ExpressionFault, AlreadyTold */
  collection(node: HclNode, place: Place): Tree {
    const [part] = partsOf(node);
    const inner = { ...place, depth: place.depth + 1 };
    if (part?.name === 'Tuple') {
      const items = partsOf(part).filter((item) => item.name === 'Expression');
      return {
        kind: 'list',
        at: node.from,
        items: this.#all.each(items, (item) => this.#all.value(item, inner)),
      };
    }
    if (part?.name !== 'Object')
      throw new ExpressionFault(node.from, `this cannot be read: ${shorten(this.#all.slice(node))}`);
    return this.#object(part, node.from, inner);
  }

  #object(node: HclNode, at: number, place: Place): MapNode {
    const elements = this.#all.objects.elements(node);
    const firsts = new Map<string, number>();
    for (const [index, element] of elements.entries()) {
      const before = elements[index - 1];
      if (
        before?.to !== undefined &&
        element.from !== undefined &&
        !this.#separated(before.to, element.from)
      ) {
        this.#all.sink.refuse(element.from, 'a comma or a new line must stand before this key');
      }
    }
    const entries = this.#all.each(elements, (element: Partial<Element>): Entry | undefined => {
      const { key: keyNode, assign, value } = element;
      if (keyNode === undefined || assign === undefined || value === undefined) return undefined;
      this.#all.sink.requireOneLine([keyNode, assign, value], 'key, `=` and value must stand on one line');
      const key = this.#objectKey(keyNode, place);
      this.#all.sink.noteKey(firsts, key, keyNode.from);
      return { key, keyAt: keyNode.from, labels: undefined, value: this.#all.value(value, place) };
    });
    return { kind: 'map', at, entries: entries.filter((entry) => entry !== undefined) };
  }

  #separated(from: number, to: number): boolean {
    return this.#all.text.slice(from, to).includes(',') || hasNewline(this.#all.text, from, to);
  }

  #objectKey(node: HclNode, place: Place): string {
    const expression = partsOf(node).find((inner) => inner.name === 'Expression');
    const parts = partsOf(expression);
    const [part] = parts;
    if (parts.length === 1 && part?.name === 'VariableExpr') return this.#all.slice(part);
    if (parts.length === 1 && part?.name === 'LiteralValue') {
      const [literal] = partsOf(part);
      if (literal?.name === 'StringLit') return this.#all.quoted(literal);
      if (literal?.name === 'NumericLit') return this.#all.slice(literal);
    }
    const isWorkedOut = part?.name === '(' || part?.name === 'TemplateExpr';
    const value = isWorkedOut && expression !== undefined ? this.#all.value(expression, place) : undefined;
    const key = value === undefined ? undefined : asText(value);
    if (key !== undefined) {
      this.#all.hasWorkedOut = true;
      return key;
    }
    const hint = 'a key that is worked out stands in brackets: `(var.x) = …`';
    throw new ExpressionFault(node.from, 'this key must be a word or a string in quotes', hint);
  }

  /** A list or a map that is made by a `for`. @throws ExpressionFault, AlreadyTold */
  for(node: HclNode, place: Place): Tree {
    this.#all.hasWorkedOut = true;
    const [part] = partsOf(node);
    const parts = partsOf(part);
    const intro = partsOf(parts.find((inner) => inner.name === 'ForIntro'));
    const names = intro.filter((inner) => inner.name === 'Identifier').map((name) => this.#all.slice(name));
    const source = intro.find((inner) => inner.name === 'Expression');
    const made = parts.filter((inner) => inner.name === 'Expression');
    const condition = partsOf(parts.find((inner) => inner.name === 'ForCond')).find(
      (inner) => inner.name === 'Expression',
    );
    const [first, second] = made;
    if (source === undefined || first === undefined || names.length === 0) {
      throw new ExpressionFault(node.from, 'this `for` cannot be read: `[for x in list : …]`');
    }
    const isMap = part?.name === 'ForObjectExpr';
    const isGrouped = parts.some((inner) => inner.name === 'Ellipsis');
    const items: Tree[] = [];
    const entries = new Map<string, Tree>();
    for (const [key, value] of pairsOf(this.#all.value(source, place))) {
      this.#all.budget.spend(1, node.from);
      const own: (readonly [string, Tree])[] =
        names.length === 1
          ? [[names[0] ?? '', value]]
          : [
              [names[0] ?? '', key],
              [names[1] ?? '', value],
            ];
      const inner = { scope: place.scope.with(own), depth: place.depth + 1 };
      if (condition !== undefined && !truthOf(this.#all.value(condition, inner), 'the `if` of a `for`'))
        continue;
      const one = this.#all.value(first, inner);
      if (!isMap) {
        items.push(one);
        continue;
      }
      const name = asText(one);
      if (name === undefined || second === undefined)
        throw new ExpressionFault(first.from, `a key must be text, found ${describeMade(one)}`);
      const result = this.#all.value(second, inner);
      const held = entries.get(name);
      if (!isGrouped && held !== undefined) {
        const hint = 'write `…` behind the value to make a list for each key: `k => v...`';
        throw new ExpressionFault(first.from, `two of them have the key ${JSON.stringify(name)}`, hint);
      }
      const list = held?.kind === 'list' ? held.items : [];
      entries.set(name, isGrouped ? { kind: 'list', at: node.from, items: [...list, result] } : result);
    }
    return isMap ? mapNode(node.from, entries) : { kind: 'list', at: node.from, items };
  }
}

/** What a `for` or a `dynamic` block goes through: index or key, and value; maps in the order of their keys. @throws ExpressionFault */
export function pairsOf(source: Tree): (readonly [Tree, Tree])[] {
  if (source.kind === 'list')
    return source.items.map((item, index) => [numberNode(item.at, index), item] as const);
  if (source.kind === 'map') {
    const entries = [...source.entries].sort((a, b) => (a.key < b.key ? -1 : 1));
    return entries.map(({ key, value }) => [textNode(source.at, key), value] as const);
  }
  throw new ExpressionFault(
    source.at,
    `expected a list or a map to go through, found ${describeMade(source)}`,
  );
}
