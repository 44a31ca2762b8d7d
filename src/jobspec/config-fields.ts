/**
 * Owns the types of the values in drivers' config blocks, as zod types whose messages are ours. Values convert as HCL
 * does: a number or bool may stand for a string, and the text of one for the thing itself.
 */
import * as z from 'zod';
import { AgentError } from '../base/errors.js';
import { signalNumber } from '../base/signals.js';
import { DURATION, NUMBER_TEXT, TEXT, TRUTH, type Schema } from './shapes.js';
import { readDuration } from './units.js';
import { describeValue, quote } from './words.js';

type Reader<T> = (value: unknown) => { readonly value: T } | { readonly fault: string };

/**
 * A zod type around a plain function, so that every message is ours.
 * @param schema what it takes, for the JSON Schema of job files
 */
export function field<T>(read: Reader<T>, schema: Schema = {}) {
  return z
    .unknown()
    .meta({ ...schema })
    .transform((value, context): T => {
      const result = value === undefined ? { fault: 'it is missing, and required' } : read(value);
      if ('value' in result) return result.value;
      context.addIssue({ code: 'custom', message: result.fault });
      return z.NEVER;
    });
}

function wanted(what: string, value: unknown): { fault: string } {
  return { fault: `expected ${what}, found ${describeValue(value)}` };
}

function readText(value: unknown): { value: string } | { fault: string } {
  if (typeof value === 'string') {
    return value.includes('\0') ? { fault: 'a string here cannot hold a NUL byte' } : { value };
  }
  if (typeof value === 'number' || typeof value === 'boolean') return { value: String(value) };
  return wanted('a string', value);
}

export const text = () => field(readText, TEXT);

export const filledText = () =>
  field((value) => {
    const result = readText(value);
    return 'value' in result && result.value === '' ? { fault: 'it must not be empty' } : result;
  }, TEXT);

export const texts = () =>
  field(
    (value): { value: readonly string[] } | { fault: string } => {
      if (!Array.isArray(value)) return wanted('a list of strings', value);
      const list: string[] = [];
      for (const [index, item] of value.entries()) {
        const result = readText(item);
        if ('fault' in result) return { fault: `item ${index + 1}: ${result.fault}` };
        list.push(result.value);
      }
      return { value: list };
    },
    { type: 'array', items: TEXT },
  );

export const bool = () =>
  field((value) => {
    if (typeof value === 'boolean') return { value };
    if (value === 'true' || value === 'false') return { value: value === 'true' };
    return wanted('true or false', value);
  }, TRUTH);

export const whole = (least: number, most: number) =>
  field(
    (value) => {
      const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
      if (typeof number !== 'number' || !Number.isInteger(number)) return wanted('a whole number', value);
      if (number < least || number > most) {
        return { fault: `expected a whole number from ${least} to ${most}, found ${number}` };
      }
      return { value: number };
    },
    { anyOf: [{ type: 'integer', minimum: least, maximum: most }, NUMBER_TEXT] },
  );

export const durationMs = () =>
  field((value) => {
    if (value === 0) return { value: 0 };
    if (typeof value !== 'string') return wanted('a duration such as "1m30s"', value);
    const read = readDuration(value);
    return read.ok ? { value: read.value } : { fault: `bad duration ${quote(value)}: ${read.why}` };
  }, DURATION);

export const signal = () =>
  field((value) => {
    if (value === 0) return { value: undefined };
    if (typeof value !== 'string' && typeof value !== 'number') return wanted('a signal', value);
    try {
      return { value: signalNumber(String(value)) };
    } catch (error) {
      if (error instanceof AgentError) return { fault: error.message };
      throw error;
    }
  }, TEXT);

export const absolutePath = () =>
  field((value) => {
    const result = readText(value);
    if ('fault' in result || result.value.startsWith('/')) return result;
    return { fault: `expected an absolute path, found ${describeValue(value)}` };
  }, TEXT);

export const oneOf = <const T extends string>(...choices: readonly T[]) =>
  field(
    (value) => {
      const choice = choices.find((candidate) => candidate === value);
      return choice === undefined
        ? wanted(choices.map((one) => `"${one}"`).join(' or '), value)
        : { value: choice };
    },
    { enum: [...choices] },
  );
