/** Owns `holdfast history`. */
import type { Run } from '../../api/wire.js';
import { lookOf, writeJson } from '../cli.js';
import { addExamples, addJson, TARGET_HELP, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { fetchTarget, mapBounded } from '../fetch.js';
import { renderHistory } from '../render/history.js';

const MOST_AT_ONCE = 8;

export function define({ command, run }: Definition): void {
  addJson(command).argument('<target>', TARGET_HELP);
  addExamples(command, [
    ['holdfast history web', 'every attempt to run a task of the job, with how it ended'],
    ['holdfast history web --json', 'the same for programs'],
  ]);
  run(async (cli, _options, [text = '']) => {
    const target = await fetchTarget(cli, text);
    const lists = await mapBounded(target.allocs, MOST_AT_ONCE, ({ ID }) =>
      cli.client.get<readonly Run[]>(`/v1/holdfast/allocation/${ID}/runs`, { task: target.task }),
    );
    const runs = lists.flat().sort((a, b) => a.IntendedAt.localeCompare(b.IntendedAt));
    if (cli.json) await writeJson(cli, runs);
    else await cli.output.write(`${renderHistory(runs, lookOf(cli)).join('\n')}\n`);
    return EXIT.ok;
  });
}
