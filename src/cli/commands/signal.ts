/** Owns `holdfast signal`. */
import { AgentError } from '../../base/errors.js';
import { signalName, signalNumber } from '../../base/signals.js';
import { addExamples, TARGET_HELP, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { forRunningTasks } from '../on-tasks.js';

export function define({ command, run }: Definition): void {
  command.argument('<signal>', 'SIGHUP, hup or 1').argument('<target>', TARGET_HELP);
  addExamples(command, [
    ['holdfast signal HUP web', 'every running task of the job'],
    ['holdfast signal SIGUSR1 7a1c9d2e', 'the tasks of one alloc'],
  ]);
  run((cli, _options, [given = '', text = '']) => {
    const signal = canonical(given);
    return forRunningTasks(cli, text, {
      did: `sent ${signal} to`,
      act: async (allocId, task) => {
        const body = { Signal: signal, ...(task === undefined ? {} : { Task: task }) };
        await cli.client.ask(`/v1/client/allocation/${allocId}/signal`, { method: 'PUT', body });
      },
    });
  });
}

function canonical(given: string): string {
  try {
    return signalName(signalNumber(given));
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    throw new CliError(EXIT.usage, error.message, { cause: error });
  }
}
