// The help of every command: it has examples, and each of them is a command line that commander takes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { completionScript } from '../../../src/cli/completion-scripts.js';
import { exampleJob } from '../../../src/cli/example-job.js';
import { splitWords } from '../../../src/cli/import/imported.js';
import { describeCommands, loadCommands } from '../../../src/cli/program.js';
import { parseJobFile, renderFaults } from '../../../src/jobspec/parse.js';

const commands = await loadCommands();

describe('the help', () => {
  for (const { command } of commands) {
    it(`of ${command.name()} has examples that can be typed`, () => {
      let help = '';
      command.configureOutput({ writeOut: (text) => (help += text) });
      command.outputHelp();
      const examples = help.split('\nExamples:\n')[1]?.split('\n') ?? [];
      const lines = examples
        .map((line) => /holdfast (?:\S| \S)*/.exec(line)?.[0].replace(/ > .*|\)$/, ''))
        .filter((line) => line !== undefined);
      assert.ok(lines.length > 0, 'there are no examples');
      for (const line of lines) {
        const [, name, ...words] = splitWords(line) ?? [];
        assert.equal(name, command.name(), line);
        const { operands, unknown } = command.parseOptions(words);
        assert.deepEqual(
          unknown.filter((word) => word !== '--' && !words.includes('--')),
          [],
          line,
        );
        const needed = command.registeredArguments.filter(({ required }) => required).length;
        assert.ok(operands.length >= needed, `${line}: ${needed} operands are needed`);
      }
    });
  }
});

/** What a TAB behind a line gives. */
const COMPLETIONS: readonly (readonly [line: string, found: readonly string[]])[] = [
  ['holdfast pla', ['plan']],
  ['holdfast --address x sta', ['stats', 'status']],
  ['holdfast --token run --ca-cert x sta', ['stats', 'status']],
  ['holdfast --ca-cert jo', ['job.hcl']],
  ['holdfast logs --fo', ['--follow']],
  ['holdfast status we', ['web', 'web/api']],
  ['holdfast logs -n 5 wo', ['worker']],
  ['holdfast logs --token x wo', ['worker']],
  ['holdfast logs -n ', []],
  ['holdfast run jo', ['job.hcl']],
  ['holdfast run --var-file jo', ['job.hcl']],
  ['holdfast import sys', ['systemd']],
  ['holdfast import systemd jo', ['job.hcl']],
  ['holdfast signal HU', ['HUP']],
  ['holdfast signal HUP we', ['web', 'web/api']],
  ['holdfast help pur', ['purge']],
];

/** How each shell is asked for completions: `./script` is loaded, the line is in $LINE. */
const ASKS: Readonly<Record<string, (line: string) => readonly string[]>> = {
  bash: (line) => {
    const words = line.split(' ');
    const quoted = words.map((word) => `'${word}'`).join(' ');
    return [
      '--norc',
      '--noprofile',
      '-c',
      `source ./script; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`,
    ];
  },
  // What completion puts on the screen there is told by functions of these names.
  zsh: () => [
    '-f',
    '-c',
    `compdef() { : }
     compadd() { shift; print -l -- "$@" }
     _files() { print -l -- * }
     _describe() { print -l -- "\${commands[@]%%:*}" }
     source ./script
     words=("\${(@s: :)LINE}") CURRENT=$#words
     _holdfast`,
  ],
  fish: () => ['--no-config', '-c', 'source ./script; complete -C "$LINE"'],
};

describe('completion', () => {
  for (const [shell, ask] of Object.entries(ASKS)) {
    it(`of ${shell} gives commands, options, words, files and targets`, async () => {
      const script = completionScript(shell, await describeCommands()) ?? '';
      for (const { command } of commands) assert.match(script, new RegExp(`\\b${command.name()}\\b`));
      // Where the shell is not installed, that is all that can be said.
      if (spawnSync(shell, ['--version']).status !== 0) return;
      const folder = mkdtempSync(join(tmpdir(), 'holdfast-completion-'));
      try {
        // Stands for the program: what the daemon would say.
        writeFileSync(join(folder, 'holdfast'), '#!/bin/sh\nprintf "web\\nweb/api\\nworker\\n"\n', {
          mode: 0o755,
        });
        writeFileSync(join(folder, 'job.hcl'), '');
        writeFileSync(join(folder, 'script'), script);
        for (const [line, expected] of COMPLETIONS) {
          const { stdout, stderr } = spawnSync(shell, ask(line), {
            cwd: folder,
            env: { PATH: `${folder}:/usr/local/bin:/usr/bin:/bin`, HOME: folder, LINE: line },
            encoding: 'utf8',
            timeout: 30_000,
          });
          const last = line.slice(line.lastIndexOf(' ') + 1);
          const found = stdout
            .split('\n')
            .map((each) => each.replace(/\t.*$/, ''))
            .filter((each) => each !== '' && each.startsWith(last));
          assert.deepEqual(found.sort(), expected, `${line}\n${stderr}`);
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }

  it('is not made for a shell that nobody knows', async () => {
    assert.equal(completionScript('csh', await describeCommands()), undefined);
  });
});

describe('the example of init', () => {
  it('is valid, and the same in HCL and YAML', () => {
    const jobs = ['job.hcl', 'job.yaml'].map((name) => {
      const text = exampleJob(name) ?? '';
      const result = parseJobFile(text, name);
      assert.ok(result.ok, result.ok ? '' : renderFaults(result.faults, text));
      return result.job;
    });
    assert.deepEqual(jobs[0], jobs[1]);
    assert.equal(exampleJob('job.toml'), undefined);
  });
});
