/** Owns `holdfast init`. */
import { writeFile } from 'node:fs/promises';
import { describeSystemError, errnoOf } from '../../base/errors.js';
import { addExamples, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';

import { sanitize, shellWord } from '../render/text.js';
import { exampleJob } from '../example-job.js';

const DEFAULT_FILE = 'job.hcl';

export function define({ command, run }: Definition): void {
  command.argument('[file]', `file to write, .hcl or .yaml (default: ${DEFAULT_FILE}); it must not be there`);
  addExamples(command, [
    ['holdfast init', 'write job.hcl: an example with comments, ready to run'],
    ['holdfast init web.yaml', 'the same in YAML'],
  ]);
  run(async (cli, _options, [file = DEFAULT_FILE]) => {
    const text = exampleJob(file);
    if (text === undefined) {
      throw new CliError(EXIT.usage, `${sanitize(file)}: name it .hcl, .nomad, .yaml or .yml`);
    }
    try {
      await writeFile(file, text, { flag: 'wx' });
    } catch (cause) {
      const why = errnoOf(cause) === 'EEXIST' ? 'it is there already' : describeSystemError(cause);
      throw new CliError(EXIT.failed, `cannot write ${sanitize(file)}: ${why}; give another name`, { cause });
    }
    const word = sanitize(shellWord(file));
    await cli.output.write(
      `wrote ${sanitize(file)}; next:\n  holdfast validate ${word}\n  holdfast dev ${word}    try it, with a daemon of its own\n  holdfast run ${word}\n`,
    );
    return EXIT.ok;
  });
}
