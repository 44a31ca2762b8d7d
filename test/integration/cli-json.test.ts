/** What programs build on: the keys of `--json` as docs/cli.md lists them, and the exit codes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { CliWorld } from './cli-world.js';

const PAGE = readFileSync(new URL('../../../docs/cli.md', import.meta.url), 'utf8');

const WEB = `
job "web" {
  group "api" {
    task "server" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo here; exec sleep 1000"]
      }
    }
  }
}
`;

/** A row of the table: how it is called, and the paths that its JSON has. */
interface Documented {
  readonly command: string;
  readonly paths: readonly string[];
}

function readTable(): Documented[] {
  const [, section = ''] = /\n## JSON\n([\s\S]*?)\n## /.exec(PAGE) ?? [];
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => {
      const [, command = '', keys = ''] = line.split('|').map((cell) => cell.trim());
      return {
        command: command.replaceAll('`', ''),
        paths: [...keys.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path),
      };
    });
}

/** `[].TaskStates.*.State`: of each of a list, of any value. @returns what is missing, undefined when it is there */
function missing(value: unknown, path: string): string | undefined {
  let at: readonly unknown[] = [value];
  for (const step of path.split('.')) {
    const name = step.replace(/\[\]$/, '');
    if (name === '*') at = at.flatMap((each) => Object.values(each as object) as unknown[]);
    else if (name !== '') {
      if (!at.every((each) => typeof each === 'object' && each !== null && name in each)) return name;
      at = at.map((each) => (each as Record<string, unknown>)[name]);
    }
    if (!step.endsWith('[]')) continue;
    if (!at.every(Array.isArray)) return `${step} (a list)`;
    at = at.flat();
  }
  return at.length === 0 ? `anything at ${path}` : undefined;
}

describe('what programs build on', { timeout: 120_000 }, () => {
  let world: CliWorld;
  before(async () => {
    world = new CliWorld();
    await world.startAgent();
    world.file('web.hcl', WEB);
    world.file('wrong.hcl', WEB.replace('driver', 'drivr'));
    world.file(
      'fail.hcl',
      WEB.replace('web', 'fail')
        .replace('exec sleep 1000', 'exit 3')
        .replace('group', 'type = "batch"\n  group')
        .replace('task "', 'restart { attempts = 0 }\n    task "'),
    );
    world.file('none.sock', '');
    const ran = await world.cli('run', 'web.hcl');
    assert.equal(ran.code, 0, ran.stderr);
  });
  after(async () => {
    await world.close();
  });

  it('--json of every command that reads has the keys that docs/cli.md lists', async () => {
    const table = readTable();
    assert.ok(table.length >= 15, `the table has ${table.length} rows`);
    const problems: string[] = [];
    for (const { command, paths } of table) {
      const ran = await world.cli(...command.split(' ').slice(1));
      if (ran.code !== 0 && !command.includes('wrong')) {
        problems.push(`${command}: exit code ${String(ran.code)}: ${ran.stderr}`);
        continue;
      }
      const isLines = / (?:events|logs) /.test(command);
      const value: unknown = JSON.parse(isLines ? (ran.stdout.split('\n')[0] ?? '') : ran.stdout);
      for (const path of paths) {
        const what = missing(value, path);
        if (what !== undefined) problems.push(`${command}: ${path}: there is no ${what}`);
      }
    }
    assert.deepEqual(problems, []);
  });

  it('every command that takes --json stands in that table', async () => {
    const help = (await world.cli('--help')).stdout;
    const names = [...help.matchAll(/^ {2}([a-z]+) {2,}/gm)].map(([, name = '']) => name);
    const documented = new Set(readTable().map(({ command }) => command.split(' ')[1]));
    const forgotten: string[] = [];
    for (const name of names.filter((each) => each !== 'help' && each !== 'agent')) {
      const own = (await world.cli(name, '--help')).stdout;
      if (/^ +--json/m.test(own) && !documented.has(name)) forgotten.push(name);
    }
    // They act; what they answer is one object of the API.
    assert.deepEqual(forgotten.sort(), ['dispatch', 'doctor', 'gc', 'periodic']);
  });

  const CODES: readonly (readonly [number, string, readonly string[]])[] = [
    [0, 'an answer', ['ps']],
    [0, 'a job that is as it shall be', ['run', 'web.hcl']],
    [0, 'a clean host', ['doctor']],
    [0, 'a command in a task that ends with 0', ['exec', 'web', '--', 'true']],
    [1, 'a job that fails', ['run', 'fail.hcl']],
    [1, 'another index than that of the job', ['run', 'web.hcl', '--check-index', '999999']],
    [1, 'the same in a plan', ['plan', 'web.hcl', '--check-index', '999999']],
    [2, 'a wrong job file', ['validate', 'wrong.hcl']],
    [2, 'a wrong job file that is run', ['run', 'wrong.hcl']],
    [2, 'a file that is not there', ['run', 'nowhere.hcl']],
    [2, 'no such command', ['pss']],
    [2, 'no such option', ['ps', '--wide']],
    [2, 'a word too much', ['ps', 'web']],
    [2, 'a signal that does not exist', ['signal', 'NOPE', 'web']],
    [2, 'a time that is none', ['events', '--since', 'soon']],
    [3, 'nothing to restart', ['restart', 'fail']],
    [3, 'nothing to look at', ['stats', 'fail']],
    [3, 'nothing to run in', ['exec', 'fail', '--', 'true']],
    [3, 'nothing to send to', ['signal', 'HUP', 'fail']],
    [4, 'no such job', ['status', 'nothing']],
    [4, 'no such task', ['logs', 'web/api/nothing']],
    [4, 'no such alloc', ['inspect', '00000000']],
    [4, 'a job that is not there cannot be launched', ['periodic', 'force', 'nothing']],
    [5, 'no daemon', ['ps', '--address', 'unix:///nowhere/holdfast.sock']],
    [7, 'the exit code of a command in a task', ['exec', 'web', '--', 'sh', '-c', 'exit 7']],
    [143, 'the signal that ended it', ['exec', 'web', '--', 'sh', '-c', 'kill -TERM $$']],
    [127, 'a command that is not there', ['exec', 'web', '--', '/no/such/program']],
  ];

  it('exit codes are those of docs/cli.md, and what is refused says why on stderr', async () => {
    const wrong: string[] = [];
    for (const [code, what, args] of CODES) {
      const ran = await world.cli(...args);
      if (ran.code !== code) wrong.push(`${what}: ${String(ran.code)}, not ${code}: ${ran.stderr}`);
      if (code !== 0 && args[0] !== 'exec' && ran.stderr === '') wrong.push(`${what}: nothing is said`);
    }
    assert.deepEqual(wrong, []);
  });
});
