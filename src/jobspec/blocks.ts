/**
 * Owns the walk over one block: which keys it may have, which of them Nomad has and holdfast has not yet, and how a
 * labelled block is written in each dialect. What each key means stands in the tables in schema/. A little
 * over 300 lines because the ways of writing a block share the keys that it may have.
 */
import { describeTree, down, nameOf, type Session, type Spot } from './session.js';
import type { Entry, MapNode, Tree } from './tree.js';
import { isEmpty, type Reader } from './values.js';
import { didYouMean } from './words.js';

/** What is said about a key for people; the reader decides. */
export interface KeyDoc {
  /** Name in Nomad's JSON. */
  readonly json: string;
  /** Type, in the words of docs/jobspec.md. */
  readonly type: string;
  readonly default?: string;
  readonly doc: string;
  /** True for keys that Nomad has not. */
  readonly ours?: boolean;
  readonly required?: boolean;
}

/** A key with one value. */
export interface Key<T> extends KeyDoc {
  readonly kind: 'one';
  readonly read: Reader<T>;
}

/** A block that has a label and may stand several times. */
export interface Many<T> extends KeyDoc {
  readonly kind: 'many';
  readonly read: (body: LabelledBody, session: Session) => T | null;
}

/** A block that has no label and may stand several times; a list of maps in JSON and, for more than one, in YAML. */
export interface Repeated<T> extends KeyDoc {
  readonly kind: 'repeated';
  readonly read: (body: MapNode, spot: Spot, session: Session) => T | null;
}

export type Keys = Readonly<Record<string, Key<unknown> | Many<unknown> | Repeated<unknown>>>;

/** A kind of block. */
export interface BlockSpec<K extends Keys> {
  /** Its name in HCL, for messages. */
  readonly name: string;
  readonly keys: K;
  /** Keys and blocks of Nomad that holdfast has not yet: name in HCL → name in JSON. */
  readonly notYet: Readonly<Record<string, string>>;
  /** Keys of Nomad's JSON that record what servers did and ask for nothing. */
  readonly records?: readonly string[];
}

/** One value with the place it was read from. */
export interface Found<T> {
  readonly value: T;
  readonly spot: Spot;
}

/** One block that was read. */
export interface BlockRead<K extends Keys> {
  readonly keys: Values<K>;
  /** False when a fault was told of it: then rules between its keys cannot be judged. */
  readonly clean: boolean;
  readonly path: string;
  /** Where its body stands. */
  readonly at: number;
}

/** What was read of a block; a key that is missing, null or faulty is undefined. */
export type Values<K extends Keys> = {
  readonly [P in keyof K]: K[P] extends Key<infer T>
    ? Found<T> | undefined
    : K[P] extends Many<infer T>
      ? readonly T[]
      : K[P] extends Repeated<infer T>
        ? readonly T[]
        : never;
};

/** A block with its label. */
export interface LabelledBody {
  readonly label: string;
  /** Where the label stands, or the key that should hold it. */
  readonly labelSpot: Spot;
  readonly body: MapNode;
  readonly path: string;
}

/** Reads the keys of a block and tells of those that cannot stand there. */
export function readBlock<K extends Keys>(
  spec: BlockSpec<K>,
  body: MapNode,
  path: string,
  session: Session,
): BlockRead<K> {
  const faultsBefore = session.faults.length;
  const isJson = session.dialect === 'json';
  const byName = new Map(Object.entries(spec.keys).map(([name, key]) => [isJson ? key.json : name, name]));
  const notYet = new Set(isJson ? Object.values(spec.notYet) : Object.keys(spec.notYet));
  const found = new Map<string, unknown>();
  const firsts = new Map<string, Entry>();
  for (const [name, key] of Object.entries(spec.keys)) if (key.kind !== 'one') found.set(name, []);
  for (const entry of body.entries) {
    if (entry.labels === undefined && isNull(entry.value)) continue;
    const name = byName.get(entry.key);
    const spot = { at: entry.keyAt, path: down(path, entry.key) };
    if (name === undefined) {
      if (isJson && spec.records?.includes(entry.key) === true) continue;
      if (!notYet.has(entry.key))
        session.fault(spot, ...unknownKey(spec, entry, [...byName.keys()], session));
      else if (entry.labels !== undefined || !isEmpty(entry.value))
        session.fault(spot, notYetText(entry, session));
      continue;
    }
    const key = spec.keys[name];
    if (key === undefined) continue;
    if (key.kind === 'many') {
      const list = found.get(name) as unknown[];
      for (const one of labelled(entry, path, session)) list.push(key.read(one, session));
    } else if (key.kind === 'repeated') {
      const list = found.get(name) as unknown[];
      for (const one of unlabelled(entry, spot, list.length, session))
        list.push(key.read(one.body, one.spot, session));
    } else if (!isRepeated(entry, firsts, spot, session)) {
      const value = readOne(key, entry, spot, session);
      if (value !== null) found.set(name, { value, spot: { at: entry.value.at, path: spot.path } });
    }
  }
  for (const [name, key] of Object.entries(spec.keys)) {
    if (key.required !== true || body.entries.some((entry) => isSet(entry, isJson ? key.json : name)))
      continue;
    session.fault({ at: body.at, path }, `${nounOf(spec.name)} needs \`${isJson ? key.json : name}\``);
  }
  const keys = Object.fromEntries(
    Object.keys(spec.keys).map((name) => [name, withoutFaulty(found.get(name))]),
  ) as Values<K>;
  return { keys, clean: session.faults.length === faultsBefore, path, at: body.at };
}

