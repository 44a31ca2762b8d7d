/**
 * Owns YAML text → tree with positions (YAML 1.2 core schema: `yes` and `on` are strings). One document per file.
 * Anchors and aliases are followed within bounds; tags and merge keys are refused.
 */
import { createRequire } from 'node:module';
import type * as Yaml from 'yaml';
import {
  DEEPEST,
  LineIndex,
  repeatedKey,
  type Entry,
  type ReadText,
  type TextFault,
  type Tree,
} from './tree.js';

/** Nodes after aliases are followed; a job file has some hundreds, a "billion laughs" file has more. */
const MOST_NODES = 100_000;

// Loaded only when a YAML file is read: the command line shall not pay for it otherwise.
const require = createRequire(import.meta.url);
let library: typeof Yaml | undefined;

/** Reads one YAML document; the top must be a map. */
export function readYaml(text: string): ReadText {
  library ??= require('yaml') as typeof Yaml;
  const [first, second] = library.parseAllDocuments(text, {
    version: '1.2',
    prettyErrors: false,
    uniqueKeys: false,
    keepSourceTokens: false,
    stringKeys: false,
    logLevel: 'silent',
  }) as Yaml.Document.Parsed[];
  if (first?.contents == null || (library.isScalar(first.contents) && first.contents.value === null)) {
    const error = first?.errors[0];
    if (error === undefined) return failed({ at: 0, message: 'the file holds no job: it is empty' });
  }
  for (const problem of [...(first?.errors ?? []), ...(first?.warnings ?? [])]) {
    return failed({ at: problem.pos[0], message: `bad YAML: ${sentence(problem.message)}` });
  }
  if (second !== undefined) {
    return failed({ at: second.range[0], message: 'a job file must hold one YAML document, not several' });
  }
  const reader = new YamlReader(library, text, first);
  const tree = reader.read(first?.contents ?? null, 0, 0);
  if (reader.fatal !== undefined) return failed(reader.fatal);
  if (tree.kind !== 'map') return failed({ at: tree.at, message: 'a job file must hold a map (`job:` …)' });
  return { tree, faults: reader.faults };
}

function failed(fault: TextFault): ReadText {
  return { tree: undefined, faults: [fault] };
}

/** The library's message in our manner: one line, no full stop, small first letter. */
function sentence(message: string): string {
  const line = message.split('\n', 1)[0] ?? '';
  return line.slice(0, 1).toLowerCase() + line.slice(1).replace(/[.:]$/, '');
}

class YamlReader {
  /** Set when reading on is pointless. */
  fatal: TextFault | undefined;
  readonly faults: TextFault[] = [];
  readonly #yaml: typeof Yaml;
  readonly #lines: LineIndex;
  readonly #text: string;
  readonly #document: Yaml.Document.Parsed | undefined;
  #nodes = 0;

  constructor(yaml: typeof Yaml, text: string, document: Yaml.Document.Parsed | undefined) {
    this.#yaml = yaml;
    this.#text = text;
    this.#document = document;
    this.#lines = new LineIndex(text);
  }

  read(node: unknown, near: number, depth: number): Tree {
    const at = this.#offset(node, near);
    if (depth > DEEPEST) return this.#stop({ at, message: `more than ${DEEPEST} levels of nesting` });
    if (++this.#nodes > MOST_NODES) return this.#stop({ at, message: 'too many values' });
    if (this.fatal !== undefined) return nothing(at);
    if (this.#yaml.isAlias(node)) {
      const target = this.#document === undefined ? undefined : node.resolve(this.#document);
      if (target === undefined) return this.#stop({ at, message: `there is no anchor \`&${node.source}\`` });
      return this.read(target, at, depth + 1);
    }
    if (this.#yaml.isMap(node)) return this.#map(node, at, depth);
    if (this.#yaml.isSeq(node)) {
      return { kind: 'list', at, items: node.items.map((item) => this.read(item, at, depth + 1)) };
    }
    return this.#yaml.isScalar(node) ? this.#scalar(node, at) : nothing(at);
  }

  #map(node: Yaml.YAMLMap, at: number, depth: number): Tree {
    const entries: Entry[] = [];
    const firsts = new Map<string, number>();
    for (const { key: keyNode, value } of node.items) {
      const keyAt = this.#offset(keyNode, at);
      if (!this.#yaml.isScalar(keyNode)) {
        this.#stop({ at: keyAt, message: 'a key must be plain text' });
        continue;
      }
      const key = this.#scalar(keyNode, keyAt).written;
      if (key === '<<') {
        this.#stop({ at: keyAt, message: 'merge keys (`<<`) are not supported: repeat the keys' });
        continue;
      }
      const first = firsts.get(key);
      if (first === undefined) firsts.set(key, keyAt);
      else this.faults.push(repeatedKey(key, keyAt, this.#lines.place(first)));
      entries.push({ key, keyAt, labels: undefined, value: this.read(value, keyAt, depth + 1) });
    }
    return { kind: 'map', at, entries };
  }

  #scalar(node: Yaml.Scalar, at: number): Extract<Tree, { kind: 'scalar' }> {
    const { value } = node;
    if (typeof value === 'string') return { kind: 'scalar', at, value, written: value };
    const written = node.source ?? String(value);
    if (typeof value === 'boolean' || typeof value === 'number')
      return { kind: 'scalar', at, value, written };
    return { kind: 'scalar', at, value: null, written };
  }

  #offset(node: unknown, near: number): number {
    const start = this.#yaml.isNode(node) ? node.range?.[0] : undefined;
    return Math.min(start ?? near, this.#text.length);
  }

  #stop(fault: TextFault): Tree {
    this.fatal ??= fault;
    return nothing(fault.at);
  }
}

function nothing(at: number): Tree {
  return { kind: 'scalar', at, value: null, written: '' };
}
