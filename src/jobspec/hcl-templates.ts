/**
 * Owns strings and heredocs: what they say, and what is filled into them by `${…}`, `%{ if }` and `%{ for }`. What only the
 * run time knows stays `${…}`.
 */
import { nothing, partsOf, type HclNode } from './hcl-faults.js';
import type { Expressions, Place } from './hcl-expressions.js';
import { pairsOf } from './hcl-lists.js';
import { AlreadyTold, asText, describeMade, ExpressionFault, movedTo, textNode } from './hcl-made.js';
import { truthOf } from './hcl-operators.js';
import {
  dedentAll,
  DOLLARS,
  isRunTimeReference,
  shorten,
  trimLineEnd,
  trimLineStart,
  undoPercent,
  unescapeQuoted,
} from './hcl-text.js';
import type { Tree } from './tree.js';

/** What a template is made of. */
type Part =
  | Literal
  | { readonly kind: 'insert'; readonly node: HclNode }
  | { readonly kind: 'if'; readonly test: HclNode; readonly yes: Part[]; readonly no: Part[] }
  | {
      readonly kind: 'for';
      readonly at: number;
      readonly names: readonly string[];
      readonly source: HclNode;
      readonly body: Part[];
    };

/** Text between what is filled in; `text` is changed until it is what shall be written. */
interface Literal {
  readonly kind: 'literal';
  readonly at: number;
  text: string;
  /** What stands beside it takes the white space of its line. */
  readonly trims: { readonly start: boolean; readonly end: boolean };
}

/** Where a `%{ if }` or `%{ for }` that is not closed yet collects. */
interface Open {
  readonly kind: 'if' | 'for';
  readonly at: number;
  readonly parts: Part[];
}

