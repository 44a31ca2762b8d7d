/**
 * Owns HCL text → tree with positions. The grammar (docs/adr/0001-hcl-grammar.md) finds the structure; it was made
 * for colouring text in an editor and forgives much, so this file accepts only what it knows: a node it does not
 * expect is a fault, and line ends are checked here, because the grammar does not see them.
 */
import { createRequire } from 'node:module';
import type * as Grammar from 'codemirror-lang-hcl';
import { firstSyntaxFault, hasNewline, type HclNode, type OrderedFault } from './hcl-faults.js';
import {
  joinHeredoc,
  keepInterpolation,
  shorten,
  unescapeQuoted,
  type Piece,
  type TextResult,
} from './hcl-text.js';
import {
  DEEPEST,
  LineIndex,
  repeatedKey,
  type Entry,
  type Label,
  type MapNode,
  type ReadText,
  type TextFault,
  type Tree,
} from './tree.js';

// Loaded (about 30 ms) only when an HCL file is read. Its module for `require` loads at once; `import()` could not.
const require = createRequire(import.meta.url);
let grammar: typeof Grammar | undefined;

/** Reads one HCL text. */
export function readHcl(text: string): ReadText {
  grammar ??= require('codemirror-lang-hcl') as typeof Grammar;
  const { topNode } = grammar.hclLanguage.parser.parse(text);
  const reader = new HclReader(text);
  const tree = reader.readFile(topNode);
  const syntax = firstSyntaxFault(text, topNode, reader.syntax);
  // After a syntax fault everything further down may be misread: only the first one is worth telling.
  if (syntax !== undefined) return { tree: undefined, faults: [syntax] };
  if (reader.unsupported.length > 0) return { tree: undefined, faults: reader.unsupported };
  return { tree, faults: reader.repeats };
}

const NUMBER = /^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

class HclReader {
  readonly syntax: OrderedFault[] = [];
  readonly unsupported: TextFault[] = [];
  readonly repeats: TextFault[] = [];
  readonly #text: string;
  readonly #lines: LineIndex;

  constructor(text: string) {
    this.#text = text;
    this.#lines = new LineIndex(text);
  }

  readFile(top: HclNode): MapNode {
    const parts = partsOf(top);
    const items = partsOf(parts.find((part) => part.name === 'Body'));
    for (const part of parts) if (part.name !== 'Body') this.#malformed(part);
    this.#requireLineEnds(items, this.#text.length);
    return this.#body(items, 0, 0);
  }