function withoutFaulty(value: unknown): unknown {
  return Array.isArray(value) ? value.filter((item) => item !== null) : value;
}

/** In JSON an empty string means: not set. */
function isSet({ key, value }: Entry, wanted: string): boolean {
  return key === wanted && !isNull(value) && !(value.kind === 'scalar' && value.value === '');
}

function isNull(node: Tree): boolean {
  return node.kind === 'scalar' && node.value === null;
}

/** Article and name of a block: `the job`, `block \`restart\``. */
function nounOf(block: string): string {
  return block === 'file' || block === 'job' || block === 'group' || block === 'task'
    ? `the ${block}`
    : `block \`${block}\``;
}

/** HCL lets a block stand twice where only one has a meaning. A plain key twice was found by the format's reader. */
function isRepeated(entry: Entry, firsts: Map<string, Entry>, spot: Spot, session: Session): boolean {
  const first = firsts.get(entry.key);
  if (first === undefined) firsts.set(entry.key, entry);
  if (first === undefined || (first.labels === undefined && entry.labels === undefined)) return false;
  const where = session.placeOf({ at: first.keyAt, path: spot.path });
  session.fault(spot, `block \`${entry.key}\` can stand once here: the first is at ${where}`);
  return true;
}

function readOne(key: Key<unknown>, entry: Entry, spot: Spot, session: Session): unknown {
  const [label] = entry.labels ?? [];
  if (label !== undefined) {
    return session.fault(
      { ...spot, at: label.at },
      `block \`${entry.key}\` has no label`,
      `remove ${JSON.stringify(label.text)}`,
    );
  }
  // In Nomad's JSON an empty string means: not set.
  if (session.dialect === 'json' && entry.value.kind === 'scalar' && entry.value.value === '') {
    return null;
  }
  const isBlock = entry.labels !== undefined;
  if (isBlock && !key.type.startsWith('block') && !key.type.startsWith('map')) {
    return session.fault(spot, `\`${entry.key}\` is a key, not a block`, `write \`${entry.key} = …\``);
  }
  return key.read(entry.value, { at: entry.value.at, path: spot.path }, session);
}

function notYetText(entry: Entry, session: Session): string {
  const isBlock = entry.labels !== undefined || (session.dialect === 'yaml' && entry.value.kind === 'map');
  return `${isBlock ? 'block' : 'key'} \`${entry.key}\` is not supported by holdfast yet`;
}

function unknownKey<K extends Keys>(
  spec: BlockSpec<K>,
  entry: Entry,
  names: readonly string[],
  session: Session,
): [string, string | undefined] {
  const what = entry.labels === undefined ? 'key' : 'block';
  const message = `${nounOf(spec.name)} has no ${what} \`${entry.key}\``;
  const home = session.homes.get(entry.key);
  const known = session.dialect === 'json' ? names : [...names, ...Object.keys(spec.notYet)];
  const close = didYouMean(entry.key, known);
  if (close !== undefined) return [message, close];
  return [message, home === undefined ? undefined : `\`${entry.key}\` belongs in ${nounOf(home)}`];
}

