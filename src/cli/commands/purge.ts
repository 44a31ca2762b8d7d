/** Owns `holdfast purge`. */
import type { RegisterResponse } from '../../api/wire.js';
import { addExamples, flagOf, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchTarget, jobPath } from '../fetch.js';
import { sanitize } from '../render/text.js';
import { waitForEnd } from '../stop-watch.js';

export function define({ command, run }: Definition): void {
  command
    .argument('<job>', 'job id')
    .option('--no-shutdown-delay', 'do not wait shutdown_delay before the kill signal')
    .option('--detach', 'do not wait until it is gone');
  addExamples(command, [['holdfast purge web', 'stop the job, then forget it with its history and logs']]);
  run(async (cli, options, [text = '']) => {
    const { kind, jobId } = await fetchTarget(cli, text);
    if (kind !== 'job') {
      throw new CliError(EXIT.usage, `only a whole job can be purged: holdfast purge ${jobId}`);
    }
    const query = { purge: true, no_shutdown_delay: options['shutdownDelay'] === false };
    const { value } = await cli.client.ask<RegisterResponse>(jobPath(jobId), { method: 'DELETE', query });
    if (!flagOf(options, 'detach'))
      await waitForEnd(cli, jobId, { kind: 'purge' }, value.EvalCreateIndex - 1);
    await cli.output.write(`${flagOf(options, 'detach') ? 'purging' : 'purged'} ${sanitize(jobId)}\n`);
    return EXIT.ok;
  });
}
