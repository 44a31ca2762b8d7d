/** Owns `holdfast restart`. */
import { addExamples, TARGET_HELP, type Definition } from '../command.js';
import { forRunningTasks } from '../on-tasks.js';

export function define({ command, run }: Definition): void {
  command.argument('<target>', TARGET_HELP);
  addExamples(command, [
    ['holdfast restart web', 'every running task of the job'],
    [
      'holdfast restart web/api/server',
      'one task, in all allocs of its group; one that backs off does not wait any longer',
    ],
  ]);
  run((cli, _options, [text = '']) =>
    forRunningTasks(cli, text, {
      did: 'restarting',
      alsoBackoff: true,
      act: async (allocId, task) => {
        const body = task === undefined ? {} : { TaskName: task };
        await cli.client.ask(`/v1/client/allocation/${allocId}/restart`, { method: 'PUT', body });
      },
    }),
  );
}