/** The blocks without label that one entry stands for. @param before how many of them stood earlier */
function unlabelled(
  entry: Entry,
  spot: Spot,
  before: number,
  session: Session,
): { readonly body: MapNode; readonly spot: Spot }[] {
  const { value, key, labels } = entry;
  const [label] = labels ?? [];
  if (label !== undefined) {
    session.fault(
      { ...spot, at: label.at },
      `block \`${key}\` has no label`,
      `remove ${JSON.stringify(label.text)}`,
    );
    return [];
  }
  if (session.dialect === 'hcl' && labels === undefined) {
    session.fault(spot, `\`${key}\` is a block`, `write \`${key} { … }\``);
    return [];
  }
  const items = value.kind === 'list' ? value.items : [value];
  if (value.kind !== 'list' && session.dialect === 'json') {
    session.wanted('a list of maps', value, { at: value.at, path: spot.path });
    return [];
  }
  return items.flatMap((item, index) => {
    const here = { at: item.at, path: `${spot.path}[${before + index}]` };
    if (item.kind === 'map') return [{ body: item, spot: here }];
    session.wanted('a map', item, here);
    return [];
  });
}

/** The labelled blocks that one entry stands for. */
export function labelled(entry: Entry, path: string, session: Session): LabelledBody[] {
  if (entry.labels !== undefined) return labelledHcl(entry, path, session);
  const { value, key } = entry;
  const here = down(path, key);
  const spot = { at: entry.keyAt, path: here };
  if (session.dialect === 'hcl') {
    session.fault(spot, `\`${key}\` is a block`, `write \`${key} "name" { … }\``);
    return [];
  }
  if (value.kind === 'list') {
    const field = session.dialect === 'json' ? 'Name' : 'name';
    return value.items.flatMap((item, index) => labelledItem(item, field, `${here}[${index}]`, session));
  }
  // Nomad's JSON has its volumes as a map, all else as lists.
  if (value.kind !== 'map' || (session.dialect === 'json' && key !== 'Volumes')) {
    const wanted = session.dialect === 'json' ? 'a list of maps' : 'a map of names';
    session.fault(
      { at: value.at, path: here },
      `\`${key}\`: expected ${wanted}, found ${describeTree(value)}`,
    );
    return [];
  }
  return value.entries.flatMap((inner) => {
    const innerPath = `${here}[${JSON.stringify(inner.key)}]`;
    if (inner.value.kind !== 'map') {
      const found = describeTree(inner.value);
      session.fault(
        { at: inner.value.at, path: innerPath },
        `${key} ${JSON.stringify(inner.key)}: expected a map, found ${found}`,
      );
      return [];
    }
    return [
      {
        label: inner.key,
        labelSpot: { at: inner.keyAt, path: innerPath },
        body: inner.value,
        path: innerPath,
      },
    ];
  });
}

function labelledHcl(entry: Entry, path: string, session: Session): LabelledBody[] {
  const spot = { at: entry.keyAt, path: down(path, entry.key) };
  const [label, extra] = entry.labels ?? [];
  if (label === undefined || extra !== undefined) {
    const hint = `write \`${entry.key} "name" { … }\``;
    session.fault(
      { ...spot, at: extra?.at ?? spot.at },
      `block \`${entry.key}\` needs one label, its name`,
      hint,
    );
    return [];
  }
  if (entry.value.kind !== 'map') return [];
  const here = `${spot.path}[${JSON.stringify(label.text)}]`;
  return [{ label: label.text, labelSpot: { at: label.at, path: here }, body: entry.value, path: here }];
}

function labelledItem(item: Tree, field: string, path: string, session: Session): LabelledBody[] {
  if (item.kind !== 'map') {
    session.fault(
      { at: item.at, path },
      `${nameOf({ at: 0, path })}: expected a map, found ${describeTree(item)}`,
    );
    return [];
  }
  const name = item.entries.find((entry) => entry.key === field);
  if (name?.value.kind !== 'scalar' || typeof name.value.value !== 'string') {
    session.fault(
      { at: name?.value.at ?? item.at, path },
      `${nameOf({ at: 0, path })} needs a string \`${field}\``,
    );
    return [];
  }
  const body = { ...item, entries: item.entries.filter((entry) => entry !== name) };
  return [{ label: name.value.value, labelSpot: { at: name.value.at, path: down(path, field) }, body, path }];
}
