/** Owns watching the deployment of a job that was just registered until it has succeeded or failed. */
import type { Deployment } from '../api/wire.js';
import { sleep } from '../base/clock.js';
import { shortId } from '../base/ids.js';
import type { Cli } from './cli.js';
import { CliError, EXIT, type ExitCode } from './exit.js';
import { jobPath } from './fetch.js';
import { sanitize } from './render/text.js';

/** How long one question may wait for news; the daemon's answer must come before we take it for stuck. */
const WAIT = '15s';
const RETRY_MS = 500;
/** A daemon that is upgraded or restarted is back sooner. */
const GIVE_UP_MS = 60_000;

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

/** @returns ok when it has succeeded, failed with the reason shown. @throws CliError */
export async function watchDeployment(cli: Cli, first: Deployment): Promise<ExitCode> {
  let told = '';
  let deployment = first;
  for (let index = 0; ;) {
    const progress = describeDeployment(deployment);
    if (progress !== told)
      await cli.output.write(`deployment ${shortId(deployment.ID)}: ${sanitize(progress)}\n`);
    told = progress;
    if (deployment.Status === 'successful') {
      await cli.output.write(
        `job ${sanitize(deployment.JobID)} is healthy: ${deployment.StatusDescription}\n`,
      );
      return EXIT.ok;
    }
    if (!isActive(deployment)) {
      const job = sanitize(deployment.JobID);
      cli.output.note(
        `holdfast: job ${job} failed: ${sanitize(deployment.StatusDescription)}; "holdfast status ${job}" and "holdfast logs ${job}" show more`,
      );
      return EXIT.failed;
    }
    ({ value: deployment, index } = await ask(cli, deployment.ID, index));
  }
}

/** `site 1 of 3 healthy, 1 unhealthy`. */
export function describeDeployment({ TaskGroups, Status }: Deployment): string {
  const groups = Object.entries(TaskGroups).map(([name, group]) => {
    const bad = group.UnhealthyAllocs === 0 ? '' : `, ${group.UnhealthyAllocs} unhealthy`;
    return `${name} ${group.HealthyAllocs} of ${group.DesiredTotal} healthy${bad}`;
  });
  return [Status, ...groups].join(', ');
}

function isActive({ Status }: Deployment): boolean {
  return Status === 'running' || Status === 'paused';
}

/** Waits for news; a daemon that is gone for a moment is waited for. */
async function ask(
  cli: Cli,
  id: string,
  after: number,
): Promise<{ readonly value: Deployment; readonly index: number }> {
  const path = `/v1/deployment/${id}`;
  const untilMs = cli.clock.monoMs() + GIVE_UP_MS;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await cli.client.ask<Deployment>(path, { query: { index: after, wait: WAIT } });
    } catch (error) {
      const isGone = error instanceof CliError && error.exitCode === EXIT.unreachable;
      if (!isGone || cli.clock.monoMs() > untilMs) throw error;
      if (isFirst) cli.output.note('holdfast: the daemon went away; waiting for it to come back');
      await sleep(cli.clock, RETRY_MS);
    }
  }
}
