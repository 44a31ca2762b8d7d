/**
 * Owns the value of HCL's expressions. What the job file itself can know (variables, locals, functions, operators) is
 * worked out here; what only the start of a task can know stays in the text as `${…}`. Longer than others: expressions hold
 * each other, so their readers are one recursion.
 */
import { astOf, type Ast } from './hcl-ast.js';
import { gluedNumber, hasNewline, nothing, partsOf, type HclNode, type HclSink } from './hcl-faults.js';
import { Call, type ReadText } from './hcl-call.js';
import { callFunction } from './hcl-functions.js';
import {
  AlreadyTold,
  asBool,
  asNumber,
  asText,
  Budget,
  boolNode,
  describeMade,
  ExpressionFault,
  mapNode,
  movedTo,
  numberNode,
  textNode,
} from './hcl-made.js';
import type { Element, Objects } from './hcl-objects.js';
import { applyBinary, applyUnary, truthOf } from './hcl-operators.js';
import { isRunTimeName, type Scope } from './hcl-scope.js';
import { DOLLARS, isRunTimeReference, joinHeredoc, shorten, unescapeQuoted, type Piece } from './hcl-text.js';
import { DEEPEST, type Entry, type MapNode, type Tree } from './tree.js';
import { suggest } from './words.js';

const NUMBER = /^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Where an expression stands. */
interface Place {
  readonly scope: Scope;
  readonly depth: number;
}

export class ValueReader {
  /** True once something was worked out: the tree is then no copy of the text. */
  hasWorkedOut = false;
  /** Where the elements of maps are found. */
  readonly objects: Objects;
  readonly #text: string;
  readonly #sink: HclSink;
  readonly #budget = new Budget();
  readonly #readFile: ReadText | undefined;

  constructor(
    text: string,
    sink: HclSink,
    around: { readonly objects: Objects; readonly readFile: ReadText | undefined },
  ) {
    this.#text = text;
    this.#sink = sink;
    this.objects = around.objects;
    this.#readFile = around.readFile;
  }

  /** One expression; a null scalar stands for one with a fault, which the sink knows then. */
  read(node: HclNode, scope: Scope, depth: number): Tree {
    try {
      return this.value(node, { scope, depth });
    } catch (error) {
      this.note(error);
      return nothing(node.from);
    }
  }

  /** Tells the sink what ended an expression; anything but a fault goes on up. */
  note(error: unknown): void {
    if (error instanceof AlreadyTold) return;
    if (!(error instanceof ExpressionFault)) throw error;
    const { at, message, hint } = error;
    this.#sink.tell({ at, message, ...(hint === undefined ? {} : { hint }) });
  }

