/** Owns the files that say who may use the API: tokens, certificates, the group of the socket. Reads and checks them. */
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { contextOptions, type TlsSettings } from '../api/listener.js';
import { AgentError, describeError, describeSystemError } from '../base/errors.js';
import { hashToken, parseTokens, type KnownToken } from '../base/tokens.js';

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly client_ca?: string | undefined;
}

const WRITABLE_BY_OTHERS = 0o022;
const READABLE_BY_ALL = 0o004;
/** One that somebody chose by hand must not be guessed. */
const SHORTEST_TOKEN = 16;
const GROUPS_FILE = '/etc/group';

/** The tokens of a file, and the one of the environment, which may do everything. @throws AgentError bad_request */
export async function readTokens(
  file: string | undefined,
  fromEnv: string | undefined,
): Promise<readonly KnownToken[]> {
  const known = file === undefined ? [] : parseTokens(await readChecked(file, 'tokens file'), file);
  if (fromEnv === undefined || fromEnv === '') return known;
  if (fromEnv.length < SHORTEST_TOKEN) {
    throw new AgentError('bad_request', `HOLDFAST_AGENT_TOKEN needs at least ${SHORTEST_TOKEN} characters`);
  }
  return [...known, { name: 'HOLDFAST_AGENT_TOKEN', scope: 'exec', sha256: hashToken(fromEnv) }];
}

/** @throws AgentError bad_request when a file cannot be read, or key and certificate do not fit */
export async function readTls(files: TlsFiles): Promise<TlsSettings> {
  const tls: TlsSettings = {
    cert: await readChecked(files.cert, 'certificate'),
    key: await readChecked(files.key, 'key', READABLE_BY_ALL),
    clientCa: files.client_ca === undefined ? undefined : await readChecked(files.client_ca, 'client CA'),
  };
  try {
    createSecureContext(contextOptions(tls));
  } catch (cause) {
    throw new AgentError(
      'bad_request',
      `tls: ${files.cert} and ${files.key} cannot be used: ${describeError(cause)}`,
      { cause },
    );
  }
  return tls;
}

/** @param group a name of /etc/group, or a number. @throws AgentError bad_request */
export async function readGid(group: string | number): Promise<number> {
  if (typeof group === 'number') return group;
  const line = (await readFile(GROUPS_FILE, 'utf8')).split('\n').find((each) => each.startsWith(`${group}:`));
  const gid = Number(line?.split(':')[2] ?? NaN);
  if (Number.isSafeInteger(gid)) return gid;
  throw new AgentError(
    'bad_request',
    `socket_group: there is no group ${JSON.stringify(group)} in ${GROUPS_FILE}: make it, or give its number`,
  );
}

/** Reads a file that only the agent's user (and root) may change. */
async function readChecked(path: string, what: string, alsoForbidden = 0): Promise<string> {
  let text: string;
  let mode: number;
  try {
    ({ mode } = await stat(path));
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new AgentError('bad_request', `cannot read the ${what} ${path}: ${describeSystemError(cause)}`, {
      cause,
    });
  }
  if ((mode & WRITABLE_BY_OTHERS) !== 0) {
    throw new AgentError('bad_request', `the ${what} ${path} can be changed by others: chmod go-w ${path}`);
  }
  if ((mode & alsoForbidden) !== 0) {
    throw new AgentError('bad_request', `the ${what} ${path} can be read by everybody: chmod o-r ${path}`);
  }
  return text;
}
