/** Owns the looking up of users of this host. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { AgentError } from './errors.js';

export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** A directory service that does not answer must not hold up anybody for long. */
const LOOK_UP_MS = 5_000;

/**
 * The ids of a user given by name or number. Asks the host's name service when /etc/passwd does not know.
 * @throws AgentError not_found
 */
export async function lookUpUser(user: string): Promise<UserIds> {
  const known = findUser(await readFile('/etc/passwd', 'utf8').catch(() => ''), user);
  if (known !== undefined) return known;
  const asked = /^[^-:\n\0][^:\n\0]*$/.test(user)
    ? await promisify(execFile)('getent', ['passwd', user], { timeout: LOOK_UP_MS }).catch(() => undefined)
    : undefined;
  const found = findUser(asked?.stdout ?? '', user);
  if (found !== undefined) return found;
  if (/^\d{1,10}$/.test(user)) return { uid: Number(user), gid: Number(user) };
  throw new AgentError('not_found', `there is no user ${JSON.stringify(user)} on this host`);
}

/** Looks through lines of passwd. */
function findUser(passwd: string, user: string): UserIds | undefined {
  for (const line of passwd.split('\n')) {
    const [name, , uid, gid] = line.split(':');
    if (name === '' || uid === undefined || gid === undefined) continue;
    if (name === user || uid === user) return { uid: Number(uid), gid: Number(gid) };
  }
  return undefined;
}

/** The first name of a user id in lines of passwd. */
export function nameOfUser(passwd: string, uid: number): string | undefined {
  return passwd
    .split('\n')
    .map((line) => line.split(':'))
    .find((fields) => fields[0] !== '' && fields[2] === String(uid))?.[0];
}
