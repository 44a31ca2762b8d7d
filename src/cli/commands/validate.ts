/** Owns `holdfast validate`. */
import { addExamples, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { readJobFile } from '../job-file.js';
import { sanitize } from '../render/text.js';

export function define({ command, run }: Definition): void {
  command.argument('<file>', 'job file: .hcl, .nomad, .json, .yaml');
  addExamples(command, [['holdfast validate web.hcl', 'every fault with file:line:column; needs no daemon']]);
  run(async (cli, _options, [file = '']) => {
    const job = await readJobFile(cli, file);
    if (job === undefined) return EXIT.usage;
    await cli.output.write(`${sanitize(file)} is valid: job ${JSON.stringify(job.id)}\n`);
    return EXIT.ok;
  });
}