  #body(items: readonly HclNode[], at: number, depth: number): MapNode {
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    for (const item of items) {
      const entry = item.name === 'Block' ? this.#block(item, depth) : this.#attribute(item, depth);
      if (entry === undefined) continue;
      if (entry.labels === undefined) this.#noteKey(firsts, entry.key, entry.keyAt);
      entries.push(entry);
    }
    return { kind: 'map', at, entries };
  }

  #noteKey(firsts: Map<string, number>, key: string, at: number): void {
    const first = firsts.get(key);
    if (first === undefined) firsts.set(key, at);
    else this.repeats.push(repeatedKey(key, at, this.#lines.place(first)));
  }

  #attribute(node: HclNode, depth: number): Entry | undefined {
    const [name, assign, value] = partsOf(node);
    if (name?.name !== 'Identifier' || assign?.name !== 'AssignOp' || value?.name !== 'Expression') {
      this.#malformed(node);
      return undefined;
    }
    const key = this.#slice(name);
    this.#requireOneLine([name, assign, value], `the value of \`${key}\` must begin on its line`);
    const tree = this.#value(value, depth);
    return { key, keyAt: name.from, labels: undefined, value: tree };
  }

  #block(node: HclNode, depth: number): Entry | undefined {
    const parts = partsOf(node);
    const [type] = parts;
    const open = parts.find((part) => part.name === '{');
    const close = parts.find((part) => part.name === '}');
    if (type?.name !== 'BlockType' || open === undefined || close === undefined) {
      this.#malformed(node);
      return undefined;
    }
    const key = this.#slice(type);
    if (depth >= DEEPEST) {
      this.#refuse(open.from, `more than ${DEEPEST} levels of nesting`);
      return undefined;
    }
    const head = parts.slice(0, parts.indexOf(open) + 1);
    this.#requireOneLine(head, `\`{\` of block \`${key}\` must stand on its line`);
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
        this.#refuse(close.from, 'a new line must begin before this `}`');
      }
      return;
    }
    const extra = first.name === 'Block' ? first : second;
    if (extra !== undefined) {
      this.#refuse(
        extra.from,
        `block \`${key}\` begins on one line and holds more than one key: use a line for each`,
      );
    } else if (hasNewline(this.#text, first.to, close.from)) {
      this.#refuse(first.from, `a new line must begin after the \`{\` of block \`${key}\``);
    }
  }

  /** Every item but the last must be followed by a line end; what stands between is space and comments only. */
  #requireLineEnds(items: readonly HclNode[], end: number): void {
    for (const [index, item] of items.entries()) {
      const next = items[index + 1];
      if (next === undefined || next.from >= end || this.#gapEndsLine(item.to, next.from)) continue;
      const glued = /^-?\d[\w.]*$/.exec(this.#lastWord(item, next));
      if (glued !== null) {
        this.#refuse(this.#startOfWord(item), gluedNumber(glued[0]), item.to - 0.5);
      } else {
        this.#refuse(next.from, `a new line must begin before \`${shorten(this.#slice(next))}\``);
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

  #requireOneLine(parts: readonly HclNode[], message: string): void {
    for (const [index, part] of parts.entries()) {
      const next = parts[index + 1];
      if (next === undefined || !hasNewline(this.#text, part.to, next.from)) continue;
      this.#refuse(part.to, message);
      return;
    }
  }

  #label(node: HclNode): Label {
    const [inner] = partsOf(node);
    if (inner?.name !== 'StringLit') return { text: this.#slice(node), at: node.from };
    const text = this.#quoted(inner, []);
    if (/(?<!\$)\$\{/.test(text)) this.#refuse(node.from, 'a label is fixed text: `${…}` cannot stand in it');
    return { text, at: node.from };
  }

  #value(node: HclNode, depth: number): Tree {
    const at = node.from;
    const parts = partsOf(node);
    const [part] = parts;
    if (depth > DEEPEST) return this.#refuse(at, `more than ${DEEPEST} levels of nesting`);
    if (part === undefined || parts.length > 1) return this.#notYet(node, 'expressions');
    switch (part.name) {
      case 'LiteralValue':
        return this.#literal(part);
      case 'TemplateExpr':
        return this.#template(part);
      case 'CollectionValue':
        return this.#collection(part, depth);
      case 'Operation':
        return this.#negative(part);
      case 'FunctionCall':
        return this.#notYet(part, 'functions');
      case 'VariableExpr':
        return this.#bareWord(part);
      default:
        return this.#notYet(node, 'expressions');
    }
  }

  #literal(node: HclNode): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    const written = this.#slice(node);
    if (part?.name === 'StringLit') {
      const text = this.#quoted(part, []);
      return { kind: 'scalar', at, value: text, written: text };
    }
    if (part?.name === 'NumericLit') return this.#number(at, written);
    if (part?.name === 'BoolLit') return { kind: 'scalar', at, value: written === 'true', written };
    if (part?.name === 'NullLit') return { kind: 'scalar', at, value: null, written };
    return this.#notYet(node, 'expressions');
  }

  #number(at: number, written: string): Tree {
    const value = Number(written);
    const digits = written.replace('-', '');
    if (!NUMBER.test(digits) || !Number.isFinite(value)) return this.#refuse(at, gluedNumber(written));
    // As HCL turns a number into text: 1.10 is 1.1, and whole numbers keep all their digits.
    const text = /^\d+$/.test(digits) ? String(BigInt(digits)) : String(Math.abs(value));
    return { kind: 'scalar', at, value: value === 0 ? 0 : value, written: value < 0 ? `-${text}` : text };
  }

  #negative(node: HclNode): Tree {
    const [unary] = partsOf(node);
    const [sign, literal] = partsOf(unary);
    const isNumber = literal?.name === 'LiteralValue' && partsOf(literal)[0]?.name === 'NumericLit';
    if (unary?.name !== 'UnaryOperation' || sign === undefined || !isNumber || this.#slice(sign) !== '-') {
      return this.#notYet(node, 'expressions');
    }
    this.#requireOneLine([sign, literal], 'a number must follow its `-` on the same line');
    return this.#number(node.from, `-${this.#slice(literal)}`);
  }

  #template(node: HclNode): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    if (part === undefined) return nothing(at);
    const parts = partsOf(part);
    const directive = parts.find((inner) => inner.name === 'TemplateDirective');
    if (directive !== undefined) {
      const hint = 'for a literal `%{` write `%%{`';
      this.unsupported.push({
        at: directive.from,
        message: 'template directives (`%{…}`) are not supported yet',
        hint,
      });
      return nothing(at);
    }
    const inserts = parts.filter((inner) => inner.name === 'TemplateInterpolation');
    const text = part.name === 'HeredocTemplate' ? this.#heredoc(part, inserts) : this.#quoted(part, inserts);
    return { kind: 'scalar', at, value: text, written: text };
  }

  /** The text between two quotes. */
  #quoted(node: HclNode, inserts: readonly HclNode[]): string {
    const raw = this.#slice(node);
    if (raw.length < 2 || !raw.endsWith('"')) return '';
    let text = '';
    for (const piece of this.#pieces(node.from + 1, node.to - 1, inserts)) {
      if (piece.kind === 'literal' && piece.text.includes('\n')) {
        this.#refuse(node.from, 'this string has no closing quote on its line');
        return '';
      }
      const isLiteral = piece.kind === 'literal';
      text += this.#take(
        isLiteral ? unescapeQuoted(piece.text, piece.at) : keepInterpolation(piece),
        isLiteral,
      );
    }
    return text;
  }

  #heredoc(node: HclNode, inserts: readonly HclNode[]): string {
    const opening = /^<<(-?)([^\s]+)\r?\n/.exec(this.#slice(node));
    if (opening === null) {
      this.#refuse(node.from, 'a heredoc begins with `<<NAME` or `<<-NAME` at the end of a line');
      return '';
    }
    const [all, dash = '', name = ''] = opening;
    const from = node.from + all.length;
    // The closing line begins where the last line of the node does; the line must hold the name and nothing else.
    const lastLine = this.#text.lastIndexOf('\n', node.to - 1) + 1;
    const rest = /^[^\n]*/.exec(this.#text.slice(lastLine))?.[0] ?? '';
    const follower = rest.trim().slice(name.length);
    if (lastLine < from || !rest.trim().startsWith(name) || follower !== '') {
      this.#refuse(node.from, `this heredoc has no closing line \`${name}\` with nothing else on it`);
      return '';
    }
    return this.#take(joinHeredoc(this.#pieces(from, lastLine, inserts), dash === '-'), false);
  }

  /** Cuts a template into what is interpolated and what stands between. */
  #pieces(from: number, to: number, inserts: readonly HclNode[]): Piece[] {
    const pieces: Piece[] = [];
    let at = from;
    for (const insert of inserts) {
      pieces.push({ kind: 'literal', text: this.#text.slice(at, insert.from), at });
      pieces.push({ kind: 'interpolation', text: this.#slice(insert), at: insert.from });
      at = insert.to;
    }
    pieces.push({ kind: 'literal', text: this.#text.slice(at, Math.max(at, to)), at });
    return pieces.filter((piece) => piece.text !== '');
  }

  #take(result: TextResult, isSyntax: boolean): string {
    if (result.ok) return result.text;
    const { at, message, hint } = result;
    const fault = { at, message, ...(hint === undefined ? {} : { hint }) };
    if (isSyntax) this.syntax.push({ ...fault, order: at });
    else this.unsupported.push(fault);
    return '';
  }

  #collection(node: HclNode, depth: number): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    if (part?.name === 'Tuple') {
      const items = partsOf(part).filter((inner) => inner.name === 'Expression');
      return { kind: 'list', at, items: items.map((item) => this.#value(item, depth + 1)) };
    }
    if (part?.name !== 'Object') return this.#notYet(node, 'expressions');
    const elements = partsOf(part).filter((inner) => inner.name === 'ObjectElem');
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    for (const [index, element] of elements.entries()) {
      const [keyNode, assign, value] = partsOf(element);
      const before = elements[index - 1];
      if (before !== undefined && !this.#separated(before.to, element.from)) {
        this.#refuse(element.from, 'a comma or a new line must stand before this key');
      }
      if (keyNode === undefined || assign === undefined || value === undefined) continue;
      this.#requireOneLine([keyNode, assign, value], 'key, `=` and value must stand on one line');
      const key = this.#objectKey(keyNode);
      if (key === undefined) continue;
      this.#noteKey(firsts, key, keyNode.from);
      entries.push({ key, keyAt: keyNode.from, labels: undefined, value: this.#value(value, depth + 1) });
    }
    return { kind: 'map', at, entries };
  }

  #separated(from: number, to: number): boolean {
    return this.#text.slice(from, to).includes(',') || hasNewline(this.#text, from, to);
  }

  #objectKey(node: HclNode): string | undefined {
    const parts = partsOf(partsOf(node)[0]);
    const [part] = parts;
    if (part?.name === 'VariableExpr' && parts.length === 1) return this.#slice(part);
    if (part?.name === 'LiteralValue' && parts.length === 1) {
      const [literal] = partsOf(part);
      if (literal?.name === 'StringLit') return this.#quoted(literal, []);
      if (literal?.name === 'NumericLit') return this.#slice(literal);
    }
    this.unsupported.push({ at: node.from, message: `this key must be a word or a string in quotes` });
    return undefined;
  }

  #bareWord(node: HclNode): Tree {
    const word = shorten(this.#slice(node));
    this.unsupported.push({ at: node.from, message: `\`${word}\` needs quotes: "${word}"` });
    return nothing(node.from);
  }

  #notYet(node: HclNode, what: string): Tree {
    const text = shorten(this.#slice(node));
    this.unsupported.push({
      at: node.from,
      message: `${what} are not supported yet: ${text}`,
      hint: 'write the value itself',
    });
    return nothing(node.from);
  }

  /** As a rule the grammar put an error node there, which tells more: so this one comes last. */
  #malformed(node: HclNode): void {
    this.#refuse(node.from, 'expected `key = value` or a block here', this.#text.length + 1);
  }

  #refuse(at: number, message: string, order = at): Tree {
    this.syntax.push({ at, message, order });
    return nothing(at);
  }

  #slice(node: HclNode): string {
    return this.#text.slice(node.from, node.to);
  }
}

function gluedNumber(word: string): string {
  return /^-?\d+[eE][+-]?\d*$/.test(word)
    ? `write the number ${word} without an exponent`
    : `\`${shorten(word)}\` is not a number: put quotes around it`;
}

function nothing(at: number): Tree {
  return { kind: 'scalar', at, value: null, written: '' };
}

/** Children that mean something. */
function partsOf(node: HclNode | undefined | null): HclNode[] {
  const parts: HclNode[] = [];
  for (let child = node?.firstChild ?? null; child !== null; child = child.nextSibling) {
    if (child.name !== 'Comment' && !child.type.isError) parts.push(child);
  }
  return parts;
}
