/**
 * Owns the tie between a data directory and the host it was made on. The store of another host names tasks that may be
 * running there: an agent that took it up would start them a second time.
 */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { AgentError, describeError, isRecoverable } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { StateStore } from '../state/store.js';

/** Key in the host table. */
const HOST_KEY = 'machine';
const MACHINE_ID = /^[0-9a-f]{32}$/;

/**
 * What tells this host from others: derived from the machine id, which itself is not to be spread.
 * @returns undefined where there is none (some containers): then nothing can be compared
 */
export function readMachineMark(path = '/etc/machine-id'): string | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch {
    // Not there, or not to be read: as good as none.
    return undefined;
  }
  if (!MACHINE_ID.test(text)) return undefined;
  return createHmac('sha256', 'holdfast data directory').update(text).digest('hex');
}

/**
 * Ties a fresh store to this host, and refuses one that is tied to another.
 * @param host.mark what `readMachineMark` gave
 * @param host.accept take over the store of another host
 * @throws AgentError wrong_host
 */
export async function bindToHost(
  store: StateStore,
  logger: Logger,
  host: { readonly mark: string | undefined; readonly accept: boolean; readonly dataDir: string },
): Promise<void> {
  const { mark, accept, dataDir } = host;
  const known = store.getHost(HOST_KEY);
  if (mark === undefined || known === mark) return;
  if (known !== undefined) {
    if (!accept) throw wrongHost(dataDir);
    logger.warn({ data_dir: dataDir }, 'the data directory of another host is taken over');
  }
  try {
    await store.commit([{ kind: 'put_host', key: HOST_KEY, value: mark }], { whenRefused: 'reject' });
  } catch (error) {
    // A full disk must not keep the agent from its tasks: the next start ties it.
    if (!isRecoverable(error)) throw error;
    logger.warn({ error: describeError(error) }, 'cannot tie the data directory to this host, ignoring');
  }
}

function wrongHost(dataDir: string): AgentError {
  return new AgentError(
    'wrong_host',
    `${dataDir} was made on another host (the machine id differs), and its tasks may be running there: give this agent ` +
      `a data directory of its own (--data-dir), or, when no other agent uses this one, take it over with --accept-host`,
  );
}
