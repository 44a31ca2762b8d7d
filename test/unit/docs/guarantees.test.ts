/** native/README.md names a test for each guarantee, and each test that it names is there. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { packageRoot } from '../../../src/base/package-root.js';

const GUARANTEES = 37;

interface Row {
  readonly name: string;
  readonly tests: readonly { readonly file: string; readonly title: string }[];
}

function readRows(): readonly Row[] {
  const page = readFileSync(join(packageRoot(), 'native', 'README.md'), 'utf8');
  const lines = page.slice(page.indexOf('## Guarantees')).split('\n');
  return lines.flatMap((line) => {
    const [, name] = /^\| (G\d+) \|/.exec(line) ?? [];
    if (name === undefined) return [];
    const tests = [...line.matchAll(/`(test\/[^`]+\.ts)`: “([^”]+)”/g)];
    return [{ name, tests: tests.map(([, file = '', title = '']) => ({ file, title })) }];
  });
}

/** True when the file has a test of exactly that title. */
function hasTest(file: string, title: string): boolean {
  const source = readFileSync(join(packageRoot(), file), 'utf8');
  return ["'", '`', '"'].some((quote) =>
    new RegExp(`\\b(it|test)\\(\\s*${escape(quote + title + quote)}`).test(source),
  );
}

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

describe('the guarantees of native/README.md', () => {
  const rows = readRows();

  it('are all there, once each, in order', () => {
    assert.deepEqual(
      rows.map(({ name }) => name),
      Array.from({ length: GUARANTEES }, (_, index) => `G${index + 1}`),
    );
  });

  it('each have a test that bears their number', () => {
    const without = rows.filter(
      ({ name, tests }) => !tests.some(({ title }) => new RegExp(`^(G\\d+, )*${name}\\b`).test(title)),
    );
    assert.deepEqual(without, []);
  });

  it('name tests that exist', () => {
    const missing = rows
      .flatMap(({ tests }) => tests)
      .filter(({ file, title }) => !existsSync(join(packageRoot(), file)) || !hasTest(file, title));
    assert.deepEqual(missing, []);
  });
});
