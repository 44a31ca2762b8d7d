/** Owns `holdfast doctor`. */
import type { DoctorFinding } from '../../api/wire.js';
import { lookOf, writeJson } from '../cli.js';
import { addExamples, addJson, flagOf, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { renderFindings } from '../render/doctor.js';

export function define({ command, run }: Definition): void {
  addJson(command).option('--fix', 'cure what can be cured');
  addExamples(command, [
    ['holdfast doctor', 'list leftovers and inconsistencies; exit code 1 if there are any'],
    ['holdfast doctor --fix', 'clean up what certainly belongs to this daemon'],
  ]);
  run(async (cli, options) => {
    const method = flagOf(options, 'fix') ? 'PUT' : 'GET';
    const { value } = await cli.client.ask<readonly DoctorFinding[]>('/v1/holdfast/doctor', { method });
    if (cli.json) await writeJson(cli, value);
    else await cli.output.write(`${renderFindings(value, lookOf(cli)).join('\n')}\n`);
    return value.every(({ Outcome }) => Outcome === 'fixed') ? EXIT.ok : EXIT.failed;
  });
}
