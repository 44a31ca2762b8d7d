/**
 * Owns the reading of single values: type, unit and bounds, with words for what is wrong. A reader returns null
 * exactly when it has told a fault. HCL and YAML convert between text, numbers and bools as HCL does; JSON, written by
 * programs, must have the type itself.
 */
import { AgentError } from '../base/errors.js';
import { signalName, signalNumber } from '../base/signals.js';
import { down, nameOf, type Session, type Spot } from './session.js';
import { DURATION, NUMBER_TEXT, shaped, TEXT, TRUTH } from './shapes.js';
import type { ScalarNode, Tree } from './tree.js';
import { readDuration, readMib, readNanoseconds } from './units.js';
import { didYouMean, quote } from './words.js';

export type Reader<T> = (node: Tree, spot: Spot, session: Session) => T | null;

/** A string without NUL. */
export const text: Reader<string> = (node, spot, session) => {
  if (node.kind !== 'scalar' || node.value === null) return session.wanted('a string', node, spot);
  if (typeof node.value !== 'string' && session.dialect === 'json')
    return session.wanted('a string', node, spot);
  if (node.written.includes('\0'))
    return session.fault(spot, `${nameOf(spot)}: a NUL byte cannot stand here`);
  return node.written;
};

/** A string that says something. JSON's empty string is read as absent before a reader sees it. */
export const filledText: Reader<string> = (node, spot, session) => {
  const value = text(node, spot, session);
  return value?.trim() === '' ? session.fault(spot, `${nameOf(spot)}: it must not be empty`) : value;
};

export const bool: Reader<boolean> = (node, spot, session) => {
  if (node.kind === 'scalar') {
    if (typeof node.value === 'boolean') return node.value;
    if (session.dialect !== 'json' && (node.value === 'true' || node.value === 'false')) {
      return node.value === 'true';
    }
  }
  return session.wanted('true or false', node, spot);
};

export interface Bounds {
  readonly least: number;
  readonly most: number;
}

/** A whole number within bounds. */
export function whole({ least, most }: Bounds): Reader<number> {
  const read: Reader<number> = (node, spot, session) => {
    const value = numberOf(node, session);
    if (value === undefined || !Number.isInteger(value)) return session.wanted('a whole number', node, spot);
    return (
      within(value, { least, most }) ??
      outside(`a whole number from ${least} to ${most}`, value, spot, session)
    );
  };
  return shaped(read, { anyOf: [{ type: 'integer', minimum: least, maximum: most }, NUMBER_TEXT] });
}

/** Any number within bounds. */
export function real({ least, most }: Bounds): Reader<number> {
  const read: Reader<number> = (node, spot, session) => {
    const value = numberOf(node, session);
    if (value === undefined) return session.wanted('a number', node, spot);
    return (
      within(value, { least, most }) ?? outside(`a number from ${least} to ${most}`, value, spot, session)
    );
  };
  return shaped(read, { anyOf: [{ type: 'number', minimum: least, maximum: most }, NUMBER_TEXT] });
}

function numberOf(node: Tree, { dialect }: Session): number | undefined {
  if (node.kind !== 'scalar') return undefined;
  if (typeof node.value === 'number') return Number.isFinite(node.value) ? node.value : undefined;
  const isText = typeof node.value === 'string' && dialect !== 'json';
  return isText && /^-?\d{1,15}(?:\.\d{1,15})?$/.test(node.written) ? Number(node.written) : undefined;
}

function within(value: number, { least, most }: Bounds): number | undefined {
  return value >= least && value <= most ? value : undefined;
}

function outside(wanted: string, value: number, spot: Spot, session: Session): null {
  return session.fault(spot, `${nameOf(spot)}: expected ${wanted}, found ${value}`);
}

/** Milliseconds: Go's notation, and in JSON a number of nanoseconds too. */
export const durationMs: Reader<number> = (node, spot, session) => {
  if (node.kind !== 'scalar') return session.wanted(A_DURATION, node, spot);
  if (typeof node.value === 'number' && (session.dialect === 'json' || node.value === 0)) {
    const read = readNanoseconds(node.value);
    return read.ok ? read.value : bad('duration', String(node.value), read.why, spot, session);
  }
  if (typeof node.value === 'number') return bad('duration', node.written, NO_UNIT, spot, session);
  if (typeof node.value !== 'string') return session.wanted(A_DURATION, node, spot);
  const read = readDuration(node.value);
  return read.ok ? read.value : bad('duration', quote(node.value), read.why, spot, session);
};

const A_DURATION = 'a duration such as "1m30s"';
const NO_UNIT = 'it has no unit: use units h, m, s and ms, such as "1m30s"';

