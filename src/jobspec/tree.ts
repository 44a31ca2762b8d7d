/**
 * Owns the plain tree that every file format is read into, and positions in a text. The tree says what was written
 * and where; what it means is decided in validate.ts and below.
 */

/** Offset of a node that has no text: it came in an HTTP body that was parsed already. */
export const NOWHERE = -1;

/** Deepest nesting of lists and maps; a job needs about ten, and hostile text must not exhaust the stack. */
export const DEEPEST = 64;

export type Tree = ScalarNode | ListNode | MapNode;

export interface ScalarNode {
  readonly kind: 'scalar';
  /** Offset of its first character, in UTF-16 units. */
  readonly at: number;
  readonly value: string | number | boolean | null;
  /** A number as it is written (`1.10`), everything else as its value; what a string made of it shall be. */
  readonly written: string;
}

export interface ListNode {
  readonly kind: 'list';
  readonly at: number;
  readonly items: readonly Tree[];
}

export interface MapNode {
  readonly kind: 'map';
  readonly at: number;
  /** In the order of the text. Keys are unique, except that HCL blocks repeat. */
  readonly entries: readonly Entry[];
}

export interface Entry {
  readonly key: string;
  readonly keyAt: number;
  /** Labels of an HCL block; undefined for a plain `key = value` of any format. */
  readonly labels: readonly Label[] | undefined;
  readonly value: Tree;
}

export interface Label {
  readonly text: string;
  readonly at: number;
}

/** What is wrong at one place of a text. */
export interface TextFault {
  readonly at: number;
  readonly message: string;
  readonly hint?: string;
}

/** What a format made of a text. With a tree, the faults are such that reading on makes sense (a key given twice). */
export interface ReadText {
  readonly tree: MapNode | undefined;
  readonly faults: readonly TextFault[];
}

/** Line and column of a character; both count from 1, the column in characters (code points). */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** Where each line of a text begins. */
export class LineIndex {
  readonly #text: string;
  readonly #starts: readonly number[];

  constructor(text: string) {
    this.#text = text;
    const starts = [0];
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
    this.#starts = starts;
  }

  /** Where a value begins that stands verbatim in quotes at `at`, or from the line after it; undefined = it does not. */
  find(value: string, at: number): number | undefined {
    const starts = [at, at + 1, this.#text.indexOf('\n', at) + 1];
    return at < 0 ? undefined : starts.find((start) => start > 0 && this.#text.startsWith(value, start));
  }

  /** Place of an offset; one beyond the end counts as the end. */
  place(offset: number): Place {
    const at = Math.max(0, Math.min(offset, this.#text.length));
    let low = 0;
    let high = this.#starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((this.#starts[middle] ?? 0) <= at) low = middle;
      else high = middle;
    }
    const before = this.#text.slice(this.#starts[low] ?? 0, at);
    return { line: low + 1, column: Array.from(before).length + 1 };
  }
}

/** Fault of a key that stands twice in one map. */
export function repeatedKey(key: string, at: number, first: Place): TextFault {
  return { at, message: `\`${key}\` is set twice: first at line ${first.line}, column ${first.column}` };
}

/** The value of a tree without positions. HCL blocks become lists of maps, as in HCL's JSON form. */
export function toPlain(tree: Tree): unknown {
  switch (tree.kind) {
    case 'scalar':
      return tree.value;
    case 'list':
      return tree.items.map(toPlain);
    case 'map': {
      const plain = new Map<string, unknown>();
      for (const { key, labels, value } of tree.entries) {
        if (labels === undefined) plain.set(key, toPlain(value));
        else addBlock(plain, [key, ...labels.map((label) => label.text)], toPlain(value));
      }
      // fromEntries defines each key as its own, `__proto__` too.
      return Object.fromEntries(mapsToObjects(plain));
    }
  }
}

/** Puts one block under its type and labels: `b "l" {…}` twice is `{b: {l: [{…}, {…}]}}`. */
function addBlock(into: Map<string, unknown>, path: readonly string[], body: unknown): void {
  const [key = '', ...rest] = path;
  const held = into.get(key);
  if (rest.length === 0) {
    into.set(key, Array.isArray(held) ? [...(held as unknown[]), body] : [body]);
    return;
  }
  const inner = held instanceof Map ? (held as Map<string, unknown>) : new Map<string, unknown>();
  into.set(key, inner);
  addBlock(inner, rest, body);
}

function mapsToObjects(map: ReadonlyMap<string, unknown>): (readonly [string, unknown])[] {
  return [...map].map(([key, value]) => [
    key,
    value instanceof Map ? Object.fromEntries(mapsToObjects(value as Map<string, unknown>)) : value,
  ]);
}

/** The tree of a plain value that has no text, such as an HTTP body. Undefined when it nests too deeply. */
export function fromPlain(value: unknown, depth = 0): Tree | undefined {
  if (depth > DEEPEST) return undefined;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return { kind: 'scalar', at: NOWHERE, value, written: String(value) };
  }
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => fromPlain(item, depth + 1));
    return items.every((item) => item !== undefined) ? { kind: 'list', at: NOWHERE, items } : undefined;
  }
  if (typeof value !== 'object' || value === null) {
    return { kind: 'scalar', at: NOWHERE, value: null, written: 'null' };
  }
  const entries: Entry[] = [];
  for (const [key, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    const tree = fromPlain(inner, depth + 1);
    if (tree === undefined) return undefined;
    entries.push({ key, keyAt: NOWHERE, labels: undefined, value: tree });
  }
  return { kind: 'map', at: NOWHERE, entries };
}
