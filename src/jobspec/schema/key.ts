/** Owns how the tables of keys are written: one key, one block, labelled blocks, and the keys that several blocks share. */
import {
  readBlock,
  type BlockRead,
  type BlockSpec,
  type Key,
  type KeyDoc,
  type Keys,
  type LabelledBody,
  type Many,
  type Repeated,
} from '../blocks.js';
import type { Session, Spot } from '../session.js';
import { shaped, shapedAsBlock } from '../shapes.js';
import type { MapNode } from '../tree.js';
import { checkMetaKey, textMap, type Reader } from '../values.js';

export function one<T>(read: Reader<T>, doc: KeyDoc): Key<T> {
  return { kind: 'one', read, ...doc };
}

export function block<K extends Keys>(spec: BlockSpec<K>, doc: Omit<KeyDoc, 'type'>): Key<BlockRead<K>> {
  const read: Reader<BlockRead<K>> = (node, spot, session) =>
    node.kind === 'map' ? readBlock(spec, node, spot.path, session) : session.wanted('a block', node, spot);
  return { kind: 'one', type: 'block', read: shapedAsBlock(read, spec), ...doc };
}

/** A labelled block that was read. */
export interface Labelled<K extends Keys> extends LabelledBody {
  readonly read: BlockRead<K>;
}

export function many<K extends Keys>(spec: BlockSpec<K>, doc: Omit<KeyDoc, 'type'>): Many<Labelled<K>> {
  return {
    kind: 'many',
    type: 'labelled block',
    read: shapedAsBlock(
      (one: LabelledBody, session: Session) => ({
        ...one,
        read: readBlock(spec, one.body, one.path, session),
      }),
      spec,
    ),
    ...doc,
  };
}

/** Blocks without label, any number of them. */
export function repeated<K extends Keys>(
  spec: BlockSpec<K>,
  doc: Omit<KeyDoc, 'type'>,
): Repeated<BlockRead<K>> {
  return {
    kind: 'repeated',
    type: 'block, repeated',
    read: shapedAsBlock(
      (body: MapNode, { path }: Spot, session: Session) => readBlock(spec, body, path, session),
      spec,
    ),
    ...doc,
  };
}

/** Kept as it is: the schema of the driver judges it. */
export const untouched: Reader<MapNode> = (node, spot, session) =>
  node.kind === 'map' ? node : session.wanted('a block', node, spot);
shaped(untouched, { type: 'object' });

export function bounds({ least, most }: { readonly least: number; readonly most: number }): string {
  return `${least}…${most}`;
}

export const meta = one(textMap(checkMetaKey), {
  json: 'Meta',
  type: 'map of strings',
  doc: 'Facts of your own. They reach each task as `NOMAD_META_<key>` and `${meta.<key>}`; the nearest level wins.',
});
