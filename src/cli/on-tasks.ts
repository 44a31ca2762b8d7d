/** Owns doing one thing to the running tasks of a target, alloc by alloc. */
import type { TaskState } from '../api/wire.js';
import { shortId } from '../base/ids.js';
import type { Cli } from './cli.js';
import { CliError, EXIT, type ExitCode } from './exit.js';
import { fetchTarget } from './fetch.js';
import { sanitize } from './render/text.js';
import { isLive, taskNames } from './target.js';

export interface TaskAction {
  /** Said before the names: `restarting`. */
  readonly did: string;
  /** True for a task that waits to be started again as well. */
  readonly alsoBackoff?: boolean;
  /** True for what is done to allocs as a whole: then a single task cannot be meant, and ended ones are. */
  readonly wholeAllocs?: boolean;
  /** @param task undefined = the running ones of the alloc. @throws CliError */
  readonly act: (allocId: string, task: string | undefined) => Promise<void>;
}

/** Exit code 3 when nothing of the target runs. @throws CliError */
export async function forRunningTasks(cli: Cli, text: string, action: TaskAction): Promise<ExitCode> {
  const target = await fetchTarget(cli, text);
  if (action.wholeAllocs === true && target.task !== undefined) {
    throw new CliError(EXIT.usage, `${JSON.stringify(text)} is one task: name its job, group or alloc`);
  }
  let done = 0;
  for (const alloc of target.allocs) {
    const names = taskNames(target, alloc);
    const running =
      action.wholeAllocs === true && isLive(alloc)
        ? names
        : names.filter((task) => isMeant(alloc.TaskStates[task], action));
    if (running.length === 0) continue;
    try {
      await action.act(alloc.ID, target.task);
    } catch (error) {
      // It ended since we looked.
      if (error instanceof CliError && error.exitCode === EXIT.notRunning) continue;
      throw error;
    }
    done += 1;
    await cli.output.write(
      `${action.did} ${sanitize(alloc.Name)} ${shortId(alloc.ID)}: ${sanitize(running.join(', '))}\n`,
    );
  }
  if (done > 0) return EXIT.ok;
  throw new CliError(
    EXIT.notRunning,
    `no task of ${JSON.stringify(text)} is running: "holdfast status ${text}" says why`,
  );
}

function isMeant(state: TaskState | undefined, { alsoBackoff = false }: TaskAction): boolean {
  return state?.State === 'running' || (alsoBackoff && state?.Holdfast.Phase === 'backoff');
}
