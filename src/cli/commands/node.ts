/** Owns `holdfast node status`. */
import type { HostStats } from '../../api/wire.js';
import { lookOf, writeJson } from '../cli.js';
import { addExamples, addJson, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchNode } from '../fetch.js';
import { renderNode } from '../render/node.js';

export function define({ command, run }: Definition): void {
  addJson(command).usage('status [options]').argument('<what>', 'status');
  addExamples(command, [
    [
      'holdfast node status',
      'what this host can limit, what is missing and its cure, drivers, disk, warnings',
    ],
  ]);
  run(async (cli, _options, [what = '']) => {
    if (what !== 'status') {
      throw new CliError(
        EXIT.usage,
        `holdfast node ${JSON.stringify(what)}: there is only "holdfast node status"`,
      );
    }
    const [node, stats] = await Promise.all([fetchNode(cli), cli.client.get<HostStats>('/v1/client/stats')]);
    if (cli.json) await writeJson(cli, { Node: node, Stats: stats });
    else await cli.output.write(`${renderNode(node, stats, lookOf(cli)).join('\n')}\n`);
    return EXIT.ok;
  });
}
