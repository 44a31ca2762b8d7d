/**
 * Owns how the grammar's error nodes are told to people. The grammar only says "here it went on after something I
 * did not understand"; what encloses that place tells what was meant.
 */
import type { hclLanguage } from 'codemirror-lang-hcl';
import { DOLLARS } from './hcl-text.js';
import type { TextFault } from './tree.js';

/** A node of the grammar's tree. */
export type HclNode = ReturnType<typeof hclLanguage.parser.parse>['topNode'];

/** A fault, and where it came to light: of several, the one with the lowest order is the cause of the others. */
export interface OrderedFault extends TextFault {
  readonly order: number;
}

/** The first of the faults that a reader found and those that the grammar did. */
export function firstSyntaxFault(
  text: string,
  top: HclNode,
  found: readonly OrderedFault[],
): TextFault | undefined {
  let first = [...found].sort((a, b) => a.order - b.order)[0];
  top.cursor().iterate(({ type, node }) => {
    if (!type.isError) return;
    const fault = explain(text, node);
    // At the same place the reader's words are the better ones.
    if (first === undefined || fault.order < first.order) first = fault;
  });
  if (first === undefined) return undefined;
  const { at, message, hint } = first;
  return { at, message, ...(hint === undefined ? {} : { hint }) };
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
      case 'QuotedTemplate':
        if (lacks(node, 'QuotedTemplateEnd')) {
          return { at: node.from, message: 'this string has no closing quote on its line', order: node.from };
        }
        break;
      case 'HeredocTemplate': {
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

function unclosed(text: string, block: HclNode, order: number): OrderedFault {
  const type = block.getChild('BlockType');
  const name = type === null ? '' : text.slice(type.from, type.to).trim();
  const open = block.getChild('{');
  if (/^[\w-]+[ \t]+""/.test(text.slice(block.from))) {
    return { at: block.from, message: `the label of block \`${name}\` is empty`, order: block.from + 0.5 };
  }
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
  const inBody =
    error.parent?.name === 'Block' || error.parent?.name === 'Body' || error.parent?.name === 'ConfigFile';
  if (word === '"' && inBody) {
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
