/** The catalogue of error codes and its page say the same, in both directions. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { httpStatusOf } from '../../../src/api/wire.js';
import { ERROR_CODES } from '../../../src/base/errors.js';

const PAGE = new URL('../../../../docs/errors.md', import.meta.url);

/** Rows of the table: code → HTTP status, meaning, cure. */
const rows = readFileSync(PAGE, 'utf8')
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .filter((cells) => /^`[a-z_]+`$/.test(cells[1] ?? ''))
  .map(([, code = '', status = '', , meaning = '', cure = '']) => ({
    code: code.replaceAll('`', ''),
    status: Number(status),
    meaning,
    cure,
  }));

test('docs/errors.md describes every code, each once, and no other', () => {
  const documented = rows.map(({ code }) => code);
  assert.deepEqual(documented, [...ERROR_CODES].sort());
});

test('docs/errors.md gives each code the HTTP status it is sent with, a meaning and a cure', () => {
  for (const code of ERROR_CODES) {
    const row = rows.find((candidate) => candidate.code === code);
    assert.ok(row !== undefined, code);
    assert.equal(row.status, httpStatusOf(code), code);
    assert.ok(row.meaning.length > 10, `${code}: what does it mean?`);
    assert.ok(row.cure.length > 10, `${code}: what can be done?`);
  }
});
