/** Owns the facts about tasks that the tables show, from several answers of the daemon. */
import type { Allocation, AllocListStub, AllocResourceUsage } from '../api/wire.js';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';
import { mapBounded } from './fetch.js';
import type { PsRow } from './render/ps.js';
import { isLive } from './target.js';

/** Requests under way at once. */
const MOST_AT_ONCE = 8;

/**
 * A row for each task of the allocs (or for `onlyTask`), in the order of the allocs.
 * @throws CliError
 */
export async function fetchRows(
  cli: Cli,
  allocs: readonly AllocListStub[],
  onlyTask?: string,
): Promise<PsRow[]> {
  const rows = await mapBounded(allocs, MOST_AT_ONCE, async (alloc): Promise<PsRow[]> => {
    const [usage, details] = await Promise.all([fetchUsage(cli, alloc), fetchDetails(cli, alloc)]);
    const tasks = Object.entries(alloc.TaskStates).filter(
      ([task]) => onlyTask === undefined || task === onlyTask,
    );
    if (tasks.length === 0) {
      return [{ alloc, task: undefined, state: undefined, restartsAllowed: undefined, usage: undefined }];
    }
    return tasks.map(([task, state]) => ({
      alloc,
      task,
      state,
      restartsAllowed: restartsAllowed(details, task),
      usage: usage?.Tasks[task],
    }));
  });
  return rows.flat();
}

async function fetchUsage(cli: Cli, alloc: AllocListStub): Promise<AllocResourceUsage | undefined> {
  const isRunning = Object.values(alloc.TaskStates).some(({ State }) => State === 'running');
  if (!isRunning) return undefined;
  return orGone(cli.client.get<AllocResourceUsage>(`/v1/client/allocation/${alloc.ID}/stats`));
}

/** Only who waits for a restart needs its policy. */
async function fetchDetails(cli: Cli, alloc: AllocListStub): Promise<Allocation | undefined> {
  const isWaiting = Object.values(alloc.TaskStates).some(({ Holdfast }) => Holdfast.Phase === 'backoff');
  if (!isWaiting || !isLive(alloc)) return undefined;
  return orGone(cli.client.get<Allocation>(`/v1/allocation/${alloc.ID}`));
}

/** What was there a moment ago may be gone now. */
async function orGone<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (
      error instanceof CliError &&
      (error.exitCode === EXIT.notFound || error.exitCode === EXIT.notRunning)
    ) {
      return undefined;
    }
    throw error;
  }
}

function restartsAllowed(details: Allocation | undefined, task: string): number | undefined {
  const group = details?.Job?.TaskGroups.find(({ Name }) => Name === details.TaskGroup);
  return group?.Tasks.find(({ Name }) => Name === task)?.RestartPolicy.Attempts;
}
