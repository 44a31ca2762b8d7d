import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import * as driverConfig from '../../../src/jobspec/driver-config.js';
import { parseJobFile } from '../../../src/jobspec/parse.js';
import { renderReference } from '../../../src/jobspec/reference.js';

const PAGE = readFileSync('docs/jobspec.md', 'utf8');

describe('docs/jobspec.md', () => {
  it('is up to date', () => {
    assert.equal(PAGE, renderReference(), 'run: node scripts/gen-jobspec-doc.mjs');
  });

  it('names every key of the drivers that are available', () => {
    for (const driver of ['raw_exec', 'mock_driver'] as const) {
      const [fault] = driverConfig.checkDriverConfig(driver, { command: 'x', zzzzzzzzzzzz: 1 });
      const keys = /its keys are: (.*)/.exec(fault?.hint ?? '')?.[1]?.split(', ') ?? [];
      assert.ok(keys.length > 3, driver);
      for (const key of keys) assert.ok(PAGE.includes(`\`${key}\``), `${driver}: ${key}`);
    }
  });

  it('begins with a job that is good', () => {
    const example = /```hcl\n([^]*?)```/.exec(PAGE)?.[1] ?? '';
    assert.ok(parseJobFile(example, 'example.hcl').ok);
  });
});
