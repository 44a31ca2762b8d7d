/**
 * Owns who may speak to a TCP listener, and what they may do: by a token, by the Host header (a page that resolves its
 * own name to this host must not get in) and by the Origin header. The unix socket is guarded by its file mode.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { AgentError } from '../base/errors.js';
import { covers, findToken, type KnownToken, type Scope } from '../base/tokens.js';

export interface TcpGuard {
  /** undefined: no token is asked for, which only `holdfast dev` on loopback does. */
  readonly tokens: readonly KnownToken[] | undefined;
  /** Names by which callers may address us, lower case, without port, besides IP addresses. */
  readonly names: ReadonlySet<string>;
  /** Callers must come from this host itself: only loopback names and addresses are taken. */
  readonly loopbackOnly: boolean;
}

export interface GuardSettings {
  /** Where it listens. */
  readonly host: string;
  readonly tokens: readonly KnownToken[];
  /** Names of this host, besides `localhost`. */
  readonly names: readonly string[];
  /** Without tokens, listen all the same when nobody but this host can reach it. */
  readonly allowOpen: boolean;
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

/**
 * The guard of a TCP listener.
 * @throws AgentError not_permitted when everybody could use it
 */
export function tcpGuard({ host, tokens, names, allowOpen }: GuardSettings): TcpGuard {
  const loopbackOnly = LOOPBACK.has(host);
  if (tokens.length === 0 && !(allowOpen && loopbackOnly)) {
    throw new AgentError(
      'not_permitted',
      `refusing to listen on ${host} without a token: make one with "holdfast token create" and name its file in tokens_file (or set HOLDFAST_AGENT_TOKEN); the unix socket needs none`,
    );
  }
  return {
    tokens: tokens.length === 0 ? undefined : tokens,
    names: new Set(['localhost', ...names.map((name) => name.toLowerCase())]),
    loopbackOnly,
  };
}

/** Why a request may not pass, or undefined when it may. Pure. @param needed what the route asks for */
export function decideRefusal(
  guard: TcpGuard,
  headers: IncomingHttpHeaders,
  needed: Scope,
): string | undefined {
  const host = headers.host?.toLowerCase();
  if (host === undefined || !isKnownHost(guard, withoutPort(host))) {
    return `Permission denied: unknown Host ${JSON.stringify((host ?? '').slice(0, 100))} (http_names in the config file adds names)`;
  }
  const { origin } = headers;
  if (origin !== undefined && hostOfOrigin(origin) !== host) {
    return `Permission denied: requests from the origin ${JSON.stringify(origin.slice(0, 100))} are not taken`;
  }
  if (guard.tokens === undefined) return undefined;
  const given = readToken(headers);
  if (given === undefined) {
    return 'Permission denied: a token is needed (X-Nomad-Token or Authorization: Bearer)';
  }
  const token = findToken(given, guard.tokens);
  if (token === undefined) return 'Permission denied: the token is not known';
  if (covers(token.scope, needed)) return undefined;
  return `Permission denied: the token ${token.name} may ${token.scope}, this needs ${needed}`;
}

/** Who asks, for records. Only of callers that may. @param guard undefined for the unix socket */
export function callerOf(guard: TcpGuard | undefined, headers: IncomingHttpHeaders): string {
  if (guard === undefined) return 'the unix socket';
  const given = readToken(headers);
  const token = given === undefined ? undefined : findToken(given, guard.tokens ?? []);
  return token === undefined ? 'TCP without a token' : `token ${token.name}`;
}

/** Rebinding needs a name: an address as Host comes from somebody who has typed it. */
function isKnownHost({ names, loopbackOnly }: TcpGuard, host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  if (isIP(bare) !== 0) return !loopbackOnly || LOOPBACK.has(bare);
  return names.has(host);
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, '');
}

function hostOfOrigin(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

function readToken(headers: IncomingHttpHeaders): string | undefined {
  const own = headers['x-nomad-token'];
  if (typeof own === 'string' && own !== '') return own;
  return /^Bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '')?.[1];
}
