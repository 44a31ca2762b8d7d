// The help of every command: it has examples, and each of them is a command line that commander takes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
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

describe('completion', () => {
  it('of bash gives commands, options, words, files and targets', async () => {
    const script = completionScript('bash', await describeCommands()) ?? '';
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-completion-'));
    try {
      // Stands for the program: what the daemon would say.
      writeFileSync(join(folder, 'holdfast'), '#!/bin/sh\nprintf "web\\nweb/api\\nworker\\n"\n', {
        mode: 0o755,
      });
      writeFileSync(join(folder, 'job.hcl'), '');
      writeFileSync(join(folder, 'script'), script);
      const complete = (line: string): string[] => {
        const words = line.split(' ');
        const quoted = words.map((word) => `'${word}'`).join(' ');
        const run = `source ./script; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
        const env = { PATH: `${folder}:/usr/bin:/bin` };
        return execFileSync('bash', ['--norc', '--noprofile', '-c', run], {
          cwd: folder,
          env,
          encoding: 'utf8',
        })
          .split('\n')
          .filter(Boolean);
      };
      assert.deepEqual(complete('holdfast pla'), ['plan']);
      assert.deepEqual(complete('holdfast --address x sta'), ['status', 'stats']);
      assert.deepEqual(complete('holdfast logs --fo'), ['--follow']);
      assert.deepEqual(complete('holdfast status we'), ['web', 'web/api']);
      assert.deepEqual(complete('holdfast logs -n 5 wo'), ['worker']);
      assert.deepEqual(complete('holdfast logs -n '), []);
      assert.deepEqual(complete('holdfast run jo'), ['job.hcl']);
      assert.deepEqual(complete('holdfast run --var-file jo'), ['job.hcl']);
      assert.deepEqual(complete('holdfast import sys'), ['systemd']);
      assert.deepEqual(complete('holdfast import systemd jo'), ['job.hcl']);
      assert.deepEqual(complete('holdfast signal HU'), ['HUP']);
      assert.deepEqual(complete('holdfast signal HUP we'), ['web', 'web/api']);
      assert.deepEqual(complete('holdfast help pur'), ['purge']);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('knows every command in zsh and fish', async () => {
    const facts = await describeCommands();
    for (const shell of ['zsh', 'fish']) {
      const script = completionScript(shell, facts) ?? '';
      for (const { name } of facts) assert.match(script, new RegExp(`\\b${name}\\b`));
    }
    assert.equal(completionScript('csh', facts), undefined);
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
