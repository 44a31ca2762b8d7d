/** Owns what is said of a job on its way: its events, and, when it fails, why. */
import type { TaskEventRow } from '../api/wire.js';
import { shortId } from '../base/ids.js';
import { lookOf, type Cli } from './cli.js';
import { EXIT, type ExitCode } from './exit.js';
import type { JobUpdate } from './job-watch.js';
import { fetchTail } from './log-tail.js';
import { renderEvent, type EventWidths } from './render/events.js';
import { sanitize } from './render/text.js';
import type { Rollout } from './rollout.js';

const LOG_LINES_SHOWN = 10;
const EVENTS_SHOWN = 5;

/** Prints what is new, and keeps it in `seen`. */
export async function printEvents(
  cli: Cli,
  update: JobUpdate,
  widths: EventWidths,
  seen: TaskEventRow[],
): Promise<void> {
  for (const event of update.events) {
    seen.push(event);
    await cli.output.write(`${renderEvent(event, widths, lookOf(cli))}\n`);
  }
}

/** Says what failed, with the last words of its tasks. @returns the exit code */
export async function tellFailure(
  cli: Cli,
  jobId: string,
  failure: Extract<Rollout, { kind: 'failed' }>,
  seen: readonly TaskEventRow[],
): Promise<ExitCode> {
  const { alloc, reason } = failure;
  const tasks = failure.task === undefined ? Object.keys(alloc.TaskStates) : [failure.task];
  // Events that were shown while we watched need no repetition.
  if (seen.length === 0) await printPastEvents(cli, alloc.ID);
  for (const task of tasks) {
    for (const stream of ['stdout', 'stderr'] as const) {
      const lines = await fetchTail(cli, { allocId: alloc.ID, task, stream }, LOG_LINES_SHOWN);
      if (lines.length === 0) continue;
      await cli.output.write(`last lines of ${stream} of ${sanitize(task)}:\n`);
      await cli.output.write(lines.map((line) => `  ${sanitize(line)}\n`).join(''));
    }
  }
  const where = `${sanitize(alloc.Name)} ${shortId(alloc.ID)}${failure.task === undefined ? '' : ` task ${sanitize(failure.task)}`}`;
  cli.output.note(
    `holdfast: job ${sanitize(jobId)} failed: ${where}: ${sanitize(reason)}; "holdfast status ${sanitize(jobId)}" shows all`,
  );
  return EXIT.failed;
}

async function printPastEvents(cli: Cli, allocId: string): Promise<void> {
  const query = { alloc: allocId, limit: EVENTS_SHOWN };
  const events = await cli.client.get<readonly TaskEventRow[]>('/v1/holdfast/events', query);
  const widths: EventWidths = { job: undefined, task: 0 };
  for (const event of events) await cli.output.write(`${renderEvent(event, widths, lookOf(cli))}\n`);
}
