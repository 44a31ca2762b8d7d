/** Owns what a template computes with: plain values, their truth, and how they are printed. Pure. */

/** Undefined: a key that is not there. */
export type Value =
  string | number | boolean | null | undefined | readonly Value[] | { readonly [key: string]: Value };

/** Longest text that a template may make, and most of it: a file of settings is far below, a slip or an attack above. */
export const LONGEST_TEXT = 8 * 1024 * 1024;

/** As Go has it: zero, empty and nothing are false. */
export function isTrue(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isMap(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}

export function isMap(value: Value): value is { readonly [key: string]: Value } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** A key of a map: its own only, never what every object inherits. */
export function keyOf(value: { readonly [key: string]: Value }, key: string): Value {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/** As Go prints it: `[a b]`, `map[a:1]`. */
export function print(value: Value): string {
  if (value === undefined) return '<no value>';
  if (value === null) return '<nil>';
  if (isList(value)) return `[${value.map(print).join(' ')}]`;
  if (isMap(value)) {
    const keys = Object.keys(value).sort();
    return `map[${keys.map((key) => `${key}:${print(value[key])}`).join(' ')}]`;
  }
  return String(value);
}

/** In words, for what is wrong. */
export function nameOfKind(value: Value): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'nil';
  if (isList(value)) return 'a list';
  if (isMap(value)) return 'a map';
  return typeof value === 'string' ? 'a text' : typeof value === 'number' ? 'a number' : 'a bool';
}

/** Keys sorted, as Go writes JSON, so that the same data gives the same file. */
export function toJson(value: Value, indent?: number): string {
  return JSON.stringify(
    value ?? null,
    (_, inner: Value) =>
      isMap(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
    indent,
  );
}
