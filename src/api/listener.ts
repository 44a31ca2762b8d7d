/** Owns how a listener is made: its limits against callers that are slow or many, and TLS. */
import { createServer, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { RequestListener } from 'node:http';
import type { SecureContextOptions, TlsOptions } from 'node:tls';

/** Certificates of a TCP listener, as PEM text. */
export interface TlsSettings {
  readonly cert: string;
  readonly key: string;
  /** With it, callers must show a certificate that it has signed. */
  readonly clientCa: string | undefined;
}

/** What a listener puts up with. */
export interface ListenerLimits {
  readonly headerBytes: number;
  /** A caller that sends its header or all of it in drops is cut off (408). */
  readonly headerMs: number;
  readonly requestMs: number;
  /** How late the two above may be noticed. */
  readonly checkEveryMs: number;
  readonly connections: number;
}

export const LISTENER_LIMITS: ListenerLimits = {
  // Node's own, said here because docs/api.md does.
  headerBytes: 16 * 1024,
  headerMs: 10_000,
  requestMs: 30_000,
  checkEveryMs: 2_000,
  // Far above what people, dashboards and the 256 readers of the feed need; each costs some 20 KiB.
  connections: 1024,
};

/** A connection without a request. Longer than what load balancers and Go's client keep one for. */
const KEEP_ALIVE_MS = 95_000;

/** A server that does not listen yet; its certificates can be changed. */
export interface ListenerServer {
  readonly server: Server;
  /** @throws when they do not fit together; the old ones stay */
  changeTls(tls: TlsSettings): void;
}

export function createListener(
  handler: RequestListener,
  tls: TlsSettings | undefined,
  limits: ListenerLimits = LISTENER_LIMITS,
): ListenerServer {
  const options: ServerOptions = {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headerMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkEveryMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  if (tls === undefined) {
    const server = createServer(options, handler);
    server.maxConnections = limits.connections;
    return { server, changeTls: () => undefined };
  }
  const server = createTlsServer({ ...options, ...tlsOptions(tls) }, handler);
  server.maxConnections = limits.connections;
  return {
    server,
    changeTls: (changed) => {
      server.setSecureContext(contextOptions(changed));
    },
  };
}

export function contextOptions({ cert, key, clientCa }: TlsSettings): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2', ...(clientCa === undefined ? {} : { ca: clientCa }) };
}

function tlsOptions(tls: TlsSettings): TlsOptions {
  const isMutual = tls.clientCa !== undefined;
  return { ...contextOptions(tls), requestCert: isMutual, rejectUnauthorized: isMutual };
}
