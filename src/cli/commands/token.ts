/** Owns `holdfast token create`: a new token, and the line that lets the daemon know it. Needs no daemon. */
import { appendFile, open, readFile } from 'node:fs/promises';
import { describeSystemError, errnoOf } from '../../base/errors.js';
import { formatTokenLine, hashToken, newToken, parseTokens, SCOPES } from '../../base/tokens.js';
import { addExamples, textOf, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';

/** Read and written by the daemon's user only. */
const FILE_MODE = 0o600;

export function define({ command, run }: Definition): void {
  command
    .usage('create --scope SCOPE [options]')
    .argument('<what>', 'create')
    .option('--scope <scope>', `what it may do: ${SCOPES.join(', ')}; each includes those before it`)
    .option('--name <name>', 'whose it is (default: the scope)')
    .option('--file <file>', 'add its line to this file, which tokens_file in the config file names');
  addExamples(command, [
    ['holdfast token create --scope read --name grafana --file /etc/holdfast/tokens', 'then: SIGHUP'],
    ['holdfast token create --scope operate', 'the token on stdout, its line for the file on stderr'],
  ]);
  run(async (cli, options, [what = '']) => {
    if (what !== 'create') {
      throw new CliError(
        EXIT.usage,
        `holdfast token ${JSON.stringify(what)}: there is only "holdfast token create"`,
      );
    }
    const asked = textOf(options, 'scope');
    const scope = SCOPES.find((each) => each === asked);
    if (scope === undefined) {
      throw new CliError(EXIT.usage, `give --scope, one of ${SCOPES.join(', ')}`);
    }
    const name = textOf(options, 'name') ?? scope;
    const token = newToken();
    const line = formatTokenLine({ name, scope, sha256: hashToken(token) });
    const file = textOf(options, 'file');
    if (file === undefined) {
      check(line, '--name');
      cli.output.note(`add this line to the tokens_file of the daemon, then send it SIGHUP:\n${line}`);
    } else {
      await addLine(file, line);
      cli.output.note(
        `added ${name} to ${file}: the daemon knows it after a SIGHUP; the token is shown once`,
      );
    }
    await cli.output.write(`${token}\n`);
    return EXIT.ok;
  });
}

/** @throws CliError when the file with the line would not be one */
function check(text: string, path: string): void {
  try {
    parseTokens(text, path);
  } catch (error) {
    throw new CliError(EXIT.usage, error instanceof Error ? error.message : String(error));
  }
}

async function addLine(file: string, line: string): Promise<void> {
  const before = await readFile(file, 'utf8').catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return '';
    throw new CliError(EXIT.failed, `cannot read ${file}: ${describeSystemError(error)}`);
  });
  const text = `${before === '' || before.endsWith('\n') ? '' : '\n'}${line}\n`;
  check(before + text, file);
  try {
    await (await open(file, 'a', FILE_MODE)).close();
    await appendFile(file, text);
  } catch (error) {
    throw new CliError(EXIT.failed, `cannot write ${file}: ${describeSystemError(error)}`);
  }
}
