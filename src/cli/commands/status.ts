/** Owns `holdfast status`. */
import {
  nsToMs,
  type Allocation,
  type CheckView,
  type Deployment,
  type Job,
  type TaskEventRow,
} from '../../api/wire.js';
import { lookOf, writeJson, type Cli } from '../cli.js';
import { addExamples, addJson, flagOf, TARGET_HELP, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchKnown, fetchNode, jobPath, mapBounded } from '../fetch.js';
import { fetchTail } from '../log-tail.js';
import { renderHost } from '../render/host.js';
import type { PsRow } from '../render/ps.js';
import { renderStatus, type AllocDetails, type Launch, type LogTail } from '../render/status.js';
import { fetchRows } from '../rows.js';
import { currentAllocs, isLive, resolveTarget, taskNames, type Target } from '../target.js';

const EVENTS_SHOWN = 8;
const LOG_LINES_SHOWN = 5;
/** Of what a periodic or parameterized job has launched. */
const LAUNCHES_SHOWN = 5;
/** Allocs whose logs are looked at: a sheet is no log viewer. */
const MOST_TAILS = 3;

export function define({ command, run }: Definition): void {
  addJson(command)
    .argument('[target]', TARGET_HELP)
    .option('-w, --watch', 'go on showing it until interrupted');
  addExamples(command, [
    ['holdfast status', 'is all well on this host'],
    ['holdfast status web', 'a job: verdict, reason, allocs, tasks, recent events, last log lines'],
    ['holdfast status web/api/server', 'one of its tasks'],
    ['holdfast status 7a1c9d2e', 'one alloc'],
    ['holdfast status web -w', 'the same, live'],
  ]);
  run(async (cli, options, [target]) => {
    const show = (to: Cli): Promise<void> => (target === undefined ? showHost(to) : showTarget(to, target));
    if (flagOf(options, 'watch')) {
      const { watch } = await import('../watch.js');
      return watch(cli, (before) => show(withBefore(cli, before)));
    }
    await show(cli);
    return EXIT.ok;
  });
}

/** Writes something before the sheet, in one go with it: else it would flicker. */
function withBefore(cli: Cli, before: string): Cli {
  const write: Cli['output']['write'] = (text) => cli.output.write(`${before}${text.toString()}`);
  return { ...cli, output: { ...cli.output, write } };
}

async function showHost(cli: Cli): Promise<void> {
  const [{ jobs, allocs }, node] = await Promise.all([fetchKnown(cli), fetchNode(cli)]);
  const current = currentAllocs(allocs);
  if (cli.json) {
    await writeJson(cli, { Node: node, Jobs: jobs, Allocations: current });
    return;
  }
  const isStopped = new Set(jobs.filter(({ Stop }) => Stop).map(({ ID }) => ID));
  const rows = await fetchRows(cli, current);
  const counted = rows.filter(({ alloc }) => !isStopped.has(alloc.JobID) || alloc.DesiredStatus === 'run');
  await cli.output.write(`${renderHost({ node, jobs, rows: counted }, lookOf(cli)).join('\n')}\n`);
}

async function showTarget(cli: Cli, text: string): Promise<void> {
  const known = await fetchKnown(cli);
  const target = resolveTarget(text, known);
  const allocs =
    target.kind === 'alloc' || target.kind === 'alloc-task' ? target.allocs : currentAllocs(target.allocs);
  if (cli.json) {
    const full = await mapBounded(allocs, 8, ({ ID }) => cli.client.get<Allocation>(`/v1/allocation/${ID}`));
    await writeJson(cli, { Job: await fetchJob(cli, target), Allocations: full });
    return;
  }
  const [job, deployments, launches, rows, events, logs, checks, details] = await Promise.all([
    fetchJob(cli, target),
    fetchDeployments(cli, target),
    target.kind === 'job' ? fetchLaunches(cli, target.jobId, known) : [],
    fetchRows(cli, allocs, target.task),
    fetchEvents(cli, target),
    fetchTails(cli, target, allocs),
    fetchChecks(cli, allocs),
    fetchDetails(cli, allocs),
  ]);
  const data = { target: text, job, deployments, launches, rows, events, logs, checks, details };
  await cli.output.write(`${renderStatus(data, lookOf(cli)).join('\n')}\n`);
}

