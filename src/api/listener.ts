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

/** Node's own, said here because docs/api.md does. */
const MOST_HEADER_BYTES = 16 * 1024;
/** A caller that sends its header or body in drops is cut off (408). */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** How late the two above may be noticed. */
const CHECK_EVERY_MS = 2_000;
/** A connection without a request. Longer than what load balancers and Go's client keep one for. */
const KEEP_ALIVE_MS = 95_000;
/** Far above what people, dashboards and the 256 readers of the feed need; each costs some 20 KiB. */
const MOST_CONNECTIONS = 1024;

const LIMITS: ServerOptions = {
  maxHeaderSize: MOST_HEADER_BYTES,
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_EVERY_MS,
  keepAliveTimeout: KEEP_ALIVE_MS,
};

/** A server that does not listen yet; its certificates can be changed. */
export interface ListenerServer {
  readonly server: Server;
  /** @throws when they do not fit together; the old ones stay */
  changeTls(tls: TlsSettings): void;
}

export function createListener(handler: RequestListener, tls: TlsSettings | undefined): ListenerServer {
  if (tls === undefined) {
    const server = createServer(LIMITS, handler);
    server.maxConnections = MOST_CONNECTIONS;
    return { server, changeTls: () => undefined };
  }
  const server = createTlsServer({ ...LIMITS, ...tlsOptions(tls) }, handler);
  server.maxConnections = MOST_CONNECTIONS;
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
