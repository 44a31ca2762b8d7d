/** Owns one reading of a job file: its dialect, and the faults and warnings found so far, in any order. */
import type { LineIndex, Tree } from './tree.js';
import { describeValue } from './words.js';

/** How keys are spelt and values written: HCL and YAML share Nomad's snake_case, JSON is Nomad's API. */
export type Dialect = 'hcl' | 'yaml' | 'json';

/** What a fault is about. */
export interface Spot {
  /** Offset in the text, or NOWHERE. */
  readonly at: number;
  /** The way down from the top, as written: `job["a"].group["b"].count`, `Job.TaskGroups[0].Count`. */
  readonly path: string;
}

/** A fault or a warning at a spot. */
export interface Finding extends Spot {
  readonly message: string;
  readonly hint: string | undefined;
}

export class Session {
  readonly dialect: Dialect;
  /** The block in which each key of the dialect is at home, for hints. */
  readonly homes: ReadonlyMap<string, string>;
  readonly faults: Finding[] = [];
  readonly warnings: Finding[] = [];

  readonly #lines: LineIndex | undefined;

  /** @param lines of the text; undefined when there is none */
  constructor(dialect: Dialect, homes: ReadonlyMap<string, string>, lines: LineIndex | undefined) {
    this.dialect = dialect;
    this.homes = homes;
    this.#lines = lines;
  }

  /** Notes a fault. Gives null, which is what a reader of values returns then. */
  fault(spot: Spot, message: string, hint?: string): null {
    this.faults.push({ at: spot.at, path: spot.path, message, hint });
    return null;
  }

  warn(spot: Spot, message: string, hint?: string): void {
    this.warnings.push({ at: spot.at, path: spot.path, message, hint });
  }

  /** Where something stands, for a message about something else. */
  placeOf({ at, path }: Spot): string {
    const place = this.#lines?.place(at);
    return place === undefined ? path : `line ${place.line}, column ${place.column}`;
  }

  /**
   * A place within the text of a value, when the value stands in the file as it is (a heredoc, a plain string); else
   * undefined.
   */
  within({ at, path }: Spot, value: string, offset: number): Spot | undefined {
    const start = this.#lines?.find(value, at);
    return start === undefined ? undefined : { at: start + offset, path };
  }

  /** `expected X, found Y` at a value. */
  wanted(what: string, node: Tree, spot: Spot): null {
    return this.fault(spot, `${nameOf(spot)}: expected ${what}, found ${describeTree(node)}`);
  }
}

/** The last step of a path, for the beginning of a message. */
export function nameOf(spot: Spot): string {
  return `\`${/(?:^|\.)([^.[\]]+(?:\[\d+\])?)$/.exec(spot.path)?.[1] ?? spot.path}\``;
}

/** One step down by key. A key that is no plain word stands in brackets, so that a path can be read one way only. */
export function down(path: string, key: string): string {
  if (!/^[\w-]+$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path === '' ? key : `${path}.${key}`;
}

/** What stands there, in words. */
export function describeTree(node: Tree): string {
  if (node.kind === 'list') return 'a list';
  return node.kind === 'map' ? 'a map' : describeValue(node.value);
}
