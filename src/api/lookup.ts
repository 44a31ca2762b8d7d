/** Owns finding things by what callers give: full ids, unique prefixes of them, names. */
import { AgentError } from '../base/errors.js';
import { SHORTEST_PREFIX } from '../base/ids.js';
import type { AllocRecord, Indexed, JobRecord, StateStore } from '../state/store.js';

/** Candidates named in the error about an ambiguous prefix. */
const MOST_NAMED = 5;

/** @throws AgentError not_found */
export function findJob(store: StateStore, id: string): Indexed<JobRecord> {
  const job = store.getJob(id);
  if (job === undefined) throw new AgentError('not_found', `job ${JSON.stringify(id)} not found`);
  return job;
}

/** @throws AgentError not_found, ambiguous, bad_request */
export function findAlloc(store: StateStore, id: string): Indexed<AllocRecord> {
  const exact = store.getAlloc(id);
  if (exact !== undefined) return exact;
  return pickByPrefix('alloc', id, store.listAllocs(), ({ record }) => record.id);
}

/**
 * The one item whose id begins so.
 * @param what for the error
 * @throws AgentError not_found, ambiguous (naming candidates), bad_request (too short to be meant)
 */
export function pickByPrefix<T>(
  what: string,
  prefix: string,
  items: readonly T[],
  idOf: (item: T) => string,
): T {
  const digits = prefix.replaceAll('-', '').length;
  if (!/^[0-9a-f-]+$/.test(prefix)) {
    throw new AgentError('not_found', `${what} ${JSON.stringify(prefix.slice(0, 80))} not found`);
  }
  if (digits < SHORTEST_PREFIX) {
    throw new AgentError(
      'bad_request',
      `${what} ${JSON.stringify(prefix)}: give at least ${SHORTEST_PREFIX} hex digits of its id`,
    );
  }
  const found = items.filter((item) => idOf(item).startsWith(prefix));
  const [first] = found;
  if (first === undefined) throw new AgentError('not_found', `${what} ${JSON.stringify(prefix)} not found`);
  if (found.length === 1) return first;
  const named = found.slice(0, MOST_NAMED).map(idOf);
  throw new AgentError(
    'ambiguous',
    `${what} ${JSON.stringify(prefix)} could be ${named.join(', ')}${found.length > MOST_NAMED ? ', …' : ''}: give more digits`,
  );
}

/** The task that is meant: the only one, when none is named. @throws AgentError bad_request, not_found */
export function chooseTask(store: StateStore, alloc: AllocRecord, asked: string): string {
  const tasks = store.listTasks(alloc.id).map(({ task }) => task);
  const [only] = tasks;
  if (asked === '' && only !== undefined && tasks.length === 1) return only;
  if (asked === '') {
    throw new AgentError('bad_request', `query parameter task: choose one of ${tasks.join(', ')}`);
  }
  if (tasks.includes(asked)) return asked;
  throw new AgentError(
    'not_found',
    `alloc ${alloc.id} has no task ${JSON.stringify(asked)}: ${tasks.join(', ')}`,
  );
}
