/** The pages that name tests name tests that exist: file and title, both exactly. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const PAGES = ['test/acceptance.md', 'docs/better-than-nomad.md'];

/** Marks of another list may stand before a title: they do not count. */
const MARKS = /^(G\d+(, G\d+)*: )/;

/** Titles of a test file as they are written; where a title comes from a table, every text of the file may be one. */
function titlesOf(file: string): ReadonlySet<string> {
  const source = ts.createSourceFile(
    file,
    readFileSync(join(ROOT, 'test', file), 'utf8'),
    ts.ScriptTarget.Latest,
  );
  const titles = new Set<string>();
  const texts = new Set<string>();
  const others: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) texts.add(node.text);
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
      const [title] = node.arguments;
      if (/^(it|test)$/.test(node.expression.text) && title !== undefined) {
        if (ts.isStringLiteralLike(title)) titles.add(title.text.replace(MARKS, ''));
        else others.push(title);
        if (ts.isTemplateExpression(title)) titles.add(title.getText(source).slice(1, -1));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return others.length > 0 ? new Set([...titles, ...texts]) : titles;
}

describe('pages that name tests', () => {
  for (const page of PAGES) {
    const text = readFileSync(join(ROOT, page), 'utf8');
    const named = [...text.matchAll(/`([\w/-]+\.test\.ts)`: “([^”]+)”/g)];

    it(`${page}: each is there, by file and title`, () => {
      const titles = new Map<string, ReadonlySet<string>>();
      const missing = named.filter(([, file = '', title = '']) => {
        const known = titles.get(file) ?? titlesOf(file);
        titles.set(file, known);
        return !known.has(title);
      });
      assert.deepEqual(
        missing.map(([whole]) => whole),
        [],
      );
      assert.ok(named.length >= 50);
    });

    it(`${page}: each row of its tables names a test, or says why not`, () => {
      const rows = text
        .split('\n')
        .filter((line) => line.startsWith('| ') && !/^\| (upstream|Nomad|aim) /.test(line));
      const silent = rows.filter(
        (row) => !row.includes('.test.ts`: “') && !/out of scope: |otherwise: /.test(row),
      );
      assert.deepEqual(silent, []);
    });
  }
});
