/**
 * Owns HCL text → tree with positions. The grammar (docs/adr/0008-hcl-grammar.md) finds the structure; it was made
 * for colouring text in an editor and forgives much, so this file accepts only what it knows: a node it does not
 * expect is a fault, and line ends are checked here, because the grammar does not see them.
 */
import { loadPackage } from '../base/lazy.js';
import type * as Grammar from 'codemirror-lang-hcl';
import { gluedNumber, hasNewline, HclSink, partsOf, type HclNode } from './hcl-faults.js';
import { asText, ExpressionFault, mapNode } from './hcl-made.js';
import { Objects } from './hcl-objects.js';
import type { Scope } from './hcl-scope.js';
import { shorten } from './hcl-text.js';
import { pairsOf } from './hcl-lists.js';
import { ValueReader } from './hcl-values.js';
import { Declarations, isDeclaration, type TopBlock } from './hcl-variables.js';
import { NO_INPUTS, type Inputs } from './inputs.js';
import { DEEPEST, type Entry, type Label, type MapNode, type ReadText, type Tree } from './tree.js';

// Loaded (about 30 ms) only when an HCL file is read.
let grammar: typeof Grammar | undefined;

/** What an HCL text came to. */
export interface HclText extends ReadText {
  /** True when the tree is more than a copy of the text: something in it was worked out. */
  readonly isWorkedOut: boolean;
}

/** Reads one HCL text. */
export function readHcl(text: string, inputs: Inputs = NO_INPUTS): HclText {
  const sink = new HclSink(text);
  const top = parseHcl(text);
  const objects = new Objects(text, parseHcl);
  objects.mend(top);
  const values = new ValueReader(text, sink, { objects, readFile: inputs.readFile });
  const tree = new HclReader(text, sink, values).readFile(top, inputs);
  const isWorkedOut = values.hasWorkedOut;
  const syntax = sink.firstSyntaxFault((visit) => {
    objects.eachError(visit);
  });
  // After a syntax fault everything further down may be misread: only the first one is worth telling.
  if (syntax !== undefined) return { tree: undefined, faults: [syntax], isWorkedOut };
  if (sink.told.length > 0) return { tree: undefined, faults: sink.told, isWorkedOut };
  return { tree, faults: sink.repeats, isWorkedOut };
}

function parseHcl(text: string): HclNode {
  grammar ??= loadPackage('codemirror-lang-hcl') as typeof Grammar;
  return grammar.hclLanguage.parser.parse(text).topNode;
}

/** A value on its own, such as that of `-var`. @throws ExpressionFault */
function readLiteral(text: string): Tree {
  const { tree, faults } = readHcl(`value = ${text}`);
  const [fault] = faults;
  if (fault !== undefined) throw new ExpressionFault(0, fault.message, fault.hint);
  const [entry, more] = tree?.entries ?? [];
  if (entry === undefined || more !== undefined) throw new ExpressionFault(0, 'it is not one value');
  return entry.value;
}

/** What stands before the body of a block, and what in it. */
interface Head extends TopBlock {
  readonly labels: readonly Label[];
  readonly openAt: number;
}

/** Where a block stands. */
interface Place {
  readonly scope: Scope;
  readonly depth: number;
}

class HclReader {
  readonly #text: string;
  readonly #sink: HclSink;
  readonly #values: ValueReader;

  constructor(text: string, sink: HclSink, values: ValueReader) {
    this.#text = text;
    this.#sink = sink;
    this.#values = values;
  }