  /** One expression. @throws ExpressionFault, AlreadyTold */
  value(node: HclNode, { scope, depth }: Place): Tree {
    this.#requireOneLine(node);
    if (depth > DEEPEST) return this.#sink.refuse(node.from, `more than ${DEEPEST} levels of nesting`);
    const ast = astOf(node, this.#text);
    if (ast === undefined) {
      throw new ExpressionFault(node.from, `this cannot be read: ${shorten(this.#slice(node))}`);
    }
    return this.#evaluate(ast, { scope, depth });
  }

  #evaluate(ast: Ast, place: Place): Tree {
    switch (ast.kind) {
      case 'atom':
        return this.#atom(ast.node, place);
      case 'steps':
        return this.#walk(ast.target, ast.steps, place);
      case 'unary': {
        const number = this.#negativeLiteral(ast);
        if (number !== undefined) return number;
        this.hasWorkedOut = true;
        return applyUnary(ast.operator, this.#evaluate(ast.operand, place), ast.at);
      }
      case 'binary': {
        this.hasWorkedOut = true;
        const left = this.#evaluate(ast.left, place);
        const { operator } = ast;
        // The right side is not looked at when the left one decides: `var.x != null && var.x.y`.
        if (operator === '&&' && asBool(left) === false) return boolNode(ast.at, false);
        if (operator === '||' && asBool(left) === true) return boolNode(ast.at, true);
        const made = applyBinary(operator, left, this.#evaluate(ast.right, place), ast.at);
        this.#budget.spend(1, ast.at);
        return movedTo(made, left.at);
      }
      case 'choice': {
        this.hasWorkedOut = true;
        const isYes = truthOf(this.#evaluate(ast.test, place), 'a condition');
        return this.#evaluate(isYes ? ast.yes : ast.no, place);
      }
    }
  }

  #atom(node: HclNode, place: Place): Tree {
    switch (node.name) {
      case 'LiteralValue':
        return this.#literal(node);
      case 'TemplateExpr':
        return this.#template(node, place);
      case 'CollectionValue':
        return this.#collection(node, place);
      case 'VariableExpr':
        return this.#bareName(node, [], place);
      case 'FunctionCall':
        return this.#call(node, place);
      case 'ForExpr':
        return this.#for(node, place);
      default:
        throw new ExpressionFault(node.from, `this cannot be read: ${shorten(this.#slice(node))}`);
    }
  }

  // ---------------------------------------------------------------------------------------------------- literals

  #literal(node: HclNode): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    const written = this.#slice(node);
    if (part?.name === 'StringLit') return textNode(at, this.quoted(part));
    if (part?.name === 'NumericLit') return this.#number(at, written);
    if (part?.name === 'BoolLit') return { kind: 'scalar', at, value: written === 'true', written };
    if (part?.name === 'NullLit') return { kind: 'scalar', at, value: null, written };
    throw new ExpressionFault(at, `this cannot be read: ${shorten(written)}`);
  }

  #number(at: number, written: string): Tree {
    const value = Number(written);
    const digits = written.replace('-', '');
    if (!NUMBER.test(digits) || !Number.isFinite(value)) return this.#sink.refuse(at, gluedNumber(written));
    // As HCL turns a number into text: 1.10 is 1.1, and whole numbers keep all their digits.
    const text = /^\d+$/.test(digits) ? String(BigInt(digits)) : String(Math.abs(value));
    return { kind: 'scalar', at, value: value === 0 ? 0 : value, written: value < 0 ? `-${text}` : text };
  }

  /** `-5` is a literal: it keeps all its digits. */
  #negativeLiteral({ operator, operand, at }: Extract<Ast, { kind: 'unary' }>): Tree | undefined {
    if (operator !== '-' || operand.kind !== 'atom' || operand.node.name !== 'LiteralValue') return undefined;
    if (partsOf(operand.node)[0]?.name !== 'NumericLit') return undefined;
    if (hasNewline(this.#text, at + 1, operand.node.from)) {
      return this.#sink.refuse(at + 1, 'a number must follow its `-` on the same line');
    }
    return this.#number(at, `-${this.#slice(operand.node)}`);
  }

  // --------------------------------------------------------------------------------------------------- templates

