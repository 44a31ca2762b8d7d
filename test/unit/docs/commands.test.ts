/**
 * Every command of the contract is there, stands in docs/cli.md with each of its options, and is run as a process by a
 * test of test/integration (against a real agent, except for those that speak to none).
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { OptionFacts } from '../../../src/cli/completion-scripts.js';
import { describeCommands } from '../../../src/cli/program.js';

/** The contract's table of commands, and the options that it names. */
const CONTRACT: Readonly<Record<string, readonly string[]>> = {
  agent: ['--config', '--data-dir', '--socket', '--http', '--log-level'],
  dev: [],
  run: ['--detach', '--check-index'],
  validate: [],
  plan: [],
  inspect: [],
  ps: ['--all', '--json'],
  status: ['--json'],
  logs: ['--follow', '--lines', '--stderr', '--since', '--grep'],
  events: ['--follow', '--since'],
  history: [],
  stop: ['--no-shutdown-delay', '--detach'],
  purge: [],
  restart: [],
  signal: [],
  exec: ['--interactive', '--tty'],
  stats: ['--follow'],
  node: [],
  doctor: [],
  version: [],
};
const FOLDER = 'test/integration';

/** Text of the tests, without what they say in comments. */
function textOfTests(): string {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(`${FOLDER}/${name}`, 'utf8').replace(/^\s*(?:\/\/|\*|\/\*).*$/gm, ''))
    .join('\n');
}

describe('the commands', () => {
  it('are those of the contract, with its options', async () => {
    const commands = new Map((await describeCommands()).map((command) => [command.name, command]));
    for (const [name, options] of Object.entries(CONTRACT)) {
      const command = commands.get(name);
      assert.ok(command, name);
      const long = command.options.map((option) => option.long);
      assert.deepEqual(
        options.filter((option) => !long.includes(option)),
        [],
        name,
      );
    }
  });

  it('stand in docs/cli.md', async () => {
    const page = readFileSync('docs/cli.md', 'utf8');
    const isNamed = ({ long, short }: OptionFacts): boolean =>
      page.includes(long) || (short !== undefined && new RegExp(`[\\s\`]${short}[\\s\`]`).test(page));
    const missing = (await describeCommands()).flatMap(({ name, options }) => [
      ...(new RegExp(`holdfast ${name}\\b`).test(page) ? [] : [name]),
      ...options.filter((option) => !isNamed(option)).map(({ long }) => `${name} ${long}`),
    ]);
    assert.deepEqual(missing, [], 'commands and options that docs/cli.md does not name');
  });

  it('are each run by a test', async () => {
    const text = textOfTests();
    // `cli('ps'`, `cli(['ps'`, `follow('ps'`, `[CLI, 'ps'`, `holdfast ps` in what a shell runs.
    const isRun = (name: string): boolean =>
      new RegExp(`(?:\\w\\((?:\\{[^}]*\\}, ?)?\\[?|CLI, ?)\\s*['"\`]${name}['" ]|holdfast ${name}\\b`).test(
        text,
      );
    const left = (await describeCommands()).map(({ name }) => name).filter((name) => !isRun(name));
    assert.deepEqual(left, [], `commands that no test of ${FOLDER} runs`);
    assert.equal(isRun('made-up'), false);
  });
});
