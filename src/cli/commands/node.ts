/** Owns `holdfast node status`, `node drain` and `node eligibility`. */
import type { HostStats } from '../../api/wire.js';
import { lookOf, writeJson, type Cli } from '../cli.js';
import { addExamples, addJson, flagOf, type Definition } from '../command.js';
import { addDrainOptions, drain, setEligibility } from '../drain.js';
import { CliError, EXIT, type ExitCode } from '../exit.js';
import { fetchNode } from '../fetch.js';
import { renderNode } from '../render/node.js';

export function define({ command, run }: Definition): void {
  addJson(command)
    .usage('status|drain|eligibility [options]')
    .argument('<what>', 'status, drain, eligibility');
  addDrainOptions(command);
  addExamples(command, [
    [
      'holdfast node status',
      'what this host can limit, what is missing and its cure, drivers, disk, warnings',
    ],
    ['holdfast node drain --enable --deadline 5m', 'stop everything gracefully; the same as holdfast drain'],
    ['holdfast node drain --disable', 'take new allocs again, and start what was stopped'],
    ['holdfast node eligibility --disable', 'take nothing new; what runs goes on'],
  ]);
  run(async (cli, options, [what = '']) => {
    switch (what) {
      case 'status':
        return showStatus(cli);
      case 'drain':
        if (flagOf(options, 'enable') === flagOf(options, 'disable')) {
          throw new CliError(EXIT.usage, 'holdfast node drain: give --enable or --disable');
        }
        return drain(cli, options);
      case 'eligibility':
        return setEligibility(cli, options);
      default:
        throw new CliError(
          EXIT.usage,
          `holdfast node ${JSON.stringify(what)}: there are "holdfast node status", "node drain" and "node eligibility"`,
        );
    }
  });
}

async function showStatus(cli: Cli): Promise<ExitCode> {
  const [node, stats] = await Promise.all([fetchNode(cli), cli.client.get<HostStats>('/v1/client/stats')]);
  if (cli.json) await writeJson(cli, { Node: node, Stats: stats });
  else await cli.output.write(`${renderNode(node, stats, lookOf(cli)).join('\n')}\n`);
  return EXIT.ok;
}