/** MiB: a number, or in HCL and YAML a size with its unit. */
export function mib({ least, most }: Bounds): Reader<number> {
  const read: Reader<number> = (node, spot, session) => {
    const isText = node.kind === 'scalar' && typeof node.value === 'string' && session.dialect !== 'json';
    if (!isText) return whole({ least, most })(node, spot, session);
    const read = readMib(node.written);
    if (!read.ok) return bad('size', quote(node.written), read.why, spot, session);
    return (
      within(read.value, { least, most }) ?? outside(`${least} MiB to ${most} MiB`, read.value, spot, session)
    );
  };
  return shaped(read, { anyOf: [{ type: 'integer', minimum: least, maximum: most }, MIB_TEXT] });
}

function bad(what: string, found: string, why: string, spot: Spot, session: Session): null {
  return session.fault(spot, `${nameOf(spot)}: bad ${what} ${found}: ${why}`);
}

/** One of a few words. */
export function oneOf<const T extends string>(choices: readonly T[]): Reader<T> {
  const read: Reader<T> = (node, spot, session) => {
    const value = text(node, spot, session);
    if (value === null) return null;
    const choice = choices.find((candidate) => candidate === value);
    if (choice !== undefined) return choice;
    const list = choices.map((one) => `"${one}"`).join(', ');
    return session.fault(
      spot,
      `${nameOf(spot)}: expected one of ${list}, found ${quote(value)}`,
      didYouMean(value, choices),
    );
  };
  return shaped(read, { enum: [...choices] });
}

/** The usual name of a signal. */
export const signal: Reader<string> = (node, spot, session) => {
  const value = text(node, spot, session);
  if (value === null) return null;
  try {
    return signalName(signalNumber(value));
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return session.fault(spot, `${nameOf(spot)}: ${error.message}`);
  }
};

/** A list of strings, at least one. */
export const texts: Reader<readonly string[]> = (node, spot, session) => {
  if (node.kind !== 'list') return session.wanted('a list of strings', node, spot);
  const list = node.items.map((item, index) =>
    filledText(item, { at: item.at, path: `${spot.path}[${index}]` }, session),
  );
  if (list.length === 0) return session.fault(spot, `${nameOf(spot)}: the list is empty`);
  return list.every((item) => item !== null) ? list : null;
};

/** A list of strings; may be empty. */
export const listOfTexts: Reader<readonly string[]> = (node, spot, session) =>
  node.kind === 'list' && node.items.length === 0 ? [] : texts(node, spot, session);

/** A map of strings whose keys pass `checkKey` (which gives the reason when one does not). */
export function textMap(
  checkKey: (key: string) => string | undefined,
): Reader<Readonly<Record<string, string>>> {
  const read: Reader<Readonly<Record<string, string>>> = (node, spot, session) => {
    if (node.kind !== 'map') return session.wanted('a map of strings', node, spot);
    const read: [string, string][] = [];
    const before = session.faults.length;
    for (const { key, keyAt, labels, value } of node.entries) {
      const path = down(spot.path, key);
      const why = labels === undefined ? checkKey(key) : 'a block cannot stand here';
      if (why !== undefined) session.fault({ at: keyAt, path }, `\`${key}\`: ${why}`);
      const item = labels === undefined ? text(value, { at: value.at, path }, session) : null;
      if (item !== null) read.push([key, item]);
    }
    return session.faults.length === before ? Object.fromEntries(read) : null;
  };
  return shaped(read, { type: 'object', additionalProperties: TEXT });
}

/** Why a name cannot be that of an environment variable. */
export function checkEnvKey(key: string): string | undefined {
  if (key === '') return 'the name of a variable is empty';
  return /[=\0]/.test(key) ? 'the name of a variable cannot hold `=` or NUL' : undefined;
}

/** Why a key cannot stand in `meta`; it becomes part of the name of a variable. */
export function checkMetaKey(key: string): string | undefined {
  return key === '' || /[=\0]/.test(key) ? 'a key of `meta` cannot be empty or hold `=` or NUL' : undefined;
}

/** True for what JSON writes when nothing is asked for: null, "", false, 0, [], {}, and such all the way down. */
export function isEmpty(node: Tree): boolean {
  switch (node.kind) {
    case 'scalar':
      return isEmptyScalar(node);
    case 'list':
      return node.items.every(isEmpty);
    case 'map':
      return node.entries.every((entry) => entry.labels === undefined && isEmpty(entry.value));
  }
}

function isEmptyScalar({ value }: ScalarNode): boolean {
  return value === null || value === '' || value === false || value === 0;
}

const MIB_TEXT = { type: 'string', pattern: '^\\s*-?[0-9]+(?:\\.[0-9]+)?\\s*(?:MiB|GiB|TiB)?\\s*$' };

shaped(text, TEXT);
shaped(filledText, TEXT);
shaped(bool, TRUTH);
shaped(durationMs, DURATION);
shaped(signal, TEXT);
shaped(texts, { type: 'array', items: TEXT, minItems: 1 });
shaped(listOfTexts, { type: 'array', items: TEXT });
