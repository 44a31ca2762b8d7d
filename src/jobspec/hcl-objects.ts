/**
 * Owns the elements of HCL's maps. The grammar takes the bracket in `{ a = f(x) }` for the beginning of another key; where
 * it stumbled in a map, the map is cut into its elements here, and each value is given to the grammar alone.
 */
import { partsOf, type HclNode } from './hcl-faults.js';

/** One `key = value`. Each part is an expression of the grammar, at its offsets in the whole text. */
export interface Element {
  readonly from: number;
  readonly to: number;
  /** The node around the key's expression. */
  readonly key: HclNode;
  readonly assign: { readonly from: number; readonly to: number };
  readonly value: HclNode;
}

type Parse = (text: string) => HclNode;

export class Objects {
  readonly #text: string;
  readonly #parse: Parse;
  /** Elements of the maps that were cut here, by the offset of the map. */
  readonly #cut = new Map<number, readonly Element[]>();
  /** What the grammar made of single values: their faults count, those of the maps around them do not. */
  readonly #tops: HclNode[] = [];
  #parsed = 0;

  constructor(text: string, parse: Parse) {
    this.#text = text;
    this.#parse = parse;
  }

  /** Looks through a tree once, before anything is read from it. */
  mend(top: HclNode): void {
    this.#tops.push(top);
    const broken: HclNode[] = [];
    top.cursor().iterate(({ name, node }) => {
      if (name !== 'Object' || !holdsError(node)) return true;
      broken.push(node);
      return false;
    });
    for (const node of broken) {
      const elements = this.#elementsOf(node);
      if (elements !== undefined) this.#cut.set(node.from, elements);
    }
  }

  /** Calls back for each node in which the grammar saw a fault. */
  eachError(visit: (node: HclNode) => void): void {
    for (const top of this.#tops) {
      top.cursor().iterate(({ name, type, node }) => {
        if (type.isError) visit(node);
        return !(name === 'Object' && this.#cut.has(node.from));
      });
    }
  }

  /** The elements of a map, and how many there are when one of them cannot be read. */
  elements(node: HclNode): readonly Partial<Element>[] {
    const cut = this.#cut.get(node.from);
    if (cut !== undefined) return cut;
    return partsOf(node)
      .filter((inner) => inner.name === 'ObjectElem')
      .map((element) => {
        const [key, assign, value] = partsOf(element);
        const { from, to } = element;
        return key === undefined || assign === undefined || value === undefined
          ? { from, to }
          : { from, to, key, assign, value };
      });
  }

  #elementsOf(node: HclNode): readonly Element[] | undefined {
    const elements: Element[] = [];
    const cuts = cutElements(this.#text, node.from);
    if (cuts?.end !== node.to) return undefined;
    for (const { from, assign, to } of cuts.elements) {
      const key = this.#alone(from, this.#trimmedEnd(from, assign.from));
      const value = this.#alone(assign.to, to);
      if (key === undefined || value === undefined) return undefined;
      // The reader of keys looks at a node with the expression in it.
      if (key.parent === null) return undefined;
      elements.push({ from, to, key: key.parent, assign, value });
    }
    return elements;
  }

  #trimmedEnd(from: number, to: number): number {
    return from + this.#text.slice(from, to).trimEnd().length;
  }

