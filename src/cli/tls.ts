/** Owns the certificates of the CLI: which files it was given for https, and how a connection is made with them. */
import { readFileSync } from 'node:fs';
import { describeSystemError } from '../base/errors.js';
import { textOf, type Options } from './command.js';
import { CliError, EXIT } from './exit.js';

/** PEM text of what a connection over TLS needs besides what the system trusts. */
export interface TlsFiles {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** Options and their variables, as Nomad's CLI has them. */
const FILES = [
  { as: 'ca', option: 'caCert', flag: '--ca-cert', variable: 'HOLDFAST_CACERT' },
  { as: 'cert', option: 'clientCert', flag: '--client-cert', variable: 'HOLDFAST_CLIENT_CERT' },
  { as: 'key', option: 'clientKey', flag: '--client-key', variable: 'HOLDFAST_CLIENT_KEY' },
] as const;

/** @throws CliError usage when a file cannot be read */
export function readTlsFiles(options: Options, env: Readonly<Record<string, string | undefined>>): TlsFiles {
  const read: { -readonly [K in keyof TlsFiles]: TlsFiles[K] } = {};
  for (const { as, option, flag, variable } of FILES) {
    const path = textOf(options, option) ?? env[variable] ?? '';
    if (path === '') continue;
    try {
      read[as] = readFileSync(path, 'utf8');
    } catch (error) {
      throw new CliError(
        EXIT.usage,
        `cannot read ${path} (${flag}, ${variable}): ${describeSystemError(error)}`,
      );
    }
  }
  if ((read.cert === undefined) !== (read.key === undefined)) {
    throw new CliError(EXIT.usage, 'give --client-cert and --client-key together');
  }
  return read;
}

const ADVICE: ReadonlyMap<string, string> = new Map([
  ['SELF_SIGNED_CERT_IN_CHAIN', 'its CA is not known: name it with --ca-cert or HOLDFAST_CACERT'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'it has signed itself: name it with --ca-cert or HOLDFAST_CACERT'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'its CA is not known: name it with --ca-cert or HOLDFAST_CACERT'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'its CA is not known: name it with --ca-cert or HOLDFAST_CACERT'],
  ['CERT_HAS_EXPIRED', 'it has expired'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'it is for another name than the one in the address'],
]);
const WANTS_CERT = /certificate required|handshake failure|bad certificate/;

/** What to do about a connection over TLS that did not come about; undefined when it failed for another reason. */
export function describeTlsFailure(code: string | undefined, message: string): string | undefined {
  const why = ADVICE.get(code ?? '');
  if (why !== undefined) return `its certificate is not trusted: ${why}`;
  if (WANTS_CERT.test(message)) {
    return 'it wants a client certificate: give --client-cert and --client-key (or HOLDFAST_CLIENT_CERT and HOLDFAST_CLIENT_KEY)';
  }
  if (message.includes('wrong version number')) return 'it does not speak TLS: use http:// in the address';
  return undefined;
}
