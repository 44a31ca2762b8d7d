/** Owns names and the way from them: `var.x`, `local.x.y`, `list[0].name`, `list[*].name`. */
import type { Expressions, Place } from './hcl-expressions.js';
import { partsOf, type HclNode } from './hcl-faults.js';
import { asNumber, asText, describeMade, ExpressionFault, movedTo, textNode } from './hcl-made.js';
import { isRunTimeName } from './hcl-scope.js';
import { isRunTimeReference, shorten } from './hcl-text.js';
import type { Tree } from './tree.js';
import { suggest } from './words.js';

export class StepReader {
  readonly #all: Expressions;

  constructor(all: Expressions) {
    this.#all = all;
  }

  /** A name, and the way from it. @throws ExpressionFault, AlreadyTold */
  name(node: HclNode, steps: readonly HclNode[], place: Place): Tree {
    const root = this.#all.slice(node);
    const own = place.scope.own(root);
    this.#all.hasWorkedOut = true;
    if (own !== undefined) return this.follow(movedTo(own, node.from), steps, place);
    if (place.scope.isFamily(root)) {
      const [first, ...rest] = steps;
      const name = first === undefined ? undefined : this.#stepName(first, place);
      if (name === undefined || typeof name === 'number')
        throw new ExpressionFault(node.from, `\`${root}\` is followed by a name: \`${root}.name\``);
      const value = place.scope.readFamily(root, name, node.from);
      this.#all.budget.spendTree(value, node.from);
      return this.follow(movedTo(value, node.from), rest, place);
    }
    const end = steps.at(-1)?.to ?? node.to;
    const written = this.#all.text.slice(node.from, end);
    if (isRunTimeName(root) && isRunTimeReference(written) !== undefined)
      return textNode(node.from, `\${${written}}`);
    const word = shorten(written);
    if (steps.length === 0) throw new ExpressionFault(node.from, `\`${word}\` needs quotes: "${word}"`);
    throw new ExpressionFault(
      node.from,
      `nothing is called \`${root}\` here: ${word}`,
      'there are `var.…` and `local.…`; text needs quotes',
    );
  }

  /** The way from a value: `.name`, `[0]`, `[*]`. @throws ExpressionFault, AlreadyTold */
  follow(from: Tree, steps: readonly HclNode[], place: Place): Tree {
    let value = from;
    for (const [index, step] of steps.entries()) {
      if (step.name === 'Splat') return this.#splat(value, steps.slice(index + 1), place);
      value = this.#step(value, step, place);
    }
    return value;
  }

  /** `list[*].name`: the rest of the way, from each item. */
  #splat(from: Tree, rest: readonly HclNode[], place: Place): Tree {
    const isNull = from.kind === 'scalar' && from.value === null;
    const items = from.kind === 'list' ? from.items : isNull ? [] : [from];
    return { kind: 'list', at: from.at, items: items.map((item) => this.follow(item, rest, place)) };
  }

  #step(value: Tree, step: HclNode, place: Place): Tree {
    const name = this.#stepName(step, place);
    const word = shorten(this.#all.slice(step));
    if (value.kind === 'list') {
      const index = typeof name === 'number' ? name : Number(/^\d+$/.test(name) ? name : NaN);
      const item = value.items[index];
      if (item !== undefined) return movedTo(item, value.at);
      const count = value.items.length;
      throw new ExpressionFault(
        step.from,
        `\`${word}\`: the list has ${count} item${count === 1 ? '' : 's'}`,
      );
    }
    if (value.kind === 'map') {
      const key = String(name);
      const entry = value.entries.find((one) => one.key === key);
      if (entry !== undefined) return movedTo(entry.value, value.at);
      const keys = value.entries.map((one) => one.key);
      throw new ExpressionFault(
        step.from,
        `\`${word}\`: the map has no such key`,
        suggest(key, keys, 'its keys are'),
      );
    }
    throw new ExpressionFault(step.from, `\`${word}\`: ${describeMade(value)} has no parts`);
  }

  /** `.name`, `.0`, `["name"]`, `[0]`. */
  #stepName(step: HclNode, place: Place): string | number {
    if (step.name === 'GetAttr')
      return this.#all
        .slice(step)
        .replace(/^\s*\.\s*/, '')
        .trim();
    const expression = partsOf(partsOf(step)[0]).find((part) => part.name === 'Expression');
    if (expression === undefined)
      return this.#all
        .slice(step)
        .replace(/^\s*\.\s*/, '')
        .trim();
    const value = this.#all.value(expression, { ...place, depth: place.depth + 1 });
    const isNumber = value.kind === 'scalar' && typeof value.value === 'number';
    const key = isNumber ? asNumber(value) : asText(value);
    if (key === undefined)
      throw new ExpressionFault(
        expression.from,
        `an index must be a number or text, found ${describeMade(value)}`,
      );
    return key;
  }
}
