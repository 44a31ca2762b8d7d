/**
 * Owns who may speak to a listener. The unix socket is guarded by its file mode; a TCP listener by a token, by the Host
 * header (a page that resolves its own name to this host must not get in) and by the Origin header.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AgentError } from '../base/errors.js';

export interface TcpGuard {
  /** undefined: no token is asked for, which only a loopback listener may do. */
  readonly token: string | undefined;
  /** Names by which callers may address us, lower case, without port; undefined = any. */
  readonly hosts: ReadonlySet<string> | undefined;
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/**
 * The guard of a TCP listener.
 * @throws AgentError not_permitted when it would be open to the network without a token
 */
export function tcpGuard(host: string, token: string | undefined): TcpGuard {
  const loopback = LOOPBACK.has(host);
  if (!loopback && (token === undefined || token === '')) {
    throw new AgentError(
      'not_permitted',
      `refusing to listen on ${host} without a token: set one, or listen on 127.0.0.1 or ::1`,
    );
  }
  return { token: token === '' ? undefined : token, hosts: loopback ? new Set(LOOPBACK_NAMES) : undefined };
}

/** Why a request may not pass, or undefined when it may. Pure. */
export function decideRefusal(guard: TcpGuard, headers: IncomingHttpHeaders): string | undefined {
  const host = headers.host?.toLowerCase();
  if (guard.hosts !== undefined && (host === undefined || !guard.hosts.has(withoutPort(host)))) {
    return `Permission denied: unknown Host ${JSON.stringify(host ?? '')}`;
  }
  const { origin } = headers;
  if (origin !== undefined && hostOfOrigin(origin) !== host) {
    return `Permission denied: requests from the origin ${JSON.stringify(origin)} are not taken`;
  }
  if (guard.token === undefined || isSameText(readToken(headers) ?? '', guard.token)) return undefined;
  return readToken(headers) === undefined
    ? 'Permission denied: a token is needed (X-Nomad-Token or Authorization: Bearer)'
    : 'Permission denied: the token is not known';
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

/** Compares in a time that tells nothing, not even the length. */
function isSameText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}
