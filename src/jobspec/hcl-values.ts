/**
 * Owns the value of HCL's expressions. What the job file itself can know (variables, locals, functions, operators) is
 * worked out here; what only the start of a task can know stays in the text as `${…}`. Strings, lists and names have readers
 * of their own, which come back to this one for what they hold.
 */
import { astOf, type Ast } from './hcl-ast.js';
import { Call, type ReadText } from './hcl-call.js';
import type { Expressions, Place } from './hcl-expressions.js';
import { gluedNumber, hasNewline, nothing, partsOf, type HclNode, type HclSink } from './hcl-faults.js';
import { callFunction } from './hcl-functions.js';
import { ListReader } from './hcl-lists.js';
import { AlreadyTold, asBool, Budget, boolNode, ExpressionFault, movedTo, textNode } from './hcl-made.js';
import type { Objects } from './hcl-objects.js';
import { applyBinary, applyUnary, truthOf } from './hcl-operators.js';
import type { Scope } from './hcl-scope.js';
import { StepReader } from './hcl-steps.js';
import { TemplateReader } from './hcl-templates.js';
import { shorten } from './hcl-text.js';
import { DEEPEST, type Tree } from './tree.js';

const NUMBER = /^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export class ValueReader implements Expressions {
  /** True once something was worked out: the tree is then no copy of the text. */
  hasWorkedOut = false;
  /** Where the elements of maps are found. */
  readonly objects: Objects;
  readonly text: string;
  readonly sink: HclSink;
  readonly budget = new Budget();
  readonly #readFile: ReadText | undefined;
  readonly #templates = new TemplateReader(this);
  readonly #lists = new ListReader(this);
  readonly #steps = new StepReader(this);

  constructor(
    text: string,
    sink: HclSink,
    around: { readonly objects: Objects; readonly readFile: ReadText | undefined },
  ) {
    this.text = text;
    this.sink = sink;
    this.objects = around.objects;
    this.#readFile = around.readFile;
  }

  /** The text of a string that has nothing to fill in. */
  quoted(node: HclNode): string {
    return this.#templates.quoted(node);
  }

  /** Does it for each, tells all faults, and goes on only when there were none. */
  each<N, T>(nodes: readonly N[], read: (node: N) => T): T[] {
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
    this.sink.tell({ at, message, ...(hint === undefined ? {} : { hint }) });
  }

  /** One expression. @throws ExpressionFault, AlreadyTold */
  value(node: HclNode, { scope, depth }: Place): Tree {
    this.#requireOneLine(node);
    if (depth > DEEPEST) return this.sink.refuse(node.from, `more than ${DEEPEST} levels of nesting`);
    const ast = astOf(node, this.text);
    if (ast === undefined) {
      throw new ExpressionFault(node.from, `this cannot be read: ${shorten(this.slice(node))}`);
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
        this.budget.spend(1, ast.at);
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
        return this.#templates.read(node, place);
      case 'CollectionValue':
        return this.#lists.collection(node, place);
      case 'VariableExpr':
        return this.#steps.name(node, [], place);
      case 'FunctionCall':
        return this.#call(node, place);
      case 'ForExpr':
        return this.#lists.for(node, place);
      default:
        throw new ExpressionFault(node.from, `this cannot be read: ${shorten(this.slice(node))}`);
    }
  }

  #literal(node: HclNode): Tree {
    const [part] = partsOf(node);
    const at = node.from;
    const written = this.slice(node);
    if (part?.name === 'StringLit') return textNode(at, this.quoted(part));
    if (part?.name === 'NumericLit') return this.#number(at, written);
    if (part?.name === 'BoolLit') return { kind: 'scalar', at, value: written === 'true', written };
    if (part?.name === 'NullLit') return { kind: 'scalar', at, value: null, written };
    throw new ExpressionFault(at, `this cannot be read: ${shorten(written)}`);
  }

  #number(at: number, written: string): Tree {
    const value = Number(written);
    const digits = written.replace('-', '');
    if (!NUMBER.test(digits) || !Number.isFinite(value)) return this.sink.refuse(at, gluedNumber(written));
    // As HCL turns a number into text: 1.10 is 1.1, and whole numbers keep all their digits.
    const text = /^\d+$/.test(digits) ? String(BigInt(digits)) : String(Math.abs(value));
    return { kind: 'scalar', at, value: value === 0 ? 0 : value, written: value < 0 ? `-${text}` : text };
  }

  /** `-5` is a literal: it keeps all its digits. */
  #negativeLiteral({ operator, operand, at }: Extract<Ast, { kind: 'unary' }>): Tree | undefined {
    if (operator !== '-' || operand.kind !== 'atom' || operand.node.name !== 'LiteralValue') return undefined;
    if (partsOf(operand.node)[0]?.name !== 'NumericLit') return undefined;
    if (hasNewline(this.text, at + 1, operand.node.from)) {
      return this.sink.refuse(at + 1, 'a number must follow its `-` on the same line');
    }
    return this.#number(at, `-${this.slice(operand.node)}`);
  }

  #call(node: HclNode, place: Place): Tree {
    this.hasWorkedOut = true;
    const parts = partsOf(node);
    const name = parts.find((part) => part.name === 'FunctionName');
    const given = partsOf(parts.find((part) => part.name === 'FunctionArguments'));
    const expressions = given.filter((part) => part.name === 'Expression');
    const word = name === undefined ? '' : this.slice(name).trim();
    const inner = { ...place, depth: place.depth + 1 };
    if (word === 'can') return boolNode(node.from, this.#try(expressions, inner) !== undefined);
    if (word === 'try') {
      const found = this.#try(expressions, inner);
      if (found !== undefined) return found;
      throw new ExpressionFault(node.from, 'try(): none of its arguments has a value');
    }
    const args = this.each(expressions, (part) => this.value(part, inner));
    const last = args.at(-1);
    const isSpread = given.some((part) => part.name === 'Ellipsis');
    if (isSpread && last?.kind !== 'list')
      throw new ExpressionFault(node.from, `${word}(): only a list can stand before \`...\``);
    const all = isSpread && last?.kind === 'list' ? [...args.slice(0, -1), ...last.items] : args;
    const around = { budget: this.budget, readFile: this.#readFile };
    return callFunction(new Call(word, node.from, all, around));
  }

  /** The first of the expressions that has a value. */
  #try(expressions: readonly HclNode[], place: Place): Tree | undefined {
    for (const expression of expressions) {
      const heard = this.sink.heard();
      try {
        return this.value(expression, place);
      } catch (error) {
        if (!(error instanceof ExpressionFault) && !(error instanceof AlreadyTold)) throw error;
        this.sink.unhear(heard);
      }
    }
    return undefined;
  }

  #walk(target: Ast, steps: readonly HclNode[], place: Place): Tree {
    if (target.kind === 'atom' && target.node.name === 'VariableExpr')
      return this.#steps.name(target.node, steps, place);
    this.hasWorkedOut = true;
    return this.#steps.follow(this.#evaluate(target, place), steps, place);
  }

  /** An expression ends with its line, unless brackets are open. */
  #requireOneLine(node: HclNode): void {
    const parts = partsOf(node);
    let open = 0;
    for (const [index, part] of parts.entries()) {
      if (part.name === '(') open += 1;
      if (part.name === ')') open -= 1;
      const next = parts[index + 1];
      if (open === 0 && next !== undefined && hasNewline(this.text, part.to, next.from)) {
        this.sink.refuse(next.from, 'an expression must stand on one line, or in brackets');
      }
      if (open === 0 && UNBRACKETED.has(part.name)) this.#requireOneLine(part);
    }
  }

  /** As it is written. */
  slice(node: HclNode): string {
    return this.text.slice(node.from, node.to);
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
