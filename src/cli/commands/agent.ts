/** Owns `holdfast agent`: hands its options to the daemon. */
import { addExamples, type Definition } from '../command.js';
import { addAgentOptions, agentOptions } from '../agent-options.js';

export function define({ command, run }: Definition): void {
  addAgentOptions(command);
  addExamples(command, [
    [
      'holdfast agent',
      'in the foreground; SIGTERM: leave, tasks keep running; SIGHUP: read the config again',
    ],
    ['holdfast agent --data-dir ./data --log-level debug', 'with everything in ./data'],
  ]);
  run(async (_cli, options) => {
    const { runAgent } = await import('../../agent/main.js');
    return runAgent(agentOptions(options));
  });
}
