/** Owns the reading of HCL's expressions: literals, templates, lists and maps. Whatever else there is, is refused. */
import { gluedNumber, hasNewline, nothing, partsOf, type HclNode, type HclSink } from './hcl-faults.js';
import {
  joinHeredoc,
  keepInterpolation,
  shorten,
  unescapeQuoted,
  type Piece,
  type TextResult,
} from './hcl-text.js';
import { DEEPEST, type Entry, type Tree } from './tree.js';

const NUMBER = /^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export class ValueReader {
  readonly #text: string;
  readonly #sink: HclSink;

  constructor(text: string, sink: HclSink) {
    this.#text = text;
    this.#sink = sink;
  }

  /** One expression; a null scalar stands for one that was refused. */
  read(node: HclNode, depth: number): Tree {
    const at = node.from;
    const parts = partsOf(node);
    const [part] = parts;
    if (depth > DEEPEST) return this.#sink.refuse(at, `more than ${DEEPEST} levels of nesting`);
    if (part === undefined || parts.length > 1) return this.#sink.notYet(node, 'expressions');
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
        return this.#sink.notYet(part, 'functions');
      case 'VariableExpr':
        return this.#bareWord(part);
      default:
        return this.#sink.notYet(node, 'expressions');
    }
  }

  #literal(node: HclNode): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    const written = this.#slice(node);
    if (part?.name === 'StringLit') {
      const text = this.quoted(part, []);
      return { kind: 'scalar', at, value: text, written: text };
    }
    if (part?.name === 'NumericLit') return this.#number(at, written);
    if (part?.name === 'BoolLit') return { kind: 'scalar', at, value: written === 'true', written };
    if (part?.name === 'NullLit') return { kind: 'scalar', at, value: null, written };
    return this.#sink.notYet(node, 'expressions');
  }

  #number(at: number, written: string): Tree {
    const value = Number(written);
    const digits = written.replace('-', '');
    if (!NUMBER.test(digits) || !Number.isFinite(value)) return this.#sink.refuse(at, gluedNumber(written));
    // As HCL turns a number into text: 1.10 is 1.1, and whole numbers keep all their digits.
    const text = /^\d+$/.test(digits) ? String(BigInt(digits)) : String(Math.abs(value));
    return { kind: 'scalar', at, value: value === 0 ? 0 : value, written: value < 0 ? `-${text}` : text };
  }

  #negative(node: HclNode): Tree {
    const [unary] = partsOf(node);
    const [sign, literal] = partsOf(unary);
    const isNumber = literal?.name === 'LiteralValue' && partsOf(literal)[0]?.name === 'NumericLit';
    if (unary?.name !== 'UnaryOperation' || sign === undefined || !isNumber || this.#slice(sign) !== '-') {
      return this.#sink.notYet(node, 'expressions');
    }
    this.#sink.requireOneLine([sign, literal], 'a number must follow its `-` on the same line');
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
      this.#sink.unsupported.push({
        at: directive.from,
        message: 'template directives (`%{…}`) are not supported yet',
        hint,
      });
      return nothing(at);
    }
    const inserts = parts.filter((inner) => inner.name === 'TemplateInterpolation');
    const text = part.name === 'HeredocTemplate' ? this.#heredoc(part, inserts) : this.quoted(part, inserts);
    return { kind: 'scalar', at, value: text, written: text };
  }

  /** The text between two quotes. */
  quoted(node: HclNode, inserts: readonly HclNode[]): string {
    const raw = this.#slice(node);
    if (raw.length < 2 || !raw.endsWith('"')) return '';
    let text = '';
    for (const piece of this.#pieces(node.from + 1, node.to - 1, inserts)) {
      if (piece.kind === 'literal' && piece.text.includes('\n')) {
        this.#sink.refuse(node.from, 'this string has no closing quote on its line');
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
      this.#sink.refuse(node.from, 'a heredoc begins with `<<NAME` or `<<-NAME` at the end of a line');
      return '';
    }
    const [all, dash = '', name = ''] = opening;
    const from = node.from + all.length;
    // The closing line begins where the last line of the node does; the line must hold the name and nothing else.
    const lastLine = this.#text.lastIndexOf('\n', node.to - 1) + 1;
    const rest = /^[^\n]*/.exec(this.#text.slice(lastLine))?.[0] ?? '';
    const follower = rest.trim().slice(name.length);
    if (lastLine < from || !rest.trim().startsWith(name) || follower !== '') {
      this.#sink.refuse(node.from, `this heredoc has no closing line \`${name}\` with nothing else on it`);
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
    if (isSyntax) this.#sink.syntax.push({ ...fault, order: at });
    else this.#sink.unsupported.push(fault);
    return '';
  }

  #collection(node: HclNode, depth: number): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    if (part?.name === 'Tuple') {
      const items = partsOf(part).filter((inner) => inner.name === 'Expression');
      return { kind: 'list', at, items: items.map((item) => this.read(item, depth + 1)) };
    }
    if (part?.name !== 'Object') return this.#sink.notYet(node, 'expressions');
    const elements = partsOf(part).filter((inner) => inner.name === 'ObjectElem');
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    for (const [index, element] of elements.entries()) {
      const [keyNode, assign, value] = partsOf(element);
      const before = elements[index - 1];
      if (before !== undefined && !this.#separated(before.to, element.from)) {
        this.#sink.refuse(element.from, 'a comma or a new line must stand before this key');
      }
      if (keyNode === undefined || assign === undefined || value === undefined) continue;
      this.#sink.requireOneLine([keyNode, assign, value], 'key, `=` and value must stand on one line');
      const key = this.#objectKey(keyNode);
      if (key === undefined) continue;
      this.#sink.noteKey(firsts, key, keyNode.from);
      entries.push({ key, keyAt: keyNode.from, labels: undefined, value: this.read(value, depth + 1) });
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
      if (literal?.name === 'StringLit') return this.quoted(literal, []);
      if (literal?.name === 'NumericLit') return this.#slice(literal);
    }
    this.#sink.unsupported.push({ at: node.from, message: `this key must be a word or a string in quotes` });
    return undefined;
  }

  #bareWord(node: HclNode): Tree {
    const word = shorten(this.#slice(node));
    this.#sink.unsupported.push({ at: node.from, message: `\`${word}\` needs quotes: "${word}"` });
    return nothing(node.from);
  }

  #slice(node: HclNode): string {
    return this.#text.slice(node.from, node.to);
  }
}
