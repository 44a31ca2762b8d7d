/**
 * Owns the shape of HCL's expressions. The grammar finds operands and operators but groups some of them otherwise than
 * HCL does (`a ? b : c ? d : e`, `-x.y`): here they are laid in a row again and grouped by HCL's own precedence.
 */
import { partsOf, type HclNode } from './hcl-faults.js';

/** An expression, ready to be evaluated. */
export type Ast =
  /** A literal, a template, a collection, a name, a call, a `for`. */
  | { readonly kind: 'atom'; readonly node: HclNode }
  | { readonly kind: 'steps'; readonly target: Ast; readonly steps: readonly HclNode[] }
  | { readonly kind: 'unary'; readonly operator: string; readonly operand: Ast; readonly at: number }
  | {
      readonly kind: 'binary';
      readonly operator: string;
      readonly left: Ast;
      readonly right: Ast;
      readonly at: number;
    }
  | { readonly kind: 'choice'; readonly test: Ast; readonly yes: Ast; readonly no: Ast };

type Token =
  | { readonly kind: 'operand'; readonly ast: Ast }
  | { readonly kind: 'operator'; readonly text: string; readonly at: number }
  | { readonly kind: 'step'; readonly node: HclNode };

const OPERATORS: ReadonlySet<string> = new Set(['ArithOp', 'CompareOp', 'LogicOp', 'ControlOp']);
const STEPS: ReadonlySet<string> = new Set(['GetAttr', 'Index', 'Splat']);
const GROUPS: ReadonlySet<string> = new Set([
  'Expression',
  'Operation',
  'BinaryOperation',
  'UnaryOperation',
  'Conditional',
]);

/** Loosest first; all of them group from the left. */
const LEVELS: readonly (readonly string[])[] = [
  ['||'],
  ['&&'],
  ['==', '!='],
  ['<', '<=', '>', '>='],
  ['+', '-'],
  ['*', '/', '%'],
];

/** The expression at a node; undefined when it cannot be understood. */
export function astOf(node: HclNode, text: string): Ast | undefined {
  const tokens: Token[] = [];
  if (!flatten(node, text, tokens)) return undefined;
  const reader = new TokenReader(tokens);
  const ast = reader.choice();
  return ast !== undefined && reader.isAtEnd() ? ast : undefined;
}

function flatten(node: HclNode, text: string, into: Token[]): boolean {
  const parts = partsOf(node);
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index];
    if (part === undefined) return false;
    if (part.name === '(') {
      const [inner, close] = [parts[index + 1], parts[index + 2]];
      const ast = inner === undefined ? undefined : astOf(inner, text);
      if (ast === undefined || close?.name !== ')') return false;
      // A pair of brackets is one operand, whatever stands in it.
      into.push({ kind: 'operand', ast });
      index += 2;
    } else if (OPERATORS.has(part.name)) {
      into.push({ kind: 'operator', text: text.slice(part.from, part.to), at: part.from });
    } else if (STEPS.has(part.name)) into.push({ kind: 'step', node: part });
    else if (!GROUPS.has(part.name)) into.push({ kind: 'operand', ast: { kind: 'atom', node: part } });
    else if (!flatten(part, text, into)) return false;
  }
  return parts.length > 0;
}

class TokenReader {
  readonly #tokens: readonly Token[];
  #next = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  isAtEnd(): boolean {
    return this.#next >= this.#tokens.length;
  }

  choice(): Ast | undefined {
    const test = this.#binary(0);
    if (test === undefined || this.#take(['?']) === undefined) return test;
    const yes = this.choice();
    if (yes === undefined || this.#take([':']) === undefined) return undefined;
    const no = this.choice();
    return no === undefined ? undefined : { kind: 'choice', test, yes, no };
  }

  #binary(level: number): Ast | undefined {
    const operators = LEVELS[level];
    if (operators === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const operator = left === undefined ? undefined : this.#take(operators);
      if (left === undefined || operator === undefined) return left;
      const right = this.#binary(level + 1);
      left =
        right === undefined
          ? undefined
          : { kind: 'binary', operator: operator.text, left, right, at: operator.at };
    }
  }

  #unary(): Ast | undefined {
    const operator = this.#take(['-', '!']);
    if (operator === undefined) return this.#withSteps();
    const operand = this.#unary();
    return operand === undefined
      ? undefined
      : { kind: 'unary', operator: operator.text, operand, at: operator.at };
  }

  #withSteps(): Ast | undefined {
    const token = this.#tokens[this.#next];
    if (token?.kind !== 'operand') return undefined;
    this.#next += 1;
    const steps: HclNode[] = [];
    for (let step = this.#tokens[this.#next]; step?.kind === 'step'; step = this.#tokens[this.#next]) {
      steps.push(step.node);
      this.#next += 1;
    }
    return steps.length === 0 ? token.ast : { kind: 'steps', target: token.ast, steps };
  }

  #take(texts: readonly string[]): Extract<Token, { kind: 'operator' }> | undefined {
    const token = this.#tokens[this.#next];
    if (token?.kind !== 'operator' || !texts.includes(token.text)) return undefined;
    this.#next += 1;
    return token;
  }
}
