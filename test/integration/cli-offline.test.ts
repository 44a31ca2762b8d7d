/** The commands that need no daemon, as processes: what they write, what they say, and that the pages show just that. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { splitWords } from '../../src/cli/import/imported.js';
import { loadCommands } from '../../src/cli/program.js';
import { CLI } from './cli-world.js';

/** Keys of job files: docs/jobspec.md is made from their tables. */
const JOB_KEYS = new Set(
  [...readFileSync('docs/jobspec.md', 'utf8').matchAll(/^\| `(\w+)`/gm)].map(([, key]) => key),
);
/** Words of other tools in the column of ours, and a value. */
const NO_KEYS = new Set(['instances', 'numprocs', 'replicas', 'fail']);
const COMING_FROM = readFileSync('docs/coming-from.md', 'utf8');

describe('commands that need no daemon', { timeout: 120_000 }, () => {
  let dir: string;
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'hf-offline-'));
  });
  after(() => {
    rmSync(dir, { recursive: true });
  });
  const cli = (...words: string[]) =>
    spawnSync(process.execPath, [CLI, ...words], {
      cwd: dir,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: dir, HOLDFAST_ADDR: `unix://${dir}/none` },
      timeout: 60_000,
    });

  it('init writes a job file that is valid, and never over one that is there', () => {
    for (const name of ['job.hcl', 'job.yaml']) {
      const wrote = cli('init', name);
      assert.equal(wrote.status, 0, wrote.stderr);
      assert.match(wrote.stdout, new RegExp(`^wrote ${name}; next:\n {2}holdfast validate ${name}\n`));
      const checked = cli('validate', name);
      assert.deepEqual([checked.status, checked.stdout], [0, `${name} is valid: job "example"\n`]);
      const text = readFileSync(join(dir, name), 'utf8');
      const again = cli('init', name);
      assert.deepEqual([again.status, readFileSync(join(dir, name), 'utf8')], [1, text]);
      assert.match(again.stderr, /it is there already; give another name\n$/);
    }
  });

  it('schema is JSON Schema, and completion a script', () => {
    const schema = JSON.parse(cli('schema').stdout) as { $schema: string };
    assert.match(schema.$schema, /json-schema.org/);
    for (const shell of ['bash', 'zsh', 'fish']) assert.match(cli('completion', shell).stdout, /holdfast/);
    const unknown = cli('completion', 'csh');
    assert.deepEqual([unknown.status, unknown.stdout], [2, '']);
    // A TAB without a daemon says nothing.
    assert.equal(cli('completion', 'targets').stdout, '');
  });

  it('import does as docs/coming-from.md shows', () => {
    const blocks = [...COMING_FROM.matchAll(/```\n([^`]*?)\n\$ (holdfast import [^\n]*)\n([^`]*)```/g)];
    assert.equal(blocks.length, 5);
    for (const [, config = '', line = '', said = ''] of blocks) {
      const words = splitWords(line)?.slice(1) ?? [];
      const [, tool = '', file = '', , output = ''] = words;
      rmSync(join(dir, output), { force: true });
      writeFileSync(join(dir, file), `${config}\n`);
      const ran = cli(...words);
      assert.deepEqual([ran.status, ran.stdout + ran.stderr], [0, said], tool);
      const checked = cli('validate', output);
      assert.equal(checked.status, 0, checked.stderr);
    }
    const named = cli('import', 'procfile', 'Procfile', '--name', 'shop');
    assert.match(named.stdout, /^job "shop" \{$/m);
    const wrong = cli('import', 'pm3', 'Procfile');
    assert.deepEqual([wrong.status, wrong.stdout], [2, '']);
    writeFileSync(join(dir, 'ecosystem.config.js'), 'process.exit(9)');
    const program = cli('import', 'pm2', 'ecosystem.config.js');
    assert.match(program.stderr, /is a program, and holdfast does not run it/);
    assert.equal(program.status, 2);
    assert.equal(existsSync(join(dir, 'ecosystem.json')), true);
  });

  it('help names every command under its heading, and first steps that can be typed', async () => {
    const help = cli('--help').stdout;
    const commands = await loadCommands();
    for (const { command } of commands) assert.match(help, new RegExp(`^ {2}${command.name()} `, 'm'));
    const [, others = ''] = /\nCommands:\n([^]*?)\n\n/.exec(help) ?? [];
    assert.deepEqual(
      [...others.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name),
      ['completion', 'version', 'help'],
    );
    const [, steps = ''] = /\nFirst steps:\n([^]*?)\n\n/.exec(help) ?? [];
    const lines = steps.split('\n').map((line) => line.trim().replace(/ {2,}.*$/, ''));
    assert.equal(lines.length, 6);
    for (const line of lines) {
      const [, name, ...words] = splitWords(line) ?? [];
      const found = commands.find(({ command }) => command.name() === name)?.command;
      assert.ok(found, line);
      assert.deepEqual(
        found.parseOptions(words).unknown.filter((word) => word !== '--' && !words.includes('--')),
        [],
        line,
      );
    }
    assert.equal(cli('status', '--help').stdout.includes('First steps'), false);
    assert.equal(
      cli('node').stderr,
      'holdfast: give WHAT: status, drain, eligibility; "holdfast help node" shows how\n',
    );
  });

  it('docs/coming-from.md names commands and keys that exist', async () => {
    const commands = await loadCommands();
    const lines = [...COMING_FROM.matchAll(/`(holdfast [^`]+)`/g)].map(([, line = '']) => line);
    assert.ok(lines.length >= 15);
    for (const line of lines) {
      const [, name, ...words] = splitWords(line) ?? [];
      const found = commands.find(({ command }) => command.name() === name)?.command;
      assert.ok(found, line);
      const { unknown } = found.parseOptions(words.filter((word) => word !== '…'));
      assert.deepEqual(
        unknown.filter((word) => word !== '--' && !words.includes('--')),
        [],
        line,
      );
    }
    const [, table = ''] = /## What a config becomes\n([^]*?)\n## /.exec(COMING_FROM) ?? [];
    const rows = table.split('\n').filter((row) => row.startsWith('| ') && !row.startsWith('| there'));
    assert.ok(rows.length >= 12);
    for (const row of rows) {
      const here = row.split('|')[2] ?? '';
      const keys = [...here.matchAll(/`([^`]+)`/g)].flatMap(([, code = '']) =>
        [...code.replaceAll(/"[^"]*"/g, '').matchAll(/[a-z_]{3,}/g)].map(([word]) => word),
      );
      assert.deepEqual(
        keys.filter((key) => !JOB_KEYS.has(key) && !NO_KEYS.has(key)),
        [],
        row,
      );
    }
  });
});
