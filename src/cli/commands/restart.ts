/** Owns `holdfast restart`. */
import { addExamples, TARGET_HELP, type Definition } from '../command.js';
import { forRunningTasks } from '../on-tasks.js';

export function define({ command, run }: Definition): void {
  command
    .argument('<target>', TARGET_HELP)
    .option('--all-tasks', 'start the whole of each alloc anew: what has ended runs again, in order');
  addExamples(command, [
    ['holdfast restart web', 'every running task of the job'],
    [
      'holdfast restart web/api/server',
      'one task, in all allocs of its group; one that backs off does not wait any longer',
    ],
    ['holdfast restart --all-tasks web', 'each alloc of the job from its beginning, prestart tasks first'],
  ]);
  run((cli, options, [text = '']) => {
    const allTasks = options['allTasks'] === true;
    return forRunningTasks(cli, text, {
      did: 'restarting',
      alsoBackoff: true,
      wholeAllocs: allTasks,
      act: async (allocId, task) => {
        const body = allTasks ? { AllTasks: true } : task === undefined ? {} : { TaskName: task };
        await cli.client.ask(`/v1/client/allocation/${allocId}/restart`, { method: 'PUT', body });
      },
    });
  });
}
