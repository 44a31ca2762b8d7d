// Golden files: what each valid job file means and what each broken one is told. Where the reading changes on purpose:
//   HOLDFAST_WRITE_GOLDEN=1 node --test dist/test/unit/jobspec/corpus.test.js     and read the difference.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { jobSpecToWire } from '../../../src/api/wire.js';
import { parseJobFile, parseJobJson, renderFaults } from '../../../src/jobspec/parse.js';

const FIXTURES = 'test/fixtures/jobspec';
const WRITE = process.env['HOLDFAST_WRITE_GOLDEN'] === '1';

function compareGolden(path: string, actual: string): void {
  if (WRITE) writeFileSync(path, actual);
  assert.ok(existsSync(path), `${path} is missing: see the head of this test`);
  assert.equal(actual, readFileSync(path, 'utf8'));
}

function filesOf(folder: string, golden: string): string[] {
  return readdirSync(join(FIXTURES, folder)).filter((name) => !name.endsWith(golden));
}

describe('valid job files', () => {
  const files = filesOf('valid', '.model');

  it('are many', () => {
    assert.ok(files.length >= 60);
  });

  for (const name of files) {
    it(name, () => {
      const text = readFileSync(join(FIXTURES, 'valid', name), 'utf8');
      const result = parseJobFile(text, name);
      assert.ok(result.ok, result.ok ? '' : renderFaults(result.faults, text));
      // Files of one stem, such as full.hcl, full.yaml and full.json, must mean the same: they share the model.
      const stem = name.replace(/\.(hcl|nomad|nomad\.hcl|json|ya?ml)$/, '');
      const model = JSON.stringify(result.job, (_, value: unknown) => value ?? null, 1);
      compareGolden(join(FIXTURES, 'valid', `${stem}.model`), `${model}\n`);
      const again = parseJobJson(jobSpecToWire(result.job));
      assert.deepEqual(again.ok ? again.job : again.faults, result.job);
    });
  }
});

describe('broken job files', () => {
  const files = filesOf('broken', '.expected');

  it('are many', () => {
    assert.ok(files.length >= 60);
  });

  for (const name of files) {
    it(name, () => {
      const text = readFileSync(join(FIXTURES, 'broken', name), 'utf8');
      const result = parseJobFile(text, name);
      assert.ok(!result.ok, 'this file should be refused');
      const told = renderFaults(result.faults, text);
      for (const line of told.split('\n')) assert.ok(Array.from(line).length <= 80, `too long: ${line}`);
      compareGolden(join(FIXTURES, 'broken', `${name}.expected`), told);
    });
  }
});
