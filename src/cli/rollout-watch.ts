/** Owns watching a job that was just registered until it is healthy, complete or failed. */
import type { Job, TaskEventRow } from '../api/wire.js';
import { sleep } from '../base/clock.js';
import { shortId } from '../base/ids.js';
import { lookOf, type Cli } from './cli.js';
import { CliError, EXIT, type ExitCode } from './exit.js';
import { jobPath } from './fetch.js';
import { watchJob, type JobUpdate } from './job-watch.js';
import { fetchTail } from './log-tail.js';
import { renderEvent, type EventWidths } from './render/events.js';
import { plural, sanitize } from './render/text.js';
import { judgeRollout, STABLE_MS, type Rollout } from './rollout.js';

const LOG_LINES_SHOWN = 10;
const EVENTS_SHOWN = 5;

/**
 * @param after index of the feed before the registration
 * @returns ok when it is healthy or complete, failed with the reason shown
 * @throws CliError
 */
export async function watchRollout(cli: Cli, jobId: string, after: number): Promise<ExitCode> {
  const spec = await cli.client.get<Job>(jobPath(jobId));
  const leave = new AbortController();
  const updates = watchJob(cli, jobId, after, leave.signal);
  const widths: EventWidths = { job: 0, task: 0 };
  const seen: TaskEventRow[] = [];
  /** The runs that are up, and since when nothing has changed about them. */
  let up: { readonly runs: string; readonly sinceMs: number } | undefined;
  try {
    let next = nextOf(updates);
    for (;;) {
      const leftMs = up === undefined ? Infinity : up.sinceMs + STABLE_MS - cli.clock.monoMs();
      if (leftMs <= 0) return await tellHealthy(cli, spec);
      const update = await withinMs(cli, next, leftMs);
      if (update === 'time is up') continue;
      if (update.done === true)
        throw new CliError(EXIT.unreachable, 'the feed of the daemon has ended: try again');
      next = nextOf(updates);
      await printEvents(cli, update.value, widths, seen);
      if (update.value.isPurged) throw new CliError(EXIT.failed, `job ${jobId} was purged while we watched`);
      if (!update.value.isCurrent) continue;
      const verdict = judgeRollout(spec, update.value.allocs);
      if (verdict.kind === 'failed') return await tellFailure(cli, jobId, verdict, seen);
      if (verdict.kind === 'complete') {
        await cli.output.write(`job ${sanitize(jobId)} is complete\n`);
        return EXIT.ok;
      }
      if (verdict.kind === 'waiting') up = undefined;
      else if (up?.runs !== verdict.runs) up = { runs: verdict.runs, sinceMs: cli.clock.monoMs() };
    }
  } finally {
    leave.abort();
    await updates.return();
  }
}

/** The next update. It may never be looked at: then its failure means nothing. */
function nextOf(updates: AsyncGenerator<JobUpdate, void, void>): Promise<IteratorResult<JobUpdate, void>> {
  const next = updates.next();
  next.catch(() => undefined);
  return next;
}

/** Waits for the next update, but not longer. */
async function withinMs<T>(cli: Cli, work: Promise<T>, ms: number): Promise<T | 'time is up'> {
  if (ms === Infinity) return work;
  const cancel = new AbortController();
  try {
    return await Promise.race([work, sleep(cli.clock, ms, cancel.signal).then(() => 'time is up' as const)]);
  } finally {
    cancel.abort();
  }
}

async function printEvents(
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

async function tellHealthy(cli: Cli, spec: Job): Promise<ExitCode> {
  const tasks = spec.TaskGroups.reduce((sum, group) => sum + group.Count * group.Tasks.length, 0);
  await cli.output.write(`job ${sanitize(spec.ID)} is healthy: ${plural(tasks, 'task')} running\n`);
  return EXIT.ok;
}

async function tellFailure(
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
  const widths: EventWidths = { job: 0, task: 0 };
  for (const event of events) await cli.output.write(`${renderEvent(event, widths, lookOf(cli))}\n`);
}
