/** Owns watching the deployment of a job that was just registered until it has succeeded or failed. */
import type { Deployment, FeedAllocation, TaskEventRow } from '../api/wire.js';
import { shortId } from '../base/ids.js';
import type { Cli } from './cli.js';
import { CliError, EXIT, type ExitCode } from './exit.js';
import { jobPath } from './fetch.js';
import { nextOf, watchJob, withinMs } from './job-watch.js';
import type { EventWidths } from './render/events.js';
import { sanitize } from './render/text.js';
import { describeDeployment, explainFailure } from './rollout.js';
import { printEvents, tellFailure } from './rollout-words.js';

/** How often it is looked at while nothing happens to its allocs: deadlines pass without a word of theirs. */
const LOOK_MS = 500;

/** The deployment of that version, if it is to be watched. @throws CliError */
export async function findDeployment(
  cli: Cli,
  jobId: string,
  version: number,
): Promise<Deployment | undefined> {
  const newest = await cli.client.get<Deployment | null>(jobPath(jobId, '/deployment'));
  if (newest?.JobVersion !== version) return undefined;
  return isActive(newest) || newest.Status === 'failed' ? newest : undefined;
}

/**
 * Shows what happens to the tasks, and how far it is.
 * @param after index of the feed before the registration
 * @returns ok when it has succeeded, failed with the reason shown
 * @throws CliError
 */
export async function watchDeployment(cli: Cli, first: Deployment, after: number): Promise<ExitCode> {
  const jobId = first.JobID;
  const leave = new AbortController();
  const updates = watchJob(cli, jobId, after, leave.signal);
  const widths: EventWidths = { job: undefined, task: 0 };
  const seen: TaskEventRow[] = [];
  let deployment = first;
  let told = '';
  try {
    let next = nextOf(updates);
    for (;;) {
      const update = await withinMs(cli, next, LOOK_MS);
      if (update !== 'time is up') {
        if (update.done === true)
          throw new CliError(EXIT.unreachable, 'the feed of the daemon has ended: try again');
        next = nextOf(updates);
        await printEvents(cli, update.value, widths, seen);
        if (update.value.isPurged)
          throw new CliError(EXIT.failed, `job ${jobId} was purged while we watched`);
        if (!update.value.isCurrent) continue;
      }
      deployment = await readAgain(cli, deployment);
      const progress = describeDeployment(deployment);
      if (progress !== told)
        await cli.output.write(`deployment ${shortId(deployment.ID)}: ${sanitize(progress)}\n`);
      told = progress;
      if (isActive(deployment)) continue;
      if (deployment.Status !== 'successful') return await tellEnd(cli, deployment, seen);
      await cli.output.write(`job ${sanitize(jobId)} is healthy: ${deployment.StatusDescription}\n`);
      return EXIT.ok;
    }
  } finally {
    leave.abort();
    await updates.return();
  }
}

/** Why it did not succeed: what became of the alloc that was not well, and what is done about it. */
async function tellEnd(cli: Cli, deployment: Deployment, seen: readonly TaskEventRow[]): Promise<ExitCode> {
  const { ID, JobID, StatusDescription } = deployment;
  const allocs = await cli.client.get<readonly FeedAllocation[]>(jobPath(JobID, '/allocations'));
  const bad = allocs.find((alloc) => alloc.DeploymentID === ID && alloc.DeploymentStatus?.Healthy === false);
  if (bad === undefined) {
    const job = sanitize(JobID);
    cli.output.note(
      `holdfast: job ${job} failed: ${sanitize(StatusDescription)}; "holdfast status ${job}" shows all`,
    );
    return EXIT.failed;
  }
  const why = explainFailure(bad);
  const own = bad.ClientStatus === 'failed' ? why.reason : bad.DeploymentStatus?.Holdfast.Detail;
  const reason = [own ?? '', StatusDescription].filter((part) => part !== '').join('; ');
  return tellFailure(cli, JobID, { ...why, reason }, seen);
}

function isActive({ Status }: Deployment): boolean {
  return Status === 'running' || Status === 'paused';
}

/** As it is now; while the daemon is gone, as it was: the feed waits for it. */
async function readAgain(cli: Cli, known: Deployment): Promise<Deployment> {
  try {
    return await cli.client.get<Deployment>(`/v1/deployment/${known.ID}`);
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.unreachable) return known;
    throw error;
  }
}
