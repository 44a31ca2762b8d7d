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

/** The deployment of that version, if it is to be watched; it may have failed, and be followed by another, already. @throws CliError */
export async function findDeployment(
  cli: Cli,
  jobId: string,
  version: number,
): Promise<Deployment | undefined> {
  const all = await cli.client.get<readonly Deployment[]>(jobPath(jobId, '/deployments'));
  return newestOf(all, version, (one) => isActive(one) || one.Status === 'failed');
}

/**
 * Shows what happens to the tasks, and how far it is. When it fails and the job goes back to a version that was good, that
 * is watched to its end too.
 * @param after index of the feed before the registration
 * @returns ok when it has succeeded, failed with the reason shown
 * @throws CliError
 */
export async function watchDeployment(cli: Cli, first: Deployment, after: number): Promise<ExitCode> {
  const job = sanitize(first.JobID);
  const leave = new AbortController();
  const updates = watchJob(cli, first.JobID, after, leave.signal);
  const seen: TaskEventRow[] = [];
  try {
    const follow = follower(cli, updates, seen);
    const ended = await follow(first);
    if (ended.Status === 'successful') {
      await cli.output.write(`job ${job} is healthy: ${ended.StatusDescription}\n`);
      return EXIT.ok;
    }
    await tellEnd(cli, ended, seen);
    const back = await findWayBack(cli, ended);
    if (back === undefined) return EXIT.failed;
    await cli.output.write(`job ${job} goes back: version ${back.JobVersion} is what was good before\n`);
    await tellBack(cli, await follow(back), seen);
    return EXIT.failed;
  } finally {
    leave.abort();
    await updates.return();
  }
}

/** Shows one deployment after the other, each to its end, with what happens to the tasks meanwhile. */
function follower(
  cli: Cli,
  updates: ReturnType<typeof watchJob>,
  seen: TaskEventRow[],
): (first: Deployment) => Promise<Deployment> {
  const widths: EventWidths = { job: undefined, task: 0 };
  let next = nextOf(updates);
  return async (first) => {
    let deployment = first;
    let told = '';
    for (;;) {
      const update = await withinMs(cli, next, LOOK_MS);
      if (update !== 'time is up') {
        if (update.done === true)
          throw new CliError(EXIT.unreachable, 'the feed of the daemon has ended: try again');
        next = nextOf(updates);
        await printEvents(cli, update.value, widths, seen);
        if (update.value.isPurged)
          throw new CliError(EXIT.failed, `job ${first.JobID} was purged while we watched`);
        if (!update.value.isCurrent) continue;
      }
      deployment = await readAgain(cli, deployment);
      const progress = describeDeployment(deployment);
      if (progress !== told)
        await cli.output.write(`deployment ${shortId(deployment.ID)}: ${sanitize(progress)}\n`);
      told = progress;
      if (!isActive(deployment)) return deployment;
    }
  };
}

/** The deployment that was made in the place of one that failed; undefined when nothing is made good by itself. */
async function findWayBack(cli: Cli, failed: Deployment): Promise<Deployment | undefined> {
  const reverts = Object.values(failed.TaskGroups).some(({ AutoRevert }) => AutoRevert);
  if (failed.Status !== 'failed' || !reverts) return undefined;
  const all = await cli.client.get<readonly Deployment[]>(jobPath(failed.JobID, '/deployments'));
  return newestOf(all, failed.JobVersion + 1);
}

function newestOf(
  all: readonly Deployment[],
  version: number,
  counts: (one: Deployment) => boolean = () => true,
): Deployment | undefined {
  const ofVersion = all.filter((one) => one.JobVersion === version);
  const newest = ofVersion.toSorted((a, b) => b.CreateIndex - a.CreateIndex)[0];
  return newest !== undefined && counts(newest) ? newest : undefined;
}

/** How the way back ended, and what is to be done when it did not end well. */
async function tellBack(cli: Cli, back: Deployment, seen: readonly TaskEventRow[]): Promise<void> {
  const job = sanitize(back.JobID);
  if (back.Status === 'successful') {
    await cli.output.write(`job ${job} is healthy again, as it was before: ${back.StatusDescription}\n`);
    return;
  }
  cli.output.note(`holdfast: job ${job} did not come back either, and nothing more is tried by itself:`);
  await tellEnd(cli, back, seen);
}

/** Why it did not succeed: what became of the alloc that was not well, and what is done about it. */
async function tellEnd(cli: Cli, deployment: Deployment, seen: readonly TaskEventRow[]): Promise<void> {
  const { ID, JobID, StatusDescription } = deployment;
  const allocs = await cli.client.get<readonly FeedAllocation[]>(jobPath(JobID, '/allocations'));
  const bad = allocs.find((alloc) => alloc.DeploymentID === ID && alloc.DeploymentStatus?.Healthy === false);
  if (bad === undefined) {
    const job = sanitize(JobID);
    cli.output.note(
      `holdfast: job ${job} failed: ${sanitize(StatusDescription)}; "holdfast status ${job}" shows all`,
    );
    return;
  }
  const why = explainFailure(bad);
  const own = bad.ClientStatus === 'failed' ? why.reason : bad.DeploymentStatus?.Holdfast.Detail;
  const reason = [own ?? '', StatusDescription].filter((part) => part !== '').join('; ');
  await tellFailure(cli, JobID, { ...why, reason }, seen);
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