  readFile(top: HclNode, inputs: Inputs): MapNode {
    const parts = partsOf(top);
    const items = partsOf(parts.find((part) => part.name === 'Body'));
    for (const part of parts) if (part.name !== 'Body') this.#sink.malformed(part);
    this.#requireLineEnds(items, this.#text.length);
    const declarations = new Declarations(this.#text, this.#sink, this.#values, { inputs, readLiteral });
    const rest = items.filter((item) => {
      const head = item.name === 'Block' ? this.#head(item) : undefined;
      if (head === undefined || !isDeclaration(head.key)) return true;
      declarations.declare(head);
      return false;
    });
    return this.#body(rest, 0, { scope: declarations.settle(), depth: 0 });
  }

  #body(items: readonly HclNode[], at: number, place: Place): MapNode {
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    for (const item of items) {
      if (item.name !== 'Block') {
        const entry = this.#attribute(item, place);
        if (entry === undefined) continue;
        this.#sink.noteKey(firsts, entry.key, entry.keyAt);
        entries.push(entry);
      } else entries.push(...this.#block(item, place));
    }
    return { kind: 'map', at, entries };
  }

  #attribute(node: HclNode, { scope, depth }: Place): Entry | undefined {
    const [name, assign, value] = partsOf(node);
    if (name?.name !== 'Identifier' || assign?.name !== 'AssignOp' || value?.name !== 'Expression') {
      this.#sink.malformed(node);
      return undefined;
    }
    const key = this.#slice(name);
    this.#sink.requireOneLine([name, assign, value], `the value of \`${key}\` must begin on its line`);
    const tree = this.#values.read(value, scope, depth);
    return { key, keyAt: name.from, labels: undefined, value: tree };
  }

