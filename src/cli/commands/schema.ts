/** Owns `holdfast schema`. */
import { writeJson } from '../cli.js';
import { addExamples, type Definition } from '../command.js';
import { EXIT } from '../exit.js';

export function define({ command, run }: Definition): void {
  addExamples(command, [
    ['holdfast schema > job.schema.json', 'for editors: # yaml-language-server: $schema=job.schema.json'],
  ]);
  run(async (cli) => {
    const { jobFileSchema } = await import('../../jobspec/json-schema.js');
    await writeJson(cli, jobFileSchema());
    return EXIT.ok;
  });
}
