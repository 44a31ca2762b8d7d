/**
 * Owns the text form of values in the store: JSON that also keeps `undefined`, because a record that is read must equal
 * the one that was written. What JSON would silently change (NaN, functions, dates) is refused instead.
 */

/** Opens an escaped string: no text that people write starts with NUL. */
const ESCAPE = '\u0000';
const UNDEFINED = `${ESCAPE}u`;
const STRING = `${ESCAPE}s`;
/** How ESCAPE looks within JSON text: without it there is nothing to undo. */
const ESCAPE_IN_JSON = '\\u0000';

/** @throws TypeError for a value that would not come back as it is */
export function encodeJson(value: unknown): string {
  return JSON.stringify(value, function (this: Readonly<Record<string, unknown>>, key: string) {
    // From the holder and not the second argument, which is after toJSON: a Date must be seen as one.
    return escape(this[key], key);
  });
}

function escape(raw: unknown, key: string): unknown {
  switch (typeof raw) {
    case 'undefined':
      return UNDEFINED;
    case 'string':
      return raw.startsWith(ESCAPE) ? STRING + raw : raw;
    case 'boolean':
      return raw;
    case 'number':
      if (!Number.isFinite(raw)) throw new TypeError(`${key} is ${raw}, which cannot be stored`);
      return raw;
    case 'object': {
      if (raw === null || Array.isArray(raw)) return raw;
      const prototype: unknown = Object.getPrototypeOf(raw);
      if (prototype === Object.prototype || prototype === null) return raw;
      throw new TypeError(`${key} is no plain object and cannot be stored`);
    }
    case 'bigint':
    case 'function':
    case 'symbol':
      throw new TypeError(`${key} is a ${typeof raw}, which cannot be stored`);
  }
}

/** @throws SyntaxError when the text is no JSON */
export function decodeJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return text.includes(ESCAPE_IN_JSON) ? unescape(value) : value;
}

/** Of a value that nobody else has yet: changed in place, which is several times faster than a copy. */
function unescape(value: unknown): unknown {
  if (typeof value === 'string') {
    if (value === UNDEFINED) return undefined;
    return value.startsWith(STRING) ? value.slice(STRING.length) : value;
  }
  if (typeof value !== 'object' || value === null) return value;
  for (const [key, inner] of Object.entries(value)) {
    const plain = unescape(inner);
    // Not by assignment: a key may be `__proto__`.
    if (plain !== inner)
      Object.defineProperty(value, key, {
        value: plain,
        writable: true,
        enumerable: true,
        configurable: true,
      });
  }
  return value;
}

/** A deep copy that shares nothing with `value` and is exactly what the store would give back. */
export function copyPlain<T>(value: T): T {
  return decodeJson(encodeJson(value)) as T;
}
