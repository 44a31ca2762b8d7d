/**
 * Owns the text form of values in the store: JSON that also keeps `undefined`, because a record that is read must equal
 * the one that was written. What JSON would silently change (NaN, functions, dates) is refused instead.
 *
 * Written by hand and not as a replacer of JSON.stringify: each commit comes through here several times, and a replacer
 * is called for every key of every record.
 */

/** Opens an escaped string: no text that people write starts with NUL. */
const ESCAPE = '\u0000';
const UNDEFINED = `${ESCAPE}u`;
const STRING = `${ESCAPE}s`;
/** How ESCAPE looks within JSON text: without it there is nothing to undo. */
const ESCAPE_IN_JSON = '\\u0000';
const UNDEFINED_IN_JSON = JSON.stringify(UNDEFINED);
/** Text that JSON only puts quotes around: no control character, quote, backslash or surrogate. */
const PLAIN = /^[ !#-[\]-\ud7ff\ue000-\uffff]*$/;

/** Keys with their quotes and colon: nearly all are the field names of records. Those of users fill what is left. */
const LABELS = new Map<string, string>();
const MOST_LABELS = 1_000;

/** @throws TypeError for a value that would not come back as it is; RangeError for one that is within itself */
export function encodeJson(value: unknown): string {
  return encode(value, '');
}

/** @param key where `value` stands, for messages */
function encode(value: unknown, key: string | number): string {
  switch (typeof value) {
    case 'string':
      return quote(value.startsWith(ESCAPE) ? STRING + value : value);
    case 'undefined':
      return UNDEFINED_IN_JSON;
    case 'boolean':
      return value ? 'true' : 'false';
    case 'number':
      return String(finite(value, key));
    case 'object':
      if (value === null) return 'null';
      return Array.isArray(value) ? encodeArray(value) : encodeObject(plain(value, key));
    case 'bigint':
    case 'function':
    case 'symbol':
      throw foreign(value, key);
  }
}

function encodeArray(values: readonly unknown[]): string {
  let text = '[';
  // By index, and not by its iterator, which is slower.
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ',';
    text += encode(values[index], index);
  }
  return `${text}]`;
}

function encodeObject(values: Readonly<Record<string, unknown>>): string {
  let text = '{';
  for (const key of Object.keys(values)) {
    if (text.length > 1) text += ',';
    text += labelOf(key) + encode(values[key], key);
  }
  return `${text}}`;
}

function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

function labelOf(key: string): string {
  const known = LABELS.get(key);
  if (known !== undefined) return known;
  const label = `${JSON.stringify(key)}:`;
  if (LABELS.size < MOST_LABELS) LABELS.set(key, label);
  return label;
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
  const holder = value as Record<string, unknown>;
  for (const key of Object.keys(holder)) {
    const inner = holder[key];
    const bare = unescape(inner);
    if (bare !== inner) setOwn(holder, key, bare);
  }
  return value;
}

/**
 * A deep copy that shares nothing with `value` and is exactly what the store would give back.
 * @throws as `encodeJson`
 */
export function copyPlain<T>(value: T): T {
  return copy(value, '') as T;
}

function copy(value: unknown, key: string | number): unknown {
  switch (typeof value) {
    case 'string':
    case 'undefined':
    case 'boolean':
      return value;
    case 'number':
      // In JSON there is no -0.
      return finite(value, key) + 0;
    case 'object':
      if (value === null) return null;
      return Array.isArray(value) ? copyArray(value) : copyObject(plain(value, key));
    case 'bigint':
    case 'function':
    case 'symbol':
      throw foreign(value, key);
  }
}

function copyArray(values: readonly unknown[]): unknown[] {
  const copied: unknown[] = [];
  for (let index = 0; index < values.length; index++) copied.push(copy(values[index], index));
  return copied;
}

function copyObject(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copied: Record<string, unknown> = {};
  for (const key of Object.keys(values)) setOwn(copied, key, copy(values[key], key));
  return copied;
}

function setOwn(holder: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') holder[key] = value;
  // An assignment would change what it inherits from.
  else Object.defineProperty(holder, key, { value, writable: true, enumerable: true, configurable: true });
}

function finite(number: number, key: string | number): number {
  if (Number.isFinite(number)) return number;
  throw new TypeError(`${key} is ${number}, which cannot be stored`);
}

function plain(value: object, key: string | number): Readonly<Record<string, unknown>> {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return value as Readonly<Record<string, unknown>>;
  throw new TypeError(`${key} is no plain object and cannot be stored`);
}

function foreign(value: unknown, key: string | number): TypeError {
  return new TypeError(`${key} is a ${typeof value}, which cannot be stored`);
}
