/** Owns `holdfast import`. */
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describeError, describeSystemError, errnoOf } from '../../base/errors.js';
import { nearest } from '../../jobspec/nearest.js';
import type { Cli } from '../cli.js';
import { addExamples, textOf, type Definition, type Options } from '../command.js';
import { CliError, EXIT, type ExitCode } from '../exit.js';
import type { Imported } from '../import/imported.js';
import { sanitize, shellWord } from '../render/text.js';

type Importer = (text: string, file: string) => Imported;

const IMPORTERS: Readonly<Record<string, () => Promise<Importer>>> = {
  pm2: async () => (await import('../import/pm2.js')).importPm2,
  supervisor: async () => (await import('../import/supervisor.js')).importSupervisor,
  systemd: async () => (await import('../import/systemd.js')).importSystemd,
  compose: async () => (await import('../import/compose.js')).importCompose,
  procfile: async () => (await import('../import/procfile.js')).importProcfile,
};

export function define({ command, run }: Definition): void {
  command
    .argument('<tool>', Object.keys(IMPORTERS).join(', '))
    .argument('<file>', 'its config')
    .option('-o, --output <file>', 'write the job file there (.hcl or .yaml) instead of to stdout')
    .option('--name <name>', 'id of the job (default: the name of the file)');
  addExamples(command, [
    [
      'holdfast import procfile Procfile -o web.hcl',
      'a job file; what could not be carried over is said on stderr',
    ],
    ['holdfast import pm2 ecosystem.json', 'to stdout'],
    ['holdfast import systemd /etc/systemd/system/api.service', 'a unit'],
    ['holdfast import supervisor /etc/supervisor/conf.d/api.conf', 'all programs of the file'],
    ['holdfast import compose compose.yaml --name shop', 'services that have a command'],
  ]);
  run(async (cli, options, [tool = '', file = '']) => convert(cli, tool, file, options));
}

async function convert(cli: Cli, tool: string, file: string, options: Options): Promise<ExitCode> {
  const load = Object.hasOwn(IMPORTERS, tool) ? IMPORTERS[tool] : undefined;
  if (load === undefined) {
    const names = Object.keys(IMPORTERS);
    const guess = nearest(tool, names);
    const advice = guess === undefined ? `there are ${names.join(', ')}` : `did you mean ${guess}?`;
    throw new CliError(EXIT.usage, `cannot import from ${JSON.stringify(tool)}: ${advice}`);
  }
  refusePrograms(tool, file);
  const text = await readConfig(file);
  const imported = readAs(await load(), text, file, tool);
  const [{ safeName }, { writeJob, notesOnType }, { parseJobFile, renderFaults }] = await Promise.all([
    import('../import/imported.js'),
    import('../import/write-job.js'),
    import('../../jobspec/parse.js'),
  ]);
  if (imported.groups.length === 0) {
    for (const note of imported.notes) cli.output.note(`  ${sanitize(note)}`);
    throw new CliError(EXIT.failed, `nothing in ${sanitize(file)} can be run: is it a config of ${tool}?`);
  }
  const output = textOf(options, 'output');
  const isYaml = output !== undefined && /\.ya?ml$/i.test(output);
  const jobId = safeName(textOf(options, 'name') ?? basename(file).replace(/\.[^.]+$/, ''));
  const title = `Made from ${basename(file).replaceAll(/[^\x20-\x7e]/g, '?')} by "holdfast import ${tool}".`;
  const job = writeJob(imported, jobId, title, isYaml ? 'yaml' : 'hcl');
  const checked = parseJobFile(job, `${jobId}.${isYaml ? 'yaml' : 'hcl'}`);
  await write(cli, job, output);
  const notes = [...imported.notes, ...notesOnType(imported)];
  if (notes.length > 0) {
    cli.output.note('not carried over, or different here:');
    for (const note of notes) cli.output.note(`  ${sanitize(note)}`);
  }
  if (!checked.ok) {
    cli.output.note(renderFaults(checked.faults, job).trimEnd());
    throw new CliError(EXIT.failed, 'the job file needs your hand: see the faults above');
  }
  if (checked.warnings.length > 0) cli.output.note(renderFaults(checked.warnings, job).trimEnd());
  return EXIT.ok;
}

/** A config that is a program would have to be run to be read. */
function refusePrograms(tool: string, file: string): void {
  if (tool !== 'pm2' || !/\.[cm]?[jt]s$/.test(file)) return;
  throw new CliError(
    EXIT.usage,
    `${sanitize(file)} is a program, and holdfast does not run it; make JSON of it first: node -p 'JSON.stringify(require("./${sanitize(basename(file))}"))' > ecosystem.json`,
  );
}

async function readConfig(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new CliError(EXIT.usage, `cannot read ${sanitize(file)}: ${describeSystemError(cause)}`, { cause });
  }
}

function readAs(importer: Importer, text: string, file: string, tool: string): Imported {
  try {
    return importer(text, file);
  } catch (cause) {
    const [line = ''] = describeError(cause).split('\n');
    throw new CliError(EXIT.usage, `${sanitize(file)} is no config of ${tool}: ${sanitize(line)}`, { cause });
  }
}

async function write(cli: Cli, job: string, output: string | undefined): Promise<void> {
  if (output === undefined) {
    await cli.output.write(job);
    return;
  }
  try {
    await writeFile(output, job, { flag: 'wx' });
  } catch (cause) {
    const why = errnoOf(cause) === 'EEXIST' ? 'it is there already' : describeSystemError(cause);
    throw new CliError(EXIT.failed, `cannot write ${sanitize(output)}: ${why}; give another name`, { cause });
  }
  await cli.output.write(
    `wrote ${sanitize(output)}; next: holdfast validate ${sanitize(shellWord(output))}\n`,
  );
}
