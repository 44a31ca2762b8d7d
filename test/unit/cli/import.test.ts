// Configs of other tools: what they become, what is said about the rest. Golden files stand beside the configs.
//   HOLDFAST_WRITE_GOLDEN=1 node --test dist/test/unit/cli/import.test.js     and read the difference.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { importCompose } from '../../../src/cli/import/compose.js';
import { commandOf, safeName, splitWords, type Imported } from '../../../src/cli/import/imported.js';
import { importPm2 } from '../../../src/cli/import/pm2.js';
import { importProcfile } from '../../../src/cli/import/procfile.js';
import { importSupervisor } from '../../../src/cli/import/supervisor.js';
import { importSystemd } from '../../../src/cli/import/systemd.js';
import { notesOnType, writeJob } from '../../../src/cli/import/write-job.js';
import { parseJobFile, renderFaults } from '../../../src/jobspec/parse.js';

const FOLDER = 'test/fixtures/import';
const WRITE = process.env['HOLDFAST_WRITE_GOLDEN'] === '1';

const CASES: readonly (readonly [string, (text: string, file: string) => Imported])[] = [
  ['ecosystem.json', importPm2],
  ['supervisord.conf', importSupervisor],
  ['api.service', importSystemd],
  ['compose.yaml', importCompose],
  ['Procfile', importProcfile],
];

describe('an imported config', () => {
  for (const [name, read] of CASES) {
    it(`${name} becomes a valid job file, the same in HCL and YAML`, () => {
      const imported = read(readFileSync(join(FOLDER, name), 'utf8'), `/srv/app/${name}`);
      const [hcl, yaml] = (['hcl', 'yaml'] as const).map((format) => {
        const text = writeJob(imported, 'shop', 'Made for a test.', format);
        const result = parseJobFile(text, `shop.${format}`);
        assert.ok(result.ok, result.ok ? '' : renderFaults(result.faults, text));
        return { text, job: result.job };
      });
      assert.deepEqual(hcl?.job, yaml?.job);
      const told = `${hcl?.text ?? ''}\n--- notes\n${[...imported.notes, ...notesOnType(imported)].map((note) => `${note}\n`).join('')}`;
      const golden = join(FOLDER, `${name}.expected`);
      if (WRITE) writeFileSync(golden, told);
      assert.equal(told, readFileSync(golden, 'utf8'));
    });
  }

  it('keeps every text as it was, also what looks like a template', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (text) => {
        fc.pre(!text.includes('\0'));
        const task = { name: 't', command: 'x', args: [text], env: { A: text } };
        const imported: Imported = {
          groups: [
            {
              name: 'g',
              count: 1,
              restart: { wish: 'always', attempts: 1, delayMs: 0, intervalMs: 0 },
              tasks: [task],
            },
          ],
          notes: [],
        };
        for (const format of ['hcl', 'yaml'] as const) {
          const file = writeJob(imported, 'j', 'x', format);
          const result = parseJobFile(file, `j.${format}`);
          assert.ok(result.ok, result.ok ? '' : renderFaults(result.faults, file));
          const kept = result.job.groups[0]?.tasks[0];
          // The run time undoes `$${`.
          assert.equal(String(kept?.env['A']).replaceAll('$${', '${'), text);
          assert.deepEqual(kept?.config['args'], [text.replaceAll('${', () => '$${')]);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('that is `pm2 jlist` is read as well', () => {
    const list = [
      {
        name: 'api',
        pm2_env: {
          name: 'api',
          pm_exec_path: '/srv/api/server.js',
          pm_cwd: '/srv/api',
          exec_interpreter: 'node',
          args: ['-x'],
          exec_mode: 'fork_mode',
          SECRET: 'no',
        },
      },
    ];
    const [group] = importPm2(JSON.stringify(list), 'x.json').groups;
    assert.deepEqual(group?.tasks[0]?.args, ['/srv/api/server.js', '-x']);
    assert.deepEqual(group.tasks[0].env, {});
  });

  it('of any text fails in words, if at all', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (text) => {
        for (const read of [importSupervisor, importSystemd, importProcfile]) read(text, 'x.service');
      }),
    );
  });
});

describe('a command line', () => {
  it('is cut as a shell cuts it, or given to one', () => {
    assert.deepEqual(splitWords(`a 'b c' "d \\"e" f\\ g ''`), ['a', 'b c', 'd "e', 'f g', '']);
    assert.equal(splitWords('a "b'), undefined);
    assert.deepEqual(commandOf('node x.js'), { command: 'node', args: ['x.js'] });
    assert.deepEqual(commandOf('a | b'), { command: '/bin/sh', args: ['-c', 'a | b'] });
    assert.deepEqual(commandOf('A=1 b'), { command: '/bin/sh', args: ['-c', 'A=1 b'] });
    assert.equal(safeName('npm thing/x'), 'npm-thing-x');
  });
});
