/** Owns `holdfast dev`: hands its options to a daemon on a temporary directory. */
import { addExamples, type Definition } from '../command.js';
import { addVariables } from '../variable-options.js';
import { addAgentOptions, agentOptions } from '../agent-options.js';

export function define({ command, run }: Definition): void {
  addVariables(addAgentOptions(command, { isTemporary: true })).argument(
    '[jobfile]',
    'job file to run at once',
  );
  addExamples(command, [
    ['holdfast dev', 'a daemon to try things with; Ctrl-C stops its tasks and removes everything'],
    ['holdfast dev web.hcl', 'the same, with a job; ends when the job is over'],
  ]);
  run(async (_cli, options, [jobFile]) => {
    const { runDev } = await import('../../agent/dev.js');
    const { readInputs } = await import('../variables.js');
    const inputs = jobFile === undefined ? undefined : readInputs(options, jobFile, process.env);
    return runDev({ ...agentOptions(options), jobFile, inputs });
  });
}