  #template(node: HclNode, place: Place): Tree {
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
    const raw = this.#slice(node);
    if (raw.length < 2 || !raw.endsWith('"')) return '';
    let text = '';
    for (const piece of pieces) {
      if (piece.kind === 'made') {
        text += piece.text;
        continue;
      }
      if (piece.text.includes('\n')) {
        this.#sink.refuse(node.from, 'this string has no closing quote on its line');
        return '';
      }
      const read = unescapeQuoted(piece.text, piece.at);
      if (!read.ok) {
        const { at, message, hint } = read;
        this.#sink.syntax.push({ at, message, order: at, ...(hint === undefined ? {} : { hint }) });
        return '';
      }
      text += read.text;
    }
    return text;
  }

  #heredoc(node: HclNode, inserts: readonly HclNode[], place: Place): string {
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
    return joinHeredoc(this.#pieces(from, lastLine, inserts, place), dash === '-');
  }

  /** Cuts a template into what is filled in and what stands between. `${~` and `~}` take the white space beside them. */
  #pieces(from: number, to: number, inserts: readonly HclNode[], place: Place | undefined): Piece[] {
    const pieces: Piece[] = [];
    let at = from;
    let isTrimmed = false;
    const literal = (end: number, trimEnd: boolean): void => {
      let text = this.#text.slice(at, Math.max(at, end));
      if (isTrimmed) text = text.trimStart();
      if (trimEnd) text = text.trimEnd();
      if (text !== '') pieces.push({ kind: 'literal', text, at });
    };
    let failed: unknown;
    for (const insert of inserts) {
      const source = this.#slice(insert);
      literal(insert.from, source.startsWith('${~'));
      isTrimmed = source.endsWith('~}');
      at = insert.to;
      if (place === undefined) continue;
      try {
        pieces.push({ kind: 'made', text: this.#insertedText(insert, place), at: insert.from });
      } catch (error) {
        // The others shall be heard as well.
        this.note(error);
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
      const message = `${describeMade(value)} cannot stand in a text: ${shorten(this.#slice(insert))}`;
      const hint = value.kind === 'scalar' ? undefined : 'join(",", …) or jsonencode(…) make text of it';
      throw new ExpressionFault(insert.from, message, hint);
    }
    this.#budget.spend(1 + Math.floor(text.length / 64), insert.from);
    return text;
  }

  /** What a `${…}` stands for: itself when only the run time knows it. */
  #insert(node: HclNode, place: Place): Tree {
    const source = this.#slice(node).slice(2, -1).replace(/^~|~$/g, '').trim();
    const root = isRunTimeReference(source);
    if (root !== undefined && !place.scope.knows(root)) return textNode(node.from, `\${${source}}`);
    const expression = partsOf(node).find((part) => part.name === 'Expression');
    if (expression === undefined) throw new ExpressionFault(node.from, 'this `${…}` cannot be read', DOLLARS);
    this.hasWorkedOut = true;
    const value = this.value(expression, { ...place, depth: place.depth + 1 });
    this.#budget.spendTree(value, node.from);
    return value;
  }

  // -------------------------------------------------------------------------------------------- lists, maps, `for`

  #collection(node: HclNode, place: Place): Tree {
    const [part] = partsOf(node);
    const inner = { ...place, depth: place.depth + 1 };
    if (part?.name === 'Tuple') {
      const items = partsOf(part).filter((item) => item.name === 'Expression');
      return { kind: 'list', at: node.from, items: this.#all(items, (item) => this.value(item, inner)) };
    }
    if (part?.name !== 'Object')
      throw new ExpressionFault(node.from, `this cannot be read: ${shorten(this.#slice(node))}`);
    return this.#object(part, node.from, inner);
  }

  #object(node: HclNode, at: number, place: Place): MapNode {
    const elements = this.objects.elements(node);
    const firsts = new Map<string, number>();
    for (const [index, element] of elements.entries()) {
      const before = elements[index - 1];
      if (
        before?.to !== undefined &&
        element.from !== undefined &&
        !this.#separated(before.to, element.from)
      ) {
        this.#sink.refuse(element.from, 'a comma or a new line must stand before this key');
      }
    }
    const entries = this.#all(elements, (element: Partial<Element>): Entry | undefined => {
      const { key: keyNode, assign, value } = element;
      if (keyNode === undefined || assign === undefined || value === undefined) return undefined;
      this.#sink.requireOneLine([keyNode, assign, value], 'key, `=` and value must stand on one line');
      const key = this.#objectKey(keyNode, place);
      this.#sink.noteKey(firsts, key, keyNode.from);
      return { key, keyAt: keyNode.from, labels: undefined, value: this.value(value, place) };
    });
    return { kind: 'map', at, entries: entries.filter((entry) => entry !== undefined) };
  }

  /** Does it for each, tells all faults, and goes on only when there were none. */
  #all<N, T>(nodes: readonly N[], read: (node: N) => T): T[] {
    const made: T[] = [];
    let isWell = true;
    for (const node of nodes) {
      try {
        made.push(read(node));
      } catch (error) {
        this.note(error);
        isWell = false;
      }
    }
    if (!isWell) throw new AlreadyTold();
    return made;
  }

  #separated(from: number, to: number): boolean {
    return this.#text.slice(from, to).includes(',') || hasNewline(this.#text, from, to);
  }

  #objectKey(node: HclNode, place: Place): string {
    const expression = partsOf(node).find((inner) => inner.name === 'Expression');
    const parts = partsOf(expression);
    const [part] = parts;
    if (parts.length === 1 && part?.name === 'VariableExpr') return this.#slice(part);
    if (parts.length === 1 && part?.name === 'LiteralValue') {
      const [literal] = partsOf(part);
      if (literal?.name === 'StringLit') return this.quoted(literal);
      if (literal?.name === 'NumericLit') return this.#slice(literal);
    }
    const isWorkedOut = part?.name === '(' || part?.name === 'TemplateExpr';
    const value = isWorkedOut && expression !== undefined ? this.value(expression, place) : undefined;
    const key = value === undefined ? undefined : asText(value);
    if (key !== undefined) {
      this.hasWorkedOut = true;
      return key;
    }
    const hint = 'a key that is worked out stands in brackets: `(var.x) = …`';
    throw new ExpressionFault(node.from, 'this key must be a word or a string in quotes', hint);
  }

  #for(node: HclNode, place: Place): Tree {
    this.hasWorkedOut = true;
    const [part] = partsOf(node);
    const parts = partsOf(part);
    const intro = partsOf(parts.find((inner) => inner.name === 'ForIntro'));
    const names = intro.filter((inner) => inner.name === 'Identifier').map((name) => this.#slice(name));
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
    for (const [key, value] of pairsOf(this.value(source, place))) {
      this.#budget.spend(1, node.from);
      const own: (readonly [string, Tree])[] =
        names.length === 1
          ? [[names[0] ?? '', value]]
          : [
              [names[0] ?? '', key],
              [names[1] ?? '', value],
            ];
      const inner = { scope: place.scope.with(own), depth: place.depth + 1 };
      if (condition !== undefined && !truthOf(this.value(condition, inner), 'the `if` of a `for`')) continue;
      const one = this.value(first, inner);
      if (!isMap) {
        items.push(one);
        continue;
      }
      const name = asText(one);
      if (name === undefined || second === undefined)
        throw new ExpressionFault(first.from, `a key must be text, found ${describeMade(one)}`);
      const result = this.value(second, inner);
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

  // --------------------------------------------------------------------------------------------------- functions

  #call(node: HclNode, place: Place): Tree {
    this.hasWorkedOut = true;
    const parts = partsOf(node);
    const name = parts.find((part) => part.name === 'FunctionName');
    const given = partsOf(parts.find((part) => part.name === 'FunctionArguments'));
    const expressions = given.filter((part) => part.name === 'Expression');
    const word = name === undefined ? '' : this.#slice(name).trim();
    const inner = { ...place, depth: place.depth + 1 };
    if (word === 'can') return boolNode(node.from, this.#try(expressions, inner) !== undefined);
    if (word === 'try') {
      const found = this.#try(expressions, inner);
      if (found !== undefined) return found;
      throw new ExpressionFault(node.from, 'try(): none of its arguments has a value');
    }
    const args = this.#all(expressions, (part) => this.value(part, inner));
    const last = args.at(-1);
    const isSpread = given.some((part) => part.name === 'Ellipsis');
    if (isSpread && last?.kind !== 'list')
      throw new ExpressionFault(node.from, `${word}(): only a list can stand before \`...\``);
    const all = isSpread && last?.kind === 'list' ? [...args.slice(0, -1), ...last.items] : args;
    const around = { budget: this.#budget, readFile: this.#readFile };
    return callFunction(new Call(word, node.from, all, around));
  }

  /** The first of the expressions that has a value. */
  #try(expressions: readonly HclNode[], place: Place): Tree | undefined {
    for (const expression of expressions) {
      const heard = this.#sink.heard();
      try {
        return this.value(expression, place);
      } catch (error) {
        if (!(error instanceof ExpressionFault) && !(error instanceof AlreadyTold)) throw error;
        this.#sink.unhear(heard);
      }
    }
    return undefined;
  }

  // ------------------------------------------------------------------------------------------------- names, steps

  #walk(target: Ast, steps: readonly HclNode[], place: Place): Tree {
    if (target.kind === 'atom' && target.node.name === 'VariableExpr')
      return this.#bareName(target.node, steps, place);
    this.hasWorkedOut = true;
    return this.#steps(this.#evaluate(target, place), steps, place);
  }

  #bareName(node: HclNode, steps: readonly HclNode[], place: Place): Tree {
    const root = this.#slice(node);
    const own = place.scope.own(root);
    this.hasWorkedOut = true;
    if (own !== undefined) return this.#steps(movedTo(own, node.from), steps, place);
    if (place.scope.isFamily(root)) {
      const [first, ...rest] = steps;
      const name = first === undefined ? undefined : this.#stepName(first, place);
      if (name === undefined || typeof name === 'number')
        throw new ExpressionFault(node.from, `\`${root}\` is followed by a name: \`${root}.name\``);
      const value = place.scope.readFamily(root, name, node.from);
      this.#budget.spendTree(value, node.from);
      return this.#steps(movedTo(value, node.from), rest, place);
    }
    const end = steps.at(-1)?.to ?? node.to;
    const written = this.#text.slice(node.from, end);
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

  #steps(from: Tree, steps: readonly HclNode[], place: Place): Tree {
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
    return { kind: 'list', at: from.at, items: items.map((item) => this.#steps(item, rest, place)) };
  }

  #step(value: Tree, step: HclNode, place: Place): Tree {
    const name = this.#stepName(step, place);
    const word = shorten(this.#slice(step));
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
      return this.#slice(step)
        .replace(/^\s*\.\s*/, '')
        .trim();
    const expression = partsOf(partsOf(step)[0]).find((part) => part.name === 'Expression');
    if (expression === undefined)
      return this.#slice(step)
        .replace(/^\s*\.\s*/, '')
        .trim();
    const value = this.value(expression, { ...place, depth: place.depth + 1 });
    const isNumber = value.kind === 'scalar' && typeof value.value === 'number';
    const key = isNumber ? asNumber(value) : asText(value);
    if (key === undefined)
      throw new ExpressionFault(
        expression.from,
        `an index must be a number or text, found ${describeMade(value)}`,
      );
    return key;
  }

  /** An expression ends with its line, unless brackets are open. */
  #requireOneLine(node: HclNode): void {
    const parts = partsOf(node);
    let open = 0;
    for (const [index, part] of parts.entries()) {
      if (part.name === '(') open += 1;
      if (part.name === ')') open -= 1;
      const next = parts[index + 1];
      if (open === 0 && next !== undefined && hasNewline(this.#text, part.to, next.from)) {
        this.#sink.refuse(next.from, 'an expression must stand on one line, or in brackets');
      }
      if (open === 0 && UNBRACKETED.has(part.name)) this.#requireOneLine(part);
    }
  }

  #slice(node: HclNode): string {
    return this.#text.slice(node.from, node.to);
  }
}

/** Nodes whose own parts stand outside any brackets of theirs. */
const UNBRACKETED: ReadonlySet<string> = new Set([
  'Expression',
  'Operation',
  'BinaryOperation',
  'UnaryOperation',
  'Conditional',
]);

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
