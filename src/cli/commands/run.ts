/** Owns `holdfast run`. */
import { jobSpecToWire, rfc3339ToMs, type Job, type JobJson, type RegisterResponse } from '../../api/wire.js';
import { adHocJob, type AdHocJob } from '../ad-hoc.js';
import type { Cli } from '../cli.js';
import {
  addExamples,
  flagOf,
  listOf,
  readCheckIndex,
  textOf,
  type Definition,
  type Options,
} from '../command.js';
import { CliError, EXIT, type ExitCode } from '../exit.js';
import { jobPath } from '../fetch.js';
import { sanitize } from '../render/text.js';
import { formatTime } from '../render/units.js';
import { addVariables } from '../variable-options.js';

export function define({ command, argv, run }: Definition): void {
  addVariables(command)
    .usage('[options] FILE | [options] -- COMMAND [ARGS...]')
    .argument('[words...]', 'a job file; or, after --, a command and its arguments')
    .option('--detach', 'do not watch until it is healthy or failed')
    .option('--check-index <n>', 'only if the index of the job is still n; 0 = only if there is no such job')
    .option('--name <name>', 'with --: id of the job (default: the name of the command)')
    .option('-m, --memory <mib>', 'with --: memory limit in MiB, or 256m, 1g')
    .option('-e, --env <key=value>', 'with --: environment variable, may be repeated', collect)
    .option('-u, --user <user>', 'with --: user to run it as')
    .option('--batch', 'with --: it is meant to end (default: a service, which is kept running)')
    .addHelpText('after', `\n${HEALTHY_HELP}`);
  addExamples(command, [
    ['holdfast run web.hcl', 'start the job, or update it; the same again does nothing'],
    ['holdfast run web.hcl --var port=8080', 'with a value for its variable'],
    ['holdfast run web.hcl --check-index 42', 'only if nobody has changed it meanwhile'],
    ['holdfast run --name api -m 256 -e PORT=80 -- node server.js', 'without a file'],
  ]);
  run(async (cli, options, words) => {
    const isAdHoc = argv.includes('--');
    if (isAdHoc && (options['var'] ?? options['varFile']) !== undefined)
      throw new CliError(EXIT.usage, '--var and --var-file go with a job file, not with "-- COMMAND"');
    const checkIndex = readCheckIndex(options);
    const job = isAdHoc ? adHocOf(words, options) : await jobOfFile(cli, words, options);
    return job === undefined ? EXIT.usage : register(cli, job, checkIndex, flagOf(options, 'detach'));
  });
}

const HEALTHY_HELP = `A service is healthy when all its tasks have run for a second without a restart, or, with an update block, when its
deployment is successful; a batch job when it is complete. If it fails, the exit code is 1, and the reason, the last events and the last log lines are shown.
Interrupting the watch does not stop the job.`;

/** Options that only mean something for a job without a file. */
const AD_HOC_ONLY = ['name', 'memory', 'user', 'batch'];

function collect(value: string, all: readonly string[] = []): string[] {
  return [...all, value];
}

function adHocOf(words: readonly string[], options: Options): AdHocJob {
  return adHocJob(words, {
    name: textOf(options, 'name'),
    memory: textOf(options, 'memory'),
    env: listOf(options, 'env'),
    user: textOf(options, 'user'),
    isBatch: flagOf(options, 'batch'),
    cwd: process.cwd(),
  });
}

/** @returns undefined when the file has faults, which are shown then. @throws CliError usage */
async function jobOfFile(cli: Cli, words: readonly string[], options: Options): Promise<JobJson | undefined> {
  const [file, ...more] = words;
  if (file === undefined)
    throw new CliError(EXIT.usage, 'what shall be run? give a job file, or "-- COMMAND"');
  if (more.length > 0) {
    throw new CliError(
      EXIT.usage,
      `one job file at a time; a command is given after "--": holdfast run -- ${words.join(' ')}`,
    );
  }
  const foreign = AD_HOC_ONLY.find((name) => options[name] !== undefined);
  if (foreign !== undefined || listOf(options, 'env').length > 0) {
    throw new CliError(
      EXIT.usage,
      `--${foreign ?? 'env'} goes with "-- COMMAND"; for a job file, write it in the file`,
    );
  }
  const { readJobFile } = await import('../job-file.js');
  const job = await readJobFile(cli, file, options);
  return job === undefined ? undefined : jobSpecToWire(job);
}

/** Such a job runs nothing itself: there is nothing to watch. */
async function tellPattern(cli: Cli, { ID, Periodic }: JobJson): Promise<ExitCode> {
  const id = sanitize(ID);
  if (Periodic === null) {
    await cli.output.write(`job ${id} runs when it is dispatched: holdfast dispatch ${id}\n`);
    return EXIT.ok;
  }
  const { Holdfast } = await cli.client.get<Job>(jobPath(ID));
  const nowMs = cli.clock.wallMs();
  const nextMs = Holdfast.NextLaunch === null ? undefined : rfc3339ToMs(Holdfast.NextLaunch);
  const next =
    nextMs === undefined
      ? 'is not launched by the clock: its periodic block is not enabled'
      : `runs by the clock, next at ${formatTime(nextMs, nowMs)}`;
  await cli.output.write(`job ${id} ${next}; at once: holdfast periodic force ${id}\n`);
  return EXIT.ok;
}

async function register(
  cli: Cli,
  job: JobJson | AdHocJob,
  checkIndex: number | undefined,
  detach: boolean,
): Promise<ExitCode> {
  const enforce = checkIndex === undefined ? {} : { EnforceIndex: true, JobModifyIndex: checkIndex };
  const body = { Job: job, ...enforce };
  const { value } = await cli.client.ask<RegisterResponse>('/v1/jobs', { method: 'PUT', body });
  const { Version, Unchanged } = value.Holdfast;
  const what = Unchanged ? `unchanged, version ${Version}` : `registered, version ${Version}`;
  await cli.output.write(`job ${sanitize(job.ID)} ${what} (index ${value.JobModifyIndex})\n`);
  if (value.Warnings !== '') cli.output.note(`holdfast: ${sanitize(value.Warnings)}`);
  if (detach) return EXIT.ok;
  if ('Periodic' in job && (job.Periodic !== null || job.ParameterizedJob !== null))
    return tellPattern(cli, job);
  const { findDeployment, watchDeployment } = await import('../deployment-watch.js');
  const deployment = await findDeployment(cli, job.ID, Version);
  if (deployment !== undefined) return watchDeployment(cli, deployment, value.EvalCreateIndex - 1);
  const { watchRollout } = await import('../rollout-watch.js');
  return watchRollout(cli, job.ID, value.EvalCreateIndex - 1);
}
