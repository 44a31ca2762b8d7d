/** Owns what each reader of values takes, as a piece of JSON Schema: the schema of a job file is made of them. */
import type { BlockSpec, Keys } from './blocks.js';

/** A piece of JSON Schema. */
export type Schema = Readonly<Record<string, unknown>>;

/** What a reader takes: a value, or a block. */
export type Shape =
  | { readonly kind: 'value'; readonly schema: Schema }
  | { readonly kind: 'block'; readonly spec: BlockSpec<Keys> };

const SHAPES = new WeakMap<object, Shape>();

/** Notes what a reader takes, and gives it back. */
export function shaped<F extends object>(reader: F, schema: Schema): F {
  SHAPES.set(reader, { kind: 'value', schema });
  return reader;
}

/** Notes that a reader takes a block. */
export function shapedAsBlock<F extends object>(reader: F, spec: BlockSpec<Keys>): F {
  SHAPES.set(reader, { kind: 'block', spec });
  return reader;
}

/** What a reader takes; undefined for one that nobody has described. */
export function shapeOf(reader: object): Shape | undefined {
  return SHAPES.get(reader);
}

/** Text as YAML and HCL take it: numbers and bools may stand for their text. */
export const TEXT: Schema = { type: ['string', 'number', 'boolean'] };
export const TRUTH: Schema = { enum: [true, false, 'true', 'false'] };
export const DURATION: Schema = {
  anyOf: [
    { type: 'string', pattern: '^\\s*\\+?(?:0|(?:[0-9.]+(?:ns|us|µs|μs|ms|s|m|h))+)\\s*$' },
    { const: 0 },
  ],
  examples: ['1m30s'],
};
/** Text that a number may be written as. */
export const NUMBER_TEXT: Schema = { type: 'string', pattern: '^-?[0-9]+(?:\\.[0-9]+)?$' };
