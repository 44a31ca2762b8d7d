/** Owns `holdfast gc`. */
import { z } from 'zod';
import { writeJson } from '../cli.js';
import { addExamples, addJson, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { plural } from '../render/text.js';

const Collected = z.object({ Collected: z.number() });

export function define({ command, run }: Definition): void {
  addJson(command);
  addExamples(command, [
    ['holdfast gc', 'forget dead allocs and finished launches, with their directories and logs'],
  ]);
  run(async (cli) => {
    const { value } = await cli.client.ask('/v1/system/gc', { method: 'PUT', body: {} });
    const answer = Collected.parse(value);
    if (cli.json) await writeJson(cli, answer);
    else await cli.output.write(`forgot ${plural(answer.Collected, 'alloc')}\n`);
    return EXIT.ok;
  });
}
