/** Owns watching a job that was just registered until it is healthy, complete or failed. */
import type { Job, TaskEventRow } from '../api/wire.js';
import type { Cli } from './cli.js';
import { CliError, EXIT, type ExitCode } from './exit.js';
import { jobPath } from './fetch.js';
import { nextOf, watchJob, withinMs } from './job-watch.js';
import type { EventWidths } from './render/events.js';
import { plural, sanitize } from './render/text.js';
import { judgeRollout, STABLE_MS } from './rollout.js';
import { printEvents, tellFailure } from './rollout-words.js';

/**
 * @param after index of the feed before the registration
 * @returns ok when it is healthy or complete, failed with the reason shown
 * @throws CliError
 */
export async function watchRollout(cli: Cli, jobId: string, after: number): Promise<ExitCode> {
  const spec = await cli.client.get<Job>(jobPath(jobId));
  const leave = new AbortController();
  const updates = watchJob(cli, jobId, after, leave.signal);
  const widths: EventWidths = { job: undefined, task: 0 };
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

async function tellHealthy(cli: Cli, spec: Job): Promise<ExitCode> {
  const tasks = spec.TaskGroups.reduce((sum, group) => sum + group.Count * group.Tasks.length, 0);
  await cli.output.write(`job ${sanitize(spec.ID)} is healthy: ${plural(tasks, 'task')} running\n`);
  return EXIT.ok;
}
