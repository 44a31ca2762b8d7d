/** Owns `holdfast drain`. */
import { addExamples, type Definition } from '../command.js';
import { addDrainOptions, drain } from '../drain.js';

export function define({ command, run }: Definition): void {
  addDrainOptions(command);
  addExamples(command, [
    ['holdfast drain', 'stop everything gracefully; batch jobs may finish within the hour'],
    ['holdfast drain --deadline 5m', 'the same, within five minutes'],
    ['holdfast drain --force', 'stop everything now'],
    ['holdfast drain --disable', 'take new allocs again, and start what was stopped'],
  ]);
  run((cli, options) => drain(cli, options));
}
