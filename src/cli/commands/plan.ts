/** Owns `holdfast plan`. */
import { jobSpecToWire, type PlanRequest, type PlanResponse } from '../../api/wire.js';
import { lookOf, writeJson } from '../cli.js';
import { addExamples, addJson, readCheckIndex, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { jobPath } from '../fetch.js';
import { readJobFile } from '../job-file.js';
import { renderPlan } from '../render/plan.js';
import { sanitize } from '../render/text.js';
import { addVariables, variableWords } from '../variable-options.js';

export function define({ command, run }: Definition): void {
  addVariables(addJson(command))
    .argument('<file>', 'job file: .hcl, .nomad, .json, .yaml')
    .option(
      '--check-index <n>',
      "fail unless the job's JobModifyIndex is n; 0 = unless there is no such job",
    );
  addExamples(command, [
    ['holdfast plan web.hcl', 'what differs from the job as it is, and what becomes of each task'],
    ['holdfast plan web.hcl --var-file prod.hcl', 'with values for its variables'],
    ['holdfast plan web.hcl --json', "the same as the API's JSON"],
  ]);
  run(async (cli, options, [file = '']) => {
    const checkIndex = readCheckIndex(options);
    const job = await readJobFile(cli, file, options);
    if (job === undefined) return EXIT.usage;
    const body: PlanRequest = { Job: jobSpecToWire(job), Diff: true };
    const { value: plan } = await cli.client.ask<PlanResponse>(jobPath(job.id, '/plan'), {
      method: 'PUT',
      body,
    });
    if (checkIndex !== undefined && checkIndex !== plan.JobModifyIndex) {
      throw new CliError(
        EXIT.failed,
        `job ${sanitize(job.id)} has changed: its index is ${plan.JobModifyIndex}, not ${checkIndex}; look at the plan without --check-index`,
      );
    }
    if (cli.json) await writeJson(cli, plan);
    else
      await cli.output.write(
        `${renderPlan({ jobId: job.id, plan, words: [...variableWords(options), file] }, lookOf(cli)).join('\n')}\n`,
      );
    if (plan.Warnings !== '') cli.output.note(`holdfast: ${sanitize(plan.Warnings)}`);
    return EXIT.ok;
  });
}