  /** The expression between two offsets, parsed as if nothing stood around it. */
  #alone(from: number, to: number): HclNode | undefined {
    const lead = /^\s*/.exec(this.#text.slice(from, to))?.[0].length ?? 0;
    const begin = from + lead;
    if (begin < ALONE.length || begin >= to) return undefined;
    this.#parsed += begin;
    if (this.#parsed > MOST_PARSED) return undefined;
    // Filled up, so that offsets are those of the whole text.
    const text = `${'\n'.repeat(begin - ALONE.length)}${ALONE}${this.#text.slice(begin, to)}\n`;
    const top = this.#parse(text);
    const [body] = partsOf(top);
    const [attribute, more] = partsOf(body);
    const value = attribute?.getChild('Expression');
    if (value === undefined || value === null || more !== undefined) return undefined;
    this.mend(top);
    return value;
  }
}

const ALONE = '_=';

/** Characters given to the grammar again; a hostile file must not cost minutes. */
const MOST_PARSED = 50_000_000;

function holdsError(node: HclNode): boolean {
  let found = false;
  node.cursor().iterate(({ type }) => {
    found ||= type.isError;
    return !found;
  });
  return found;
}

interface Cut {
  readonly from: number;
  readonly assign: { readonly from: number; readonly to: number };
  readonly to: number;
}

const CLOSERS: Readonly<Record<string, string>> = { '{': '}', '[': ']', '(': ')' };

/** Cuts the map that begins at an offset; undefined when its brackets do not match, or an element has no `=`. */
function cutElements(text: string, at: number): { elements: Cut[]; end: number } | undefined {
  const elements: Cut[] = [];
  const open: string[] = [];
  let from: number | undefined;
  let assign: Cut['assign'] | undefined;
  const finish = (to: number): boolean => {
    if (from === undefined) return true;
    if (assign === undefined) return false;
    elements.push({ from, assign, to });
    from = undefined;
    assign = undefined;
    return true;
  };
  for (let index = at; index < text.length; index++) {
    const skipped = skipText(text, index);
    const character = text[index] ?? '';
    if (skipped > index) {
      if (open.length === 1 && from === undefined && !isComment(text, index)) from = index;
      index = skipped - 1;
      continue;
    }
    const closer = CLOSERS[character];
    const isOuter = open.length === 1;
    if (closer !== undefined) {
      if (isOuter) from ??= index;
      open.push(closer);
    } else if (character === open.at(-1)) {
      if (isOuter) return finish(index) ? { elements, end: index + 1 } : undefined;
      open.pop();
    } else if (isOuter && (character === '\n' || character === ',')) {
      if (!finish(index)) return undefined;
    } else if (isOuter && assign === undefined && from !== undefined && /[=:]/.test(character)) {
      assign = { from: index, to: index + 1 };
    } else if (isOuter && /\S/.test(character)) from ??= index;
  }
  return undefined;
}

function isComment(text: string, at: number): boolean {
  return /^(?:#|\/\/|\/\*)/.test(text.slice(at, at + 2));
}

/** Offset behind the string, heredoc or comment that begins here; the same offset when none does. */
function skipText(text: string, at: number): number {
  const character = text[at];
  if (character === '"') return skipString(text, at);
  if (character === '#' || text.startsWith('//', at)) {
    const end = text.indexOf('\n', at);
    return end === -1 ? text.length : end;
  }
  if (text.startsWith('/*', at)) {
    const end = text.indexOf('*/', at + 2);
    return end === -1 ? text.length : end + 2;
  }
  if (!text.startsWith('<<', at)) return at;
  const opening = /^<<-?([\w-]+)\r?\n/.exec(text.slice(at, at + 300));
  if (opening === null) return at;
  const [all, name = ''] = opening;
  const closing = new RegExp(`^[ \\t]*${name}[ \\t]*\\r?$`, 'm').exec(text.slice(at + all.length));
  return closing === null ? text.length : at + all.length + closing.index + closing[0].length;
}

function skipString(text: string, at: number): number {
  let index = at + 1;
  while (index < text.length) {
    const character = text[index];
    if (character === '\\') index += 2;
    else if (character === '"') return index + 1;
    else if (text.startsWith('$${', index)) index += 3;
    else if (text.startsWith('${', index)) index = skipInterpolation(text, index + 2);
    else index += 1;
  }
  return text.length;
}

function skipInterpolation(text: string, at: number): number {
  let depth = 1;
  let index = at;
  while (index < text.length && depth > 0) {
    const skipped = text[index] === '"' ? skipString(text, index) : index;
    if (skipped > index) {
      index = skipped;
      continue;
    }
    if (text[index] === '{') depth += 1;
    if (text[index] === '}') depth -= 1;
    index += 1;
  }
  return index;
}