  #block(node: HclNode, place: Place): readonly Entry[] {
    const head = this.#head(node);
    if (head === undefined) return [];
    const { key, keyAt, labels, items, openAt } = head;
    if (place.depth >= DEEPEST) {
      this.#sink.refuse(openAt, `more than ${DEEPEST} levels of nesting`);
      return [];
    }
    const inner = { ...place, depth: place.depth + 1 };
    if (key === 'dynamic') return this.#dynamic(head, inner);
    return [{ key, keyAt, labels, value: this.#body(items, keyAt, inner) }];
  }

  /** `dynamic "env" { for_each = …; content { … } }`: a block for each. */
  #dynamic({ keyAt, labels, items }: Head, place: Place): readonly Entry[] {
    const [label, extra] = labels;
    const find = (wanted: string): HclNode | undefined =>
      items.flatMap((item) => {
        const [name, , value] = partsOf(item);
        const isIt = item.name === 'Attribute' && name !== undefined && this.#slice(name) === wanted;
        return isIt && value !== undefined ? [value] : [];
      })[0];
    const forEach = find('for_each');
    const content = items
      .flatMap((item) => (item.name === 'Block' ? (this.#head(item) ?? []) : []))
      .find((block) => block.key === 'content');
    if (label === undefined || extra !== undefined || forEach === undefined || content === undefined) {
      const hint = 'write `dynamic "env" { for_each = … content { … } }`';
      this.#sink.tell({
        at: keyAt,
        message: 'block `dynamic` needs one label, `for_each` and `content`',
        hint,
      });
      return [];
    }
    this.#values.hasWorkedOut = true;
    const iterator = find('iterator');
    const name = iterator === undefined ? label.text : this.#slice(iterator).replaceAll('"', '');
    const labelsNode = find('labels');
    const entries: Entry[] = [];
    try {
      for (const [key, value] of pairsOf(this.#values.value(forEach, place))) {
        const own = mapNode(forEach.from, [['key', key] as const, ['value', value] as const]);
        const inner = { scope: place.scope.with([[name, own]]), depth: place.depth };
        const made = labelsNode === undefined ? [] : this.#dynamicLabels(labelsNode, inner);
        const body = this.#body(content.items, content.keyAt, inner);
        entries.push({ key: label.text, keyAt: label.at, labels: made, value: body });
      }
    } catch (error) {
      this.#values.note(error);
    }
    return entries;
  }

  #dynamicLabels(node: HclNode, place: Place): Label[] {
    const labels = this.#values.value(node, place);
    const items = labels.kind === 'list' ? labels.items : [labels];
    return items.map((item) => {
      const text = asText(item);
      if (text !== undefined) return { text, at: node.from };
      throw new ExpressionFault(node.from, '`labels` must be a list of strings');
    });
  }

  /** The parts of a block, checked for their lines. */
  #head(node: HclNode): Head | undefined {
    const parts = partsOf(node);
    const [type] = parts;
    const open = parts.find((part) => part.name === '{');
    const close = parts.find((part) => part.name === '}');
    if (type?.name !== 'BlockType' || open === undefined || close === undefined) {
      this.#sink.malformed(node);
      return undefined;
    }
    const key = this.#slice(type);
    const head = parts.slice(0, parts.indexOf(open) + 1);
    this.#sink.requireOneLine(head, `\`{\` of block \`${key}\` must stand on its line`);
    const labels = head.filter((part) => part.name === 'BlockLabel').map((label) => this.#label(label));
    const items = partsOf(parts.find((part) => part.name === 'Body'));
    this.#checkBlockLines(key, open, items, close);
    return { key, keyAt: type.from, labels, items, openAt: open.from };
  }

  /** `b {` and `}` on lines of their own around items, or all on one line around one attribute at most. */
  #checkBlockLines(key: string, open: HclNode, items: readonly HclNode[], close: HclNode): void {
    const [first, second] = items;
    if (first === undefined) return;
    if (hasNewline(this.#text, open.to, first.from)) {
      this.#requireLineEnds(items, close.from);
      if (!this.#gapEndsLine(items.at(-1)?.to ?? 0, close.from)) {
        this.#sink.refuse(close.from, 'a new line must begin before this `}`');
      }
      return;
    }
    const extra = first.name === 'Block' ? first : second;
    if (extra !== undefined) {
      this.#sink.refuse(
        extra.from,
        `block \`${key}\` begins on one line and holds more than one key: use a line for each`,
      );
    } else if (hasNewline(this.#text, first.to, close.from)) {
      this.#sink.refuse(first.from, `a new line must begin after the \`{\` of block \`${key}\``);
    }
  }

  /** Every item but the last must be followed by a line end; what stands between is space and comments only. */
  #requireLineEnds(items: readonly HclNode[], end: number): void {
    for (const [index, item] of items.entries()) {
      const next = items[index + 1];
      if (next === undefined || next.from >= end || this.#gapEndsLine(item.to, next.from)) continue;
      const glued = /^-?\d[\w.]*$/.exec(this.#lastWord(item, next));
      if (glued !== null) {
        this.#sink.refuse(this.#startOfWord(item), gluedNumber(glued[0]), item.to - 0.5);
      } else {
        this.#sink.refuse(next.from, `a new line must begin before \`${shorten(this.#slice(next))}\``);
      }
    }
  }

  /** The word at the seam of two items that touch, such as `5s` (a number, then a word). */
  #lastWord(item: HclNode, next: HclNode): string {
    if (item.to !== next.from) return '';
    const before = this.#text.slice(this.#startOfWord(item), item.to);
    return before + (/^\w*/.exec(this.#text.slice(next.from))?.[0] ?? '');
  }

  #startOfWord(item: HclNode): number {
    return item.to - (/[\w.-]*$/.exec(this.#text.slice(item.from, item.to))?.[0].length ?? 0);
  }

  #gapEndsLine(from: number, to: number): boolean {
    return hasNewline(this.#text, from, to);
  }

  #label(node: HclNode): Label {
    const [inner] = partsOf(node);
    if (inner?.name !== 'StringLit') return { text: this.#slice(node), at: node.from };
    const text = this.#values.quoted(inner);
    if (/(?<!\$)\$\{/.test(text))
      this.#sink.refuse(node.from, 'a label is fixed text: `${…}` cannot stand in it');
    return { text, at: node.from };
  }

  #slice(node: HclNode): string {
    return this.#text.slice(node.from, node.to);
  }
}
