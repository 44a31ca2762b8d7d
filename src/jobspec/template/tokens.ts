/** Owns the cutting of a template into text and actions, and of an action into tokens. */
import { TemplateFault } from './nodes.js';

export type Token =
  | {
      readonly kind: 'word' | 'field' | 'variable';
      readonly text: string;
      readonly at: number;
      readonly spaced: boolean;
    }
  | {
      readonly kind: 'literal';
      readonly value: string | number;
      readonly at: number;
      readonly spaced: boolean;
    }
  | { readonly kind: 'sign'; readonly text: string; readonly at: number; readonly spaced: boolean };

export type Piece =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'action';
      readonly tokens: readonly Token[];
      readonly at: number;
      readonly endAt: number;
    };

export interface Delimiters {
  readonly left: string;
  readonly right: string;
}

/** @throws TemplateFault */
export function cut(source: string, { left, right }: Delimiters): readonly Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  let trimNext = false;
  for (;;) {
    const open = source.indexOf(left, at);
    let text = source.slice(at, open === -1 ? undefined : open);
    if (trimNext) text = text.trimStart();
    if (open === -1) {
      if (text !== '') pieces.push({ kind: 'text', text });
      return pieces;
    }
    let inner = open + left.length;
    if (source[inner] === '-' && /\s/.test(source[inner + 1] ?? '')) {
      text = text.trimEnd();
      inner += 1;
    }
    if (text !== '') pieces.push({ kind: 'text', text });
    const action = readAction(source, inner, right, open);
    if (action.tokens !== undefined) {
      pieces.push({ kind: 'action', tokens: action.tokens, at: open, endAt: action.next });
    }
    trimNext = action.trims;
    at = action.next;
  }
}

interface ReadAction {
  /** Undefined for a comment. */
  readonly tokens: readonly Token[] | undefined;
  readonly trims: boolean;
  readonly next: number;
}

function readAction(source: string, from: number, right: string, open: number): ReadAction {
  const comment = /\s*\/\*/y;
  comment.lastIndex = from;
  if (comment.test(source)) {
    const end = source.indexOf('*/', comment.lastIndex);
    const close = end === -1 ? undefined : closing(source, skipSpace(source, end + 2), right);
    if (close === undefined) throw new TemplateFault('the comment has no end', open);
    return { tokens: undefined, ...close };
  }
  const tokens: Token[] = [];
  for (let at = from; ;) {
    const next = skipSpace(source, at);
    if (next >= source.length) throw new TemplateFault(`the action has no closing ${right}`, open);
    const close = closing(source, next, right, next > at);
    if (close !== undefined) return { tokens, ...close };
    const token = readToken(source, next, next > at);
    tokens.push(token);
    at = token.end;
  }
}

function skipSpace(source: string, from: number): number {
  let at = from;
  while (/\s/.test(source[at] ?? '')) at += 1;
  return at;
}

/** The end of an action, when it stands at `at`: the delimiter, perhaps with the mark that trims what follows. */
function closing(
  source: string,
  at: number,
  right: string,
  spaced = true,
): { readonly trims: boolean; readonly next: number } | undefined {
  if (source.startsWith(right, at)) return { trims: false, next: at + right.length };
  if (spaced && source[at] === '-' && source.startsWith(right, at + 1)) {
    return { trims: true, next: at + 1 + right.length };
  }
  return undefined;
}

const SHAPES: readonly (readonly ['word' | 'field' | 'variable' | 'number' | 'sign', RegExp])[] = [
  ['number', /[+-]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/y],
  ['word', /[A-Za-z_][A-Za-z0-9_]*/y],
  ['field', /\.[A-Za-z_][A-Za-z0-9_]*/y],
  ['variable', /\$[A-Za-z0-9_]*/y],
  ['sign', /:=|[=|(),.]/y],
];

function readToken(source: string, at: number, spaced: boolean): Token & { readonly end: number } {
  const quote = source[at];
  if (quote === '"' || quote === '`') return readString(source, at, quote, spaced);
  for (const [kind, shape] of SHAPES) {
    shape.lastIndex = at;
    const text = shape.exec(source)?.[0];
    if (text === undefined) continue;
    const end = at + text.length;
    if (kind === 'number') return { kind: 'literal', value: Number(text), at, spaced, end };
    return { kind, text, at, spaced, end };
  }
  throw new TemplateFault(`${JSON.stringify(quote)} cannot stand in an action`, at);
}

function readString(
  source: string,
  at: number,
  quote: string,
  spaced: boolean,
): Token & { readonly end: number } {
  const shape = quote === '`' ? /`([^`]*)`/y : /"(?:[^"\\\n]|\\[^\n])*"/y;
  shape.lastIndex = at;
  const match = shape.exec(source);
  if (match === null) throw new TemplateFault('the text has no closing quote', at);
  const end = at + match[0].length;
  if (quote === '`') return { kind: 'literal', value: match[1] ?? '', at, spaced, end };
  try {
    const value = JSON.parse(match[0].replaceAll('\t', '\\t')) as string;
    return { kind: 'literal', value, at, spaced, end };
  } catch {
    throw new TemplateFault(`${match[0]}: a text escapes with \\", \\\\, \\n, \\t or \\u0041`, at);
  }
}
