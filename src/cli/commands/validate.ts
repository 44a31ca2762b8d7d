/** Owns `holdfast validate`. */
import { writeJson } from '../cli.js';
import { addExamples, addJson, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { checkJobFile, showFaults } from '../job-file.js';
import { sanitize } from '../render/text.js';
import { addVariables } from '../variable-options.js';

export function define({ command, run }: Definition): void {
  addVariables(addJson(command)).argument('<file>', 'job file: .hcl, .nomad, .json, .yaml');
  addExamples(command, [
    ['holdfast validate web.hcl', 'every fault with file:line:column; needs no daemon'],
    ['holdfast validate web.hcl --var port=8080', 'with a value for its variable'],
    ['holdfast validate web.hcl --json', 'the same for programs: Valid, JobID, Faults, Warnings'],
  ]);
  run(async (cli, options, [file = '']) => {
    const checked = await checkJobFile(file, options);
    const { result } = checked;
    if (cli.json) {
      await writeJson(cli, {
        Valid: result.ok,
        JobID: result.ok ? result.job.id : null,
        Faults: result.ok ? [] : result.faults.map(faultToJson),
        Warnings: result.ok ? result.warnings.map(faultToJson) : [],
      });
    } else {
      showFaults(cli, checked);
      if (result.ok)
        await cli.output.write(`${sanitize(file)} is valid: job ${JSON.stringify(result.job.id)}\n`);
    }
    return result.ok ? EXIT.ok : EXIT.usage;
  });
}

type Checked = Awaited<ReturnType<typeof checkJobFile>>['result'];
type Fault = Extract<Checked, { readonly ok: false }>['faults'][number];

function faultToJson(fault: Fault): Readonly<Record<string, string | number | null>> {
  return {
    File: fault.file,
    Line: fault.line ?? null,
    Column: fault.column ?? null,
    Path: fault.path,
    Message: fault.message,
    Hint: fault.hint ?? null,
  };
}
