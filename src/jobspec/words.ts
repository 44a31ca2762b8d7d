/** Owns how faults name what they found and what they wanted. */
import { nearest } from './nearest.js';

/** Longest piece of a user's text that a message repeats. */
const LONGEST_QUOTE = 40;

/** A user's word in quotes, with control characters escaped and its tail cut. */
export function quote(text: string): string {
  const cut = text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE - 1)}…` : text;
  return JSON.stringify(cut);
}

/** What a plain value is: `the string "x"`, `the number 5`, `a list`, `a map`, `true`, `null`. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'string') return `the string ${quote(value)}`;
  if (typeof value === 'number') return `the number ${value}`;
  if (typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? 'a list' : 'a map';
}

/** `did you mean …?` for a misspelt word. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  const close = nearest(word, candidates);
  return close === undefined ? undefined : `did you mean \`${close}\`?`;
}

/** `did you mean …?` for a misspelt word, else the words there are (when they are few). */
export function suggest(word: string, candidates: readonly string[], what: string): string | undefined {
  const close = didYouMean(word, candidates);
  if (close !== undefined) return close;
  if (candidates.length === 0 || candidates.length > MOST_LISTED) return undefined;
  return `${what}: ${candidates.join(', ')}`;
}

/** More words than this help nobody. */
const MOST_LISTED = 16;
