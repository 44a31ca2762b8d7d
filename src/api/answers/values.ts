/**
 * Owns what the schemas of answers are made of, and their names in openapi.json. The schemas say of what is served
 * what wire/ says to the compiler; nothing checks an answer when it is sent, the contract suite does.
 */
import { z } from 'zod';

/** Every schema that stands in openapi.json, by its name there. */
export const ANSWER_SCHEMAS = z.registry<{ id: string }>();

/** Gives a schema its name in openapi.json. */
export function named<S extends z.ZodType>(id: string, schema: S): S {
  ANSWER_SCHEMAS.add(schema, { id });
  return schema;
}

export const text = z.string();
export const flag = z.boolean();
/** A place in the history of this host, or a count. */
export const count = z.int().nonnegative();
/** Nanoseconds and such: above 2^53 it is rounded, and no safe integer. */
export const nanoseconds = z.number();
export const amount = z.number();
/** RFC 3339. */
export const time = z.iso.datetime({ offset: true });
export const texts = z.record(z.string(), text);
export const nothing = z.null();
/** A list that is always empty. */
export const noList = z.array(z.never());

/** A schema for each key of T, those that may be missing too: a new key of a wire shape cannot be forgotten here. */
export type Shape<T> = { readonly [K in keyof Required<T>]: z.ZodType };
