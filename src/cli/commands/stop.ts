/** Owns `holdfast stop`. */
import type { AllocStopResponse, RegisterResponse } from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import type { Cli } from '../cli.js';
import { addExamples, flagOf, TARGET_HELP, type Definition } from '../command.js';
import { CliError, EXIT, type ExitCode } from '../exit.js';
import { fetchTarget, jobPath } from '../fetch.js';
import type { Params } from '../http.js';
import { sanitize } from '../render/text.js';
import { waitForEnd } from '../stop-watch.js';
import { isLive, type Target } from '../target.js';

export function define({ command, run }: Definition): void {
  command
    .argument('<target>', TARGET_HELP)
    .option('--no-shutdown-delay', 'do not wait shutdown_delay before the kill signal')
    .option('--detach', 'do not wait for the end');
  addExamples(command, [
    ['holdfast stop web', 'stop the job gracefully, and wait until nothing is left'],
    ['holdfast stop 7a1c9d2e', 'stop one alloc; a new one takes its place'],
    ['holdfast stop web --no-shutdown-delay', 'at once'],
  ]);
  run(async (cli, options, [text = '']) => {
    const target = await fetchTarget(cli, text);
    const query = { no_shutdown_delay: options['shutdownDelay'] === false };
    const detach = flagOf(options, 'detach');
    switch (target.kind) {
      case 'job':
        return stopJob(cli, target, query, detach);
      case 'alloc':
        return stopAlloc(cli, target, query, detach);
      case 'group':
      case 'task':
      case 'alloc-task':
        throw new CliError(
          EXIT.usage,
          `a ${target.kind === 'group' ? 'group' : 'task'} cannot be stopped alone: stop its job (holdfast stop ${target.jobId}) or one of its allocs`,
        );
    }
  });
}

async function stopJob(cli: Cli, target: Target, query: Params, detach: boolean): Promise<ExitCode> {
  const live = target.allocs.filter(isLive);
  const { value } = await cli.client.ask<RegisterResponse>(jobPath(target.jobId), {
    method: 'DELETE',
    query,
  });
  if (live.length === 0) {
    const already = value.Holdfast.Unchanged ? ' already' : '';
    throw new CliError(
      EXIT.notRunning,
      `nothing of job ${JSON.stringify(target.jobId)} is running; it is${already} stopped`,
    );
  }
  if (!detach) await waitForEnd(cli, target.jobId, { kind: 'job' }, value.EvalCreateIndex - 1);
  await cli.output.write(`${detach ? 'stopping' : 'stopped'} ${sanitize(target.jobId)}\n`);
  return EXIT.ok;
}

async function stopAlloc(cli: Cli, target: Target, query: Params, detach: boolean): Promise<ExitCode> {
  const [alloc] = target.allocs;
  if (alloc === undefined || !isLive(alloc)) {
    throw new CliError(EXIT.notRunning, `alloc ${target.text} is over: there is nothing to stop`);
  }
  const { value } = await cli.client.ask<AllocStopResponse>(`/v1/allocation/${alloc.ID}/stop`, {
    method: 'PUT',
    query,
  });
  await cli.output.write(
    `stopping ${sanitize(alloc.Name)} ${shortId(alloc.ID)}; a new alloc takes its place\n`,
  );
  if (!detach) await waitForEnd(cli, target.jobId, { kind: 'alloc', allocId: alloc.ID }, value.Index - 1);
  return EXIT.ok;
}
