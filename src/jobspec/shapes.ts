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

/**
 * What a value is in Nomad's JSON, where nothing stands for anything else: text is text, a number is one, and a duration
 * may be nanoseconds.
 */
export function jsonValueOf(schema: Schema): Schema {
  if (schema === TEXT) return { type: 'string' };
  if (schema === TRUTH) return { type: 'boolean' };
  if (schema === DURATION) return { anyOf: [{ type: 'integer' }, ...(DURATION['anyOf'] as Schema[])] };
  const { anyOf, items, additionalProperties } = schema;
  const inner = (value: unknown): Schema => jsonValueOf(value as Schema);
  if (Array.isArray(anyOf)) {
    const plain = (anyOf as Schema[]).filter(
      ({ type, pattern }) => type !== 'string' || pattern === undefined,
    );
    return plain.length === 1 ? inner(plain[0]) : { ...schema, anyOf: plain.map(inner) };
  }
  return {
    ...schema,
    ...(typeof items === 'object' ? { items: inner(items) } : {}),
    ...(typeof additionalProperties === 'object'
      ? { additionalProperties: inner(additionalProperties) }
      : {}),
  };
}
