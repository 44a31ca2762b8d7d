/**
 * Owns how the grammar's error nodes are told to people. The grammar only says "here it went on after something I
 * did not understand"; what encloses that place tells what was meant.
 */
import type { hclLanguage } from 'codemirror-lang-hcl';
import { DOLLARS, shorten } from './hcl-text.js';
import { LineIndex, repeatedKey, type TextFault, type Tree } from './tree.js';

/** A node of the grammar's tree. */
export type HclNode = ReturnType<typeof hclLanguage.parser.parse>['topNode'];

/** A fault, and where it came to light: of several, the one with the lowest order is the cause of the others. */
export interface OrderedFault extends TextFault {
  readonly order: number;
}

/** Collects the faults of one HCL text. */
export class HclSink {
  readonly syntax: OrderedFault[] = [];
  /** Correct HCL whose value cannot be had. */
  readonly told: TextFault[] = [];
  /** Keys set twice. */
  readonly repeats: TextFault[] = [];
  readonly #text: string;
  readonly #lines: LineIndex;

  constructor(text: string) {
    this.#text = text;
    this.#lines = new LineIndex(text);
  }

  /**
   * The first of the syntax faults that were noted and those that the grammar saw.
   * @param eachError calls back for each node of the latter
   */
  firstSyntaxFault(eachError: (visit: (node: HclNode) => void) => void): TextFault | undefined {
    let first = [...this.syntax].sort((a, b) => a.order - b.order)[0];
    eachError((node) => {
      const fault = explain(this.#text, node);
      // At the same place the reader's words are the better ones.
      if (first === undefined || fault.order < first.order) first = fault;
    });
    if (first === undefined) return undefined;
    const { at, message, hint } = first;
    return { at, message, ...(hint === undefined ? {} : { hint }) };
  }

  noteKey(firsts: Map<string, number>, key: string, at: number): void {
    const first = firsts.get(key);
    if (first === undefined) firsts.set(key, at);
    else this.repeats.push(repeatedKey(key, at, this.#lines.place(first)));
  }

  requireOneLine(parts: readonly { readonly from: number; readonly to: number }[], message: string): void {
    for (const [index, part] of parts.entries()) {
      const next = parts[index + 1];
      if (next === undefined || !hasNewline(this.#text, part.to, next.from)) continue;
      this.refuse(part.to, message);
      return;
    }
  }

  /** As a rule the grammar put an error node there, which tells more: so this one comes last. */
  malformed(node: HclNode): void {
    this.refuse(node.from, 'expected `key = value` or a block here', this.#text.length + 1);
  }

  refuse(at: number, message: string, order = at): Tree {
    this.syntax.push({ at, message, order });
    return nothing(at);
  }

  tell(fault: TextFault): void {
    // A `for` or a `dynamic` block comes by the same place again and again.
    if (this.told.some(({ at, message }) => at === fault.at && message === fault.message)) return;
    this.told.push(fault);
  }

  /** How much was told so far, for `unhear`. */
  heard(): number {
    return this.told.length;
  }

  /** Takes back what was told since: somebody only tried. */
  unhear(heard: number): void {
    this.told.splice(heard);
  }
}

/** True when a line ends between two offsets that have only space and comments between them. */
export function hasNewline(text: string, from: number, to: number): boolean {
  return text
    .slice(from, to)
    .replace(/(?:#|\/\/)[^\n]*|\/\*[^]*?\*\//g, '')
    .includes('\n');
}

function explain(text: string, error: HclNode): OrderedFault {
  const order = error.from + 0.5;
  for (let node = error.parent; node !== null; node = node.parent) {
    switch (node.name) {
      case 'TemplateInterpolation': {
        const message = 'this `${…}` cannot be read';
        return { at: node.from, message, hint: DOLLARS, order: node.from };
      }
      case 'StringLit':
      case 'QuotedTemplate': {
        const open = openDirective(node);
        if (open !== undefined) return open;
        if (text[node.from] === '"' && lacks(node, 'QuotedTemplateEnd')) {
          const isEmptyLabel = node.parent?.name === 'BlockLabel' && text.startsWith('""', node.from);
          const message = isEmptyLabel
            ? 'a label cannot be empty'
            : 'this string has no closing quote on its line';
          return { at: node.from, message, order: node.from };
        }
        break;
      }
      case 'HeredocTemplate': {
        const open = openDirective(node);
        if (open !== undefined) return open;
        const name = /^<<-?([^\s]*)/.exec(text.slice(node.from))?.[1] ?? '';
        return { at: node.from, message: `this heredoc has no closing line \`${name}\``, order: node.from };
      }
      case 'Block':
        if (error.from >= text.trimEnd().length && lacks(node, '}')) return unclosed(text, node, order);
        break;
      default:
        break;
    }
  }
  return unexpected(text, error, order);
}

/** A `%{ if }` or `%{ for }` that is not closed takes all that follows, the end of the text among it. */
function openDirective(template: HclNode): OrderedFault | undefined {
  for (const directive of template.getChildren('TemplateDirective')) {
    const part = directive.getChild('TemplateIf') ?? directive.getChild('TemplateFor');
    const word = part?.name === 'TemplateFor' ? 'for' : 'if';
    if (part === null || !lacks(part, word === 'for' ? 'TemplateForEnd' : 'TemplateIfEnd')) continue;
    // The inner one may be what is open.
    const inner = openDirective(part);
    const message = `this \`%{ ${word} … }\` has no \`%{ end${word} }\``;
    return inner ?? { at: part.from, message, hint: 'for a literal `%{` write `%%{`', order: template.from };
  }
  return undefined;
}

function unclosed(text: string, block: HclNode, order: number): OrderedFault {
  const type = block.getChild('BlockType');
  // What the parser takes for a name may go on over the end of its line.
  const name = type === null ? '' : (text.slice(type.from, type.to).trim().split(/\s/, 1)[0] ?? '');
  const open = block.getChild('{');
  return open === null
    ? {
        at: block.from,
        message: `\`${name}\` must be followed by \`= value\` or \`{\``,
        order: block.from + 0.5,
      }
    : { at: block.from, message: `block \`${name}\` is never closed: a \`}\` is missing`, order };
}

function unexpected(text: string, error: HclNode, order: number): OrderedFault {
  const at = error.from + (/^\s*/.exec(text.slice(error.from, error.to))?.[0].length ?? 0);
  const word = /^(?:[\w-]+|==|[^])/u.exec(text.slice(at))?.[0];
  if (word === undefined || at >= text.trimEnd().length) {
    return { at, message: 'the file ends too early', order };
  }
  if (text.startsWith('/*', at))
    return { at, message: 'this comment is never closed: `*/` is missing', order };
  const beginsLine = /(?:^|[\n{])[ \t]*$/.test(text.slice(0, at));
  if (word === '"' && beginsLine) {
    const hint = 'where keys need quotes, write a map: `env = { "a.b" = 1 }`';
    return { at, message: 'a key of a block cannot have quotes', hint, order };
  }
  const hint = HINTS.get(word);
  const shown = /^[\s\p{Cc}]/u.test(word) ? `character ${JSON.stringify(word)}` : `\`${word}\``;
  return { at, message: `unexpected ${shown}`, order, ...(hint === undefined ? {} : { hint }) };
}

const HINTS = new Map([
  ["'", 'strings have double quotes'],
  [':', 'keys of a block are set with `=`'],
  ['==', 'a key is set with one `=`'],
  ['}', 'it closes nothing'],
]);

function lacks(node: HclNode, child: string): boolean {
  return node.getChild(child) === null;
}

/** Words for something that begins like a number. */
export function gluedNumber(word: string): string {
  return /^-?\d+[eE][+-]?\d*$/.test(word)
    ? `write the number ${word} without an exponent`
    : `\`${shorten(word)}\` is not a number: put quotes around it`;
}

/** Stands for what could not be read. */
export function nothing(at: number): Tree {
  return { kind: 'scalar', at, value: null, written: '' };
}

/** Children that mean something. */
export function partsOf(node: HclNode | undefined | null): HclNode[] {
  const parts: HclNode[] = [];
  for (let child = node?.firstChild ?? null; child !== null; child = child.nextSibling) {
    if (child.name !== 'Comment' && !child.type.isError) parts.push(child);
  }
  return parts;
}
