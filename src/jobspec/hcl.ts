/**
 * Owns HCL text → tree with positions. The grammar (docs/adr/0008-hcl-grammar.md) finds the structure; it was made
 * for colouring text in an editor and forgives much, so this file accepts only what it knows: a node it does not
 * expect is a fault, and line ends are checked here, because the grammar does not see them.
 */
import { createRequire } from 'node:module';
import type * as Grammar from 'codemirror-lang-hcl';
import { gluedNumber, hasNewline, HclSink, partsOf, type HclNode } from './hcl-faults.js';
import { shorten } from './hcl-text.js';
import { ValueReader } from './hcl-values.js';
import { DEEPEST, type Entry, type Label, type MapNode, type ReadText } from './tree.js';

// Loaded (about 30 ms) only when an HCL file is read. Its module for `require` loads at once; `import()` could not.
const require = createRequire(import.meta.url);
let grammar: typeof Grammar | undefined;

/** Reads one HCL text. */
export function readHcl(text: string): ReadText {
  grammar ??= require('codemirror-lang-hcl') as typeof Grammar;
  const { topNode } = grammar.hclLanguage.parser.parse(text);
  const sink = new HclSink(text);
  const tree = new HclReader(text, sink).readFile(topNode);
  const syntax = sink.firstSyntaxFault(topNode);
  // After a syntax fault everything further down may be misread: only the first one is worth telling.
  if (syntax !== undefined) return { tree: undefined, faults: [syntax] };
  if (sink.unsupported.length > 0) return { tree: undefined, faults: sink.unsupported };
  return { tree, faults: sink.repeats };
}

class HclReader {
  readonly #text: string;
  readonly #sink: HclSink;
  readonly #values: ValueReader;

  constructor(text: string, sink: HclSink) {
    this.#text = text;
    this.#sink = sink;
    this.#values = new ValueReader(text, sink);
  }

  readFile(top: HclNode): MapNode {
    const parts = partsOf(top);
    const items = partsOf(parts.find((part) => part.name === 'Body'));
    for (const part of parts) if (part.name !== 'Body') this.#sink.malformed(part);
    this.#requireLineEnds(items, this.#text.length);
    return this.#body(items, 0, 0);
  }

  #body(items: readonly HclNode[], at: number, depth: number): MapNode {
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    for (const item of items) {
      const entry = item.name === 'Block' ? this.#block(item, depth) : this.#attribute(item, depth);
      if (entry === undefined) continue;
      if (entry.labels === undefined) this.#sink.noteKey(firsts, entry.key, entry.keyAt);
      entries.push(entry);
    }
    return { kind: 'map', at, entries };
  }

  #attribute(node: HclNode, depth: number): Entry | undefined {
    const [name, assign, value] = partsOf(node);
    if (name?.name !== 'Identifier' || assign?.name !== 'AssignOp' || value?.name !== 'Expression') {
      this.#sink.malformed(node);
      return undefined;
    }
    const key = this.#slice(name);
    this.#sink.requireOneLine([name, assign, value], `the value of \`${key}\` must begin on its line`);
    const tree = this.#values.read(value, depth);
    return { key, keyAt: name.from, labels: undefined, value: tree };
  }

  #block(node: HclNode, depth: number): Entry | undefined {
    const parts = partsOf(node);
    const [type] = parts;
    const open = parts.find((part) => part.name === '{');
    const close = parts.find((part) => part.name === '}');
    if (type?.name !== 'BlockType' || open === undefined || close === undefined) {
      this.#sink.malformed(node);
      return undefined;
    }
    const key = this.#slice(type);
    if (depth >= DEEPEST) {
      this.#sink.refuse(open.from, `more than ${DEEPEST} levels of nesting`);
      return undefined;
    }
    const head = parts.slice(0, parts.indexOf(open) + 1);
    this.#sink.requireOneLine(head, `\`{\` of block \`${key}\` must stand on its line`);
    const labels = head.filter((part) => part.name === 'BlockLabel').map((label) => this.#label(label));
    const items = partsOf(parts.find((part) => part.name === 'Body'));
    this.#checkBlockLines(key, open, items, close);
    return { key, keyAt: type.from, labels, value: this.#body(items, type.from, depth + 1) };
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
    const text = this.#values.quoted(inner, []);
    if (/(?<!\$)\$\{/.test(text))
      this.#sink.refuse(node.from, 'a label is fixed text: `${…}` cannot stand in it');
    return { text, at: node.from };
  }

  #slice(node: HclNode): string {
    return this.#text.slice(node.from, node.to);
  }
}