async function fetchJob(cli: Cli, { jobId }: Target): Promise<Job | null> {
  try {
    return await cli.client.get<Job>(jobPath(jobId));
  } catch (error) {
    // Purged, and its allocs are on their way out.
    if (error instanceof CliError && error.exitCode === EXIT.notFound) return null;
    throw error;
  }
}

/** They say what the job is on its way to, and how it went before. */
async function fetchDeployments(cli: Cli, { jobId }: Target): Promise<readonly Deployment[]> {
  try {
    return await cli.client.get<readonly Deployment[]>(jobPath(jobId, '/deployments'));
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.notFound) return [];
    throw error;
  }
}

/** The newest jobs that it has launched. */
async function fetchLaunches(
  cli: Cli,
  jobId: string,
  { jobs, allocs }: Awaited<ReturnType<typeof fetchKnown>>,
): Promise<Launch[]> {
  const children = jobs
    .filter(({ ParentID }) => ParentID === jobId)
    .sort((a, b) => a.CreateIndex - b.CreateIndex)
    .slice(-LAUNCHES_SHOWN);
  const ids = new Set(children.map(({ ID }) => ID));
  const rows: readonly PsRow[] =
    ids.size === 0 ? [] : await fetchRows(cli, currentAllocs(allocs.filter(({ JobID }) => ids.has(JobID))));
  return children.map(({ ID, SubmitTime }) => ({
    id: ID,
    submittedAtMs: nsToMs(SubmitTime),
    rows: rows.filter(({ alloc }) => alloc.JobID === ID),
  }));
}

async function fetchEvents(cli: Cli, target: Target): Promise<readonly TaskEventRow[]> {
  const [only] = target.allocs;
  const isOne = target.allocs.length === 1 && only !== undefined;
  return cli.client.get<readonly TaskEventRow[]>('/v1/holdfast/events', {
    ...(isOne ? { alloc: only.ID } : { job: target.jobId }),
    task: target.task,
    limit: EVENTS_SHOWN,
  });
}

async function fetchChecks(
  cli: Cli,
  allocs: Target['allocs'],
): Promise<Readonly<Record<string, readonly CheckView[]>>> {
  const found = await mapBounded(allocs.filter(isLive).slice(-MOST_TAILS), MOST_TAILS, async ({ ID }) => {
    const checks = await cli.client.get<Readonly<Record<string, CheckView>>>(
      `/v1/client/allocation/${ID}/checks`,
    );
    return [ID, Object.values(checks)] as const;
  });
  return Object.fromEntries(found);
}

/** What a few live allocs have of this host. */
async function fetchDetails(
  cli: Cli,
  allocs: Target['allocs'],
): Promise<Readonly<Record<string, AllocDetails>>> {
  const found = await mapBounded(allocs.filter(isLive).slice(-MOST_TAILS), MOST_TAILS, async ({ ID }) => {
    return [ID, await cli.client.get<Allocation>(`/v1/allocation/${ID}`)] as const;
  });
  return Object.fromEntries(found);
}

async function fetchTails(cli: Cli, target: Target, allocs: Target['allocs']): Promise<LogTail[]> {
  const tails = await mapBounded(allocs.slice(-MOST_TAILS), MOST_TAILS, async (alloc) => {
    const found: LogTail[] = [];
    for (const task of taskNames(target, alloc)) {
      for (const stream of ['stdout', 'stderr'] as const) {
        const lines = await fetchTail(cli, { allocId: alloc.ID, task, stream }, LOG_LINES_SHOWN);
        if (lines.length > 0) found.push({ task, stream, lines });
      }
    }
    return found;
  });
  return tails.flat();
}
