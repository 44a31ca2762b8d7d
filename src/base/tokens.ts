/**
 * Owns the tokens of the API: what one may do, how it is made, and how it is kept. A token is 256 random bits, so its
 * SHA-256 tells nothing about it: that is what is stored, never the token.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { AgentError } from './errors.js';

/** What a token may do; each may also do what stands before it. */
export const SCOPES = ['read', 'operate', 'exec'] as const;
export type Scope = (typeof SCOPES)[number];

/** A token as it is kept. */
export interface KnownToken {
  /** For people: whose it is. */
  readonly name: string;
  readonly scope: Scope;
  /** SHA-256 of the token, hexadecimal. */
  readonly sha256: string;
}

/** So that one is recognized where it should not be: in a log, in a repository. */
const PREFIX = 'hft_';
const TOKEN_BYTES = 32;
/** Each request is compared with all of them. */
const MOST_TOKENS = 1000;
const LINE = /^([A-Za-z0-9_.@-]{1,64})\s+([a-z]+)\s+sha256:([0-9a-f]{64})$/;

export function newToken(): string {
  return PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
}

export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** The known token that this is. Takes a time that tells nothing of the tokens that are known. */
export function findToken(given: string, known: readonly KnownToken[]): KnownToken | undefined {
  const digest = Buffer.from(hashToken(given), 'hex');
  let found: KnownToken | undefined;
  for (const token of known) {
    if (timingSafeEqual(digest, Buffer.from(token.sha256, 'hex'))) found = token;
  }
  return found;
}

/** True when a holder of `held` may do what asks for `needed`. */
export function covers(held: Scope, needed: Scope): boolean {
  return SCOPES.indexOf(held) >= SCOPES.indexOf(needed);
}

/** A line of a tokens file: `<name> <scope> sha256:<hex>`. */
export function formatTokenLine({ name, scope, sha256 }: KnownToken): string {
  return `${name} ${scope} sha256:${sha256}`;
}

/**
 * Reads a tokens file: a token a line, `#` begins a comment.
 * @param path for the error
 * @throws AgentError bad_request with the line at fault
 */
export function parseTokens(text: string, path: string): readonly KnownToken[] {
  const tokens: KnownToken[] = [];
  for (const [at, raw] of text.split('\n').entries()) {
    const line = raw.replace(/#.*$/, '').trim();
    if (line === '') continue;
    const fail = (why: string): never => {
      throw new AgentError('bad_request', `tokens file ${path}:${at + 1}: ${why}`);
    };
    // The line may hold a token by mistake: it is not repeated.
    const [, name, word, sha256] =
      LINE.exec(line) ?? fail('write NAME SCOPE sha256:HASH, as "holdfast token create" prints it');
    const scope = SCOPES.find((each) => each === word) ?? fail(`the scope is one of ${SCOPES.join(', ')}`);
    if (name === undefined || sha256 === undefined) continue;
    if (tokens.some((token) => token.name === name)) fail(`there is a token ${name} already`);
    if (tokens.length === MOST_TOKENS) fail(`at most ${MOST_TOKENS} tokens`);
    tokens.push({ name, scope, sha256 });
  }
  return tokens;
}
