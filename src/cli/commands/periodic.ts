/** Owns `holdfast periodic`. */
import type { PeriodicForceResponse } from '../../api/wire.js';
import { writeJson } from '../cli.js';
import { addExamples, addJson, flagOf, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { jobPath } from '../fetch.js';
import { sanitize } from '../render/text.js';

export function define({ command, run }: Definition): void {
  addJson(command)
    .argument('<action>', 'force: launch it now, whatever the clock says')
    .argument('<job>', 'a job with a `periodic` block')
    .option('--detach', 'do not watch it');
  addExamples(command, [['holdfast periodic force report', 'launch the job now, and watch it']]);
  run(async (cli, options, [action, jobId = '']) => {
    if (action !== 'force')
      throw new CliError(EXIT.usage, `there is only "holdfast periodic force JOB", not ${String(action)}`);
    const path = jobPath(jobId, '/periodic/force');
    const { value } = await cli.client.ask<PeriodicForceResponse>(path, { method: 'PUT', body: {} });
    if (cli.json) {
      await writeJson(cli, value);
      return EXIT.ok;
    }
    const child = value.Holdfast.JobID;
    await cli.output.write(`launched ${sanitize(child)}\n`);
    if (flagOf(options, 'detach')) return EXIT.ok;
    const { watchRollout } = await import('../rollout-watch.js');
    return watchRollout(cli, child, value.EvalCreateIndex - 1);
  });
}
