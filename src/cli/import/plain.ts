/** Owns looking into data that a parser gave us and that may be anything. */

export type PlainMap = Readonly<Record<string, unknown>>;

export function isMap(value: unknown): value is PlainMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Texts of a list; a single text counts as a list of one. */
export function textsOf(value: unknown): readonly string[] {
  if (Array.isArray(value))
    return value.filter((item) => item !== null && typeof item !== 'object').map(String);
  return typeof value === 'string' ? [value] : [];
}

/** A map of texts; what is no scalar is left out, and null is the empty text. */
export function textMapOf(value: unknown): Readonly<Record<string, string>> {
  if (!isMap(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => {
      if (item === null) return [[key, '']];
      const isScalar = typeof item === 'string' || typeof item === 'number' || typeof item === 'boolean';
      return isScalar ? [[key, String(item)]] : [];
    }),
  );
}
