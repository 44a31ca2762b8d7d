/** Owns what HCL's operators make of their operands. */
import {
  asBool,
  asNumber,
  boolNode,
  describeMade,
  ExpressionFault,
  isForLater,
  numberNode,
} from './hcl-made.js';
import type { Tree } from './tree.js';

/** `-x` and `!x`. @throws ExpressionFault */
export function applyUnary(operator: string, operand: Tree, at: number): Tree {
  return operator === '-'
    ? numberNode(at, -numberOf(operand, operator))
    : boolNode(at, !truthOf(operand, `\`${operator}\``));
}

/** Both sides are known. `&&` and `||` are here for their types: who evaluates may stop after the left side. */
export function applyBinary(operator: string, left: Tree, right: Tree, at: number): Tree {
  switch (operator) {
    case '==':
      return boolNode(at, isSame(left, right));
    case '!=':
      return boolNode(at, !isSame(left, right));
    case '&&':
      return boolNode(at, truthOf(left, '`&&`') && truthOf(right, '`&&`'));
    case '||':
      return boolNode(at, truthOf(left, '`||`') || truthOf(right, '`||`'));
    default:
      return arithmetic(operator, numberOf(left, operator), numberOf(right, operator), at);
  }
}

function arithmetic(operator: string, a: number, b: number, at: number): Tree {
  switch (operator) {
    case '+':
      return numberNode(at, a + b);
    case '-':
      return numberNode(at, a - b);
    case '*':
      return numberNode(at, a * b);
    case '/':
    case '%':
      if (b === 0) throw new ExpressionFault(at, 'this divides by zero');
      return numberNode(at, operator === '/' ? a / b : a % b);
    case '<':
      return boolNode(at, a < b);
    case '<=':
      return boolNode(at, a <= b);
    case '>':
      return boolNode(at, a > b);
    default:
      return boolNode(at, a >= b);
  }
}

/** Truth of a condition. @param what as the message shall name it */
export function truthOf(tree: Tree, what: string): boolean {
  const truth = asBool(tree);
  if (truth !== undefined) return truth;
  refuseLater(tree);
  throw new ExpressionFault(tree.at, `${what} needs true or false, found ${describeMade(tree)}`);
}

function numberOf(tree: Tree, operator: string): number {
  const number = asNumber(tree);
  if (number !== undefined) return number;
  refuseLater(tree);
  const hint = operator === '+' ? 'texts are joined in a template: "${a}${b}"' : undefined;
  throw new ExpressionFault(tree.at, `\`${operator}\` needs a number, found ${describeMade(tree)}`, hint);
}

/** Nobody can decide by what is not known yet. @throws ExpressionFault */
export function refuseLater(tree: Tree): void {
  if (!isForLater(tree)) return;
  const message = `${describeMade(tree)} is only known when the task starts: nothing can be decided by it here`;
  throw new ExpressionFault(tree.at, message);
}

/** As HCL compares: 1 and "1" differ. @throws ExpressionFault */
function isSame(left: Tree, right: Tree): boolean {
  refuseLater(left);
  refuseLater(right);
  return isEqual(left, right);
}

/** Whether two values are the same. */
export function isEqual(left: Tree, right: Tree): boolean {
  if (left.kind === 'scalar' && right.kind === 'scalar') return left.value === right.value;
  if (left.kind === 'list' && right.kind === 'list') {
    const others = right.items;
    return (
      left.items.length === others.length &&
      left.items.every((item, index) => others[index] !== undefined && isEqual(item, others[index]))
    );
  }
  if (left.kind !== 'map' || right.kind !== 'map' || left.entries.length !== right.entries.length)
    return false;
  const others = new Map(right.entries.map(({ key, value }) => [key, value]));
  return left.entries.every(({ key, value }) => {
    const other = others.get(key);
    return other !== undefined && isEqual(value, other);
  });
}
