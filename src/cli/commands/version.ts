/** Owns `holdfast version`. */
import type { AgentSelf } from '../../api/wire.js';
import { readVersion } from '../version.js';
import { writeJson } from '../cli.js';
import { addExamples, addJson, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';

export function define({ command, run }: Definition): void {
  addJson(command);
  addExamples(command, [['holdfast version', 'of this program, and of the daemon if one runs']]);
  run(async (cli) => {
    const own = readVersion();
    let daemon: string | null = null;
    try {
      const self = await cli.client.get<AgentSelf>('/v1/agent/self');
      daemon = self.member.Tags['build'] ?? null;
    } catch (error) {
      // The version of this program is known without a daemon, ignoring.
      if (!(error instanceof CliError)) throw error;
    }
    if (cli.json) await writeJson(cli, { Version: own, Daemon: daemon });
    else await cli.output.write(`holdfast ${own}${daemon === null ? '' : ` (daemon ${daemon})`}\n`);
    return EXIT.ok;
  });
}