const MARKS = new Set([
  'TemplateInterpolation',
  'TemplateIfIntro',
  'TemplateElseIntro',
  'TemplateIfEnd',
  'TemplateForStart',
  'TemplateForEnd',
]);

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
    const marks = marksIn(part);
    if (part.name === 'HeredocTemplate') return textNode(at, this.#heredoc(part, marks, place));
    const [only] = marks;
    const isWhole =
      only?.name === 'TemplateInterpolation' && only.from === part.from + 1 && only.to === part.to - 1;
    // `"${var.list}"` is the list itself.
    if (isWhole) return movedTo(this.#insert(only, place), at);
    return textNode(at, this.#quoted(part, marks, place));
  }

  /** The text of a string that has nothing to fill in. */
  quoted(node: HclNode): string {
    return this.#quoted(node, [], undefined);
  }

  #quoted(node: HclNode, marks: readonly HclNode[], place: Place | undefined): string {
    const raw = this.#all.slice(node);
    if (raw.length < 2 || !raw.endsWith('"')) return '';
    const { parts, literals } = this.#parse(node.from + 1, node.to - 1, marks);
    for (const literal of literals) {
      if (literal.text.includes('\n')) {
        this.#all.sink.refuse(node.from, 'this string has no closing quote on its line');
        return '';
      }
      const read = unescapeQuoted(trimmed(literal, literal.text), literal.at);
      if (!read.ok) {
        const { at, message, hint } = read;
        this.#all.sink.syntax.push({ at, message, order: at, ...(hint === undefined ? {} : { hint }) });
        return '';
      }
      literal.text = read.text;
    }
    return this.#render(parts, place);
  }

  #heredoc(node: HclNode, marks: readonly HclNode[], place: Place): string {
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
    const { parts, literals } = this.#parse(from, lastLine, marks);
    const texts = literals.map(({ text }) => undoPercent(text));
    // What is filled in may have lines of its own; they are no lines of the heredoc. Those of an `if` that is not taken are.
    const kept = dash === '-' ? dedentAll(texts) : texts;
    for (const [index, literal] of literals.entries()) literal.text = trimmed(literal, kept[index] ?? '');
    return this.#render(parts, place);
  }

  /**
   * What stands between `from` and `to`. `${~`, `%{~` and `~}` take the white space of the line beside them.
   * @throws ExpressionFault when something is not closed
   */
  #parse(
    from: number,
    to: number,
    marks: readonly HclNode[],
  ): { readonly parts: readonly Part[]; readonly literals: readonly Literal[] } {
    const literals: Literal[] = [];
    const parts: Part[] = [];
    const open: Open[] = [];
    let into = parts;
    let at = from;
    let isTrimmed = false;
    const literal = (to: number, end: boolean): void => {
      const text = this.#all.text.slice(at, Math.max(at, to));
      const one: Literal = { kind: 'literal', text, at, trims: { start: isTrimmed, end } };
      literals.push(one);
      into.push(one);
    };
    for (const mark of marks) {
      const source = this.#all.slice(mark);
      literal(mark.from, source.startsWith('~', 2));
      isTrimmed = source.endsWith('~}');
      at = mark.to;
      into = this.#enter(mark, into, open);
    }
    literal(to, false);
    const unclosed = open.at(-1);
    if (unclosed !== undefined) {
      const end = `%{ end${unclosed.kind} }`;
      throw new ExpressionFault(unclosed.at, `this \`%{ ${unclosed.kind} … }\` has no \`${end}\``);
    }
    return { parts, literals };
  }

  /** @returns where what follows belongs */
  #enter(mark: HclNode, into: Part[], open: Open[]): Part[] {
    const inner = partsOf(mark);
    const expression = inner.find(({ name }) => name === 'Expression');
    const unreadable = (): never => {
      throw new ExpressionFault(mark.from, `this cannot be read: ${shorten(this.#all.slice(mark))}`);
    };
    switch (mark.name) {
      case 'TemplateInterpolation':
        into.push({ kind: 'insert', node: mark });
        return into;
      case 'TemplateIfIntro': {
        const part = { kind: 'if' as const, test: expression ?? unreadable(), yes: [], no: [] };
        into.push(part);
        open.push({ kind: 'if', at: mark.from, parts: into });
        return part.yes;
      }
      case 'TemplateElseIntro': {
        const part = open.at(-1)?.parts.at(-1);
        return part?.kind === 'if' ? part.no : unreadable();
      }
      case 'TemplateForStart': {
        const names = inner.filter(({ name }) => name === 'Identifier').map((name) => this.#all.slice(name));
        const source = expression ?? unreadable();
        const part = { kind: 'for' as const, at: mark.from, names, source, body: [] };
        into.push(part);
        open.push({ kind: 'for', at: mark.from, parts: into });
        return part.body;
      }
      default:
        return open.pop()?.parts ?? unreadable();
    }
  }

  /** @param place undefined: nothing is filled in. @throws ExpressionFault, AlreadyTold */
  #render(parts: readonly Part[], place: Place | undefined): string {
    let text = '';
    let failed = false;
    for (const part of parts) {
      if (part.kind === 'literal') text += part.text;
      else if (place !== undefined) {
        try {
          text += this.#renderPart(part, place);
        } catch (error) {
          // The others shall be heard as well.
          this.#all.note(error);
          failed = true;
        }
      }
    }
    if (failed) throw new AlreadyTold();
    return text;
  }

  #renderPart(part: Exclude<Part, Literal>, place: Place): string {
    if (part.kind === 'insert') return this.#insertedText(part.node, place);
    this.#all.hasWorkedOut = true;
    const inner = { ...place, depth: place.depth + 1 };
    if (part.kind === 'if') {
      const isYes = truthOf(this.#all.value(part.test, inner), '`%{ if }`');
      return this.#render(isYes ? part.yes : part.no, inner);
    }
    let text = '';
    const [first = '', second] = part.names;
    for (const [key, value] of pairsOf(this.#all.value(part.source, inner))) {
      const own: (readonly [string, Tree])[] =
        second === undefined
          ? [[first, value]]
          : [
              [first, key],
              [second, value],
            ];
      const turn = this.#render(part.body, { ...inner, scope: place.scope.with(own) });
      this.#spend(turn, part.at);
      text += turn;
    }
    return text;
  }

  #insertedText(insert: HclNode, place: Place): string {
    const value = this.#insert(insert, place);
    const text = asText(value);
    if (text === undefined) {
      const message = `${describeMade(value)} cannot stand in a text: ${shorten(this.#all.slice(insert))}`;
      const hint = value.kind === 'scalar' ? undefined : 'join(",", …) or jsonencode(…) make text of it';
      throw new ExpressionFault(insert.from, message, hint);
    }
    this.#spend(text, insert.from);
    return text;
  }

  #spend(text: string, at: number): void {
    this.#all.budget.spend(1 + Math.floor(text.length / 64), at);
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

function trimmed({ trims }: Literal, text: string): string {
  const rest = trims.start ? trimLineStart(text) : text;
  return trims.end ? trimLineEnd(rest) : rest;
}

/** What a template has besides text, in the order of the text; those within a directive as well. */
function marksIn(node: HclNode): HclNode[] {
  return partsOf(node).flatMap((part) => {
    if (MARKS.has(part.name)) return [part];
    return part.name.startsWith('Template') && part.name !== 'TemplateLiteral' ? marksIn(part) : [];
  });
}
