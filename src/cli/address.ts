/** Owns where the CLI looks for the daemon: --address, else HOLDFAST_ADDR, else the local socket. */
import { accessSync } from 'node:fs';
import { defaultDataDir, socketPath } from '../base/paths.js';
import { CliError, EXIT } from './exit.js';

export type Address =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: boolean };

const DEFAULT_PORT = 4646;
const ROOT = 0;

/** Says an address as it can be given to --address. */
export function describeAddress(address: Address): string {
  if (address.kind === 'unix') return `unix://${address.path}`;
  return `${address.tls ? 'https' : 'http'}://${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`;
}

/**
 * Reads `unix:///path`, `/path`, `http://host:port`, `https://host:port` or `host:port`.
 * @throws CliError usage
 */
export function parseAddress(text: string): Address {
  if (text.startsWith('unix:')) return { kind: 'unix', path: text.replace(/^unix:(?:\/\/(?=\/))?/, '') };
  if (text.startsWith('/') || text.startsWith('./')) return { kind: 'unix', path: text };
  const parts = /^(?:https?:\/\/)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+))(?::(\d{1,5}))?\/?$/.exec(text);
  const host = parts?.[1] ?? parts?.[2];
  const port = Number(parts?.[3] ?? DEFAULT_PORT);
  if (host === undefined || port > 65_535) {
    throw new CliError(
      EXIT.usage,
      `address ${JSON.stringify(text)} is none: give unix:///path/holdfast.sock or http(s)://HOST:PORT`,
    );
  }
  return { kind: 'tcp', host, port, tls: text.startsWith('https://') };
}

/**
 * The address to use.
 * @param given value of --address
 * @throws CliError usage
 */
export function chooseAddress(
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  uid: number,
): Address {
  const asked = given ?? env['HOLDFAST_ADDR'];
  if (asked !== undefined && asked !== '') return parseAddress(asked);
  const own = socketPath(defaultDataDir(env, uid));
  // A user without a daemon of their own means the one of the system, if its socket lets them in.
  const system = socketPath(defaultDataDir(env, ROOT));
  return { kind: 'unix', path: uid !== ROOT && !isThere(own) && isThere(system) ? system : own };
}

function isThere(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch {
    // Not there, or not for us: the same to the one who asks, ignoring.
    return false;
  }
}
