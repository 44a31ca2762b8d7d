/** Owns strings and heredocs: what they say, and what is filled into them. What only the run time knows stays `${…}`. */
import { nothing, partsOf, type HclNode } from './hcl-faults.js';
import type { Expressions, Place } from './hcl-expressions.js';
import { AlreadyTold, asText, describeMade, ExpressionFault, movedTo, textNode } from './hcl-made.js';
import { DOLLARS, isRunTimeReference, joinHeredoc, shorten, unescapeQuoted, type Piece } from './hcl-text.js';
import type { Tree } from './tree.js';

export class TemplateReader {
  readonly #all: Expressions;

  constructor(all: Expressions) {
    this.#all = all;
  }

  /** A string or a heredoc, with what its `${…}` stand for. @throws ExpressionFault, AlreadyTold */
  read(node: HclNode, place: Place): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    if (part === undefined) return nothing(at);
    const parts = partsOf(part);
    const directive = parts.find((inner) => inner.name === 'TemplateDirective');
    if (directive !== undefined) {
      throw new ExpressionFault(
        directive.from,
        'template directives (`%{…}`) are not supported yet',
        'for a literal `%{` write `%%{`',
      );
    }
    const inserts = parts.filter((inner) => inner.name === 'TemplateInterpolation');
    if (part.name === 'HeredocTemplate') return textNode(at, this.#heredoc(part, inserts, place));
    const [only] = inserts;
    const isWhole = only !== undefined && only.from === part.from + 1 && only.to === part.to - 1;
    // `"${var.list}"` is the list itself.
    if (isWhole) return movedTo(this.#insert(only, place), at);
    const pieces = this.#pieces(part.from + 1, part.to - 1, inserts, place);
    return textNode(at, this.#joinQuoted(part, pieces));
  }

  /** The text of a string that has nothing to fill in. */
  quoted(node: HclNode): string {
    return this.#joinQuoted(node, this.#pieces(node.from + 1, node.to - 1, [], undefined));
  }

  #joinQuoted(node: HclNode, pieces: readonly Piece[]): string {
    const raw = this.#all.slice(node);
    if (raw.length < 2 || !raw.endsWith('"')) return '';
    let text = '';
    for (const piece of pieces) {
      if (piece.kind === 'made') {
        text += piece.text;
        continue;
      }
      if (piece.text.includes('\n')) {
        this.#all.sink.refuse(node.from, 'this string has no closing quote on its line');
        return '';
      }
      const read = unescapeQuoted(piece.text, piece.at);
      if (!read.ok) {
        const { at, message, hint } = read;
        this.#all.sink.syntax.push({ at, message, order: at, ...(hint === undefined ? {} : { hint }) });
        return '';
      }
      text += read.text;
    }
    return text;
  }

  #heredoc(node: HclNode, inserts: readonly HclNode[], place: Place): string {
    const opening = /^<<(-?)([^\s]+)\r?\n/.exec(this.#all.slice(node));
    if (opening === null) {
      this.#all.sink.refuse(node.from, 'a heredoc begins with `<<NAME` or `<<-NAME` at the end of a line');
      return '';
    }
    const [all, dash = '', name = ''] = opening;
    const from = node.from + all.length;
    // The closing line begins where the last line of the node does; the line must hold the name and nothing else.
    const lastLine = this.#all.text.lastIndexOf('\n', node.to - 1) + 1;
    const rest = /^[^\n]*/.exec(this.#all.text.slice(lastLine))?.[0] ?? '';
    const follower = rest.trim().slice(name.length);
    if (lastLine < from || !rest.trim().startsWith(name) || follower !== '') {
      this.#all.sink.refuse(
        node.from,
        `this heredoc has no closing line \`${name}\` with nothing else on it`,
      );
      return '';
    }
    return joinHeredoc(this.#pieces(from, lastLine, inserts, place), dash === '-');
  }

  /** Cuts a template into what is filled in and what stands between. `${~` and `~}` take the white space beside them. */
  #pieces(from: number, to: number, inserts: readonly HclNode[], place: Place | undefined): Piece[] {
    const pieces: Piece[] = [];
    let at = from;
    let isTrimmed = false;
    const literal = (end: number, trimEnd: boolean): void => {
      let text = this.#all.text.slice(at, Math.max(at, end));
      if (isTrimmed) text = text.trimStart();
      if (trimEnd) text = text.trimEnd();
      if (text !== '') pieces.push({ kind: 'literal', text, at });
    };
    let failed: unknown;
    for (const insert of inserts) {
      const source = this.#all.slice(insert);
      literal(insert.from, source.startsWith('${~'));
      isTrimmed = source.endsWith('~}');
      at = insert.to;
      if (place === undefined) continue;
      try {
        pieces.push({ kind: 'made', text: this.#insertedText(insert, place), at: insert.from });
      } catch (error) {
        // The others shall be heard as well.
        this.#all.note(error);
        failed = error;
      }
    }
    literal(to, false);
    if (failed !== undefined) throw new AlreadyTold();
    return pieces;
  }

  #insertedText(insert: HclNode, place: Place): string {
    const value = this.#insert(insert, place);
    const text = asText(value);
    if (text === undefined) {
      const message = `${describeMade(value)} cannot stand in a text: ${shorten(this.#all.slice(insert))}`;
      const hint = value.kind === 'scalar' ? undefined : 'join(",", …) or jsonencode(…) make text of it';
      throw new ExpressionFault(insert.from, message, hint);
    }
    this.#all.budget.spend(1 + Math.floor(text.length / 64), insert.from);
    return text;
  }

  /** What a `${…}` stands for: itself when only the run time knows it. */
  #insert(node: HclNode, place: Place): Tree {
    const source = this.#all.slice(node).slice(2, -1).replace(/^~|~$/g, '').trim();
    const root = isRunTimeReference(source);
    if (root !== undefined && !place.scope.knows(root)) return textNode(node.from, `\${${source}}`);
    const expression = partsOf(node).find((part) => part.name === 'Expression');
    if (expression === undefined) throw new ExpressionFault(node.from, 'this `${…}` cannot be read', DOLLARS);
    this.#all.hasWorkedOut = true;
    const value = this.#all.value(expression, { ...place, depth: place.depth + 1 });
    this.#all.budget.spendTree(value, node.from);
    return value;
  }
}
