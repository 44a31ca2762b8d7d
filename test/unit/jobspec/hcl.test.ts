// The grammar behind hcl.ts was made for an editor: whether we read HCL is judged by HCL's own parser (hcl2json).
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { parse as parseByOracle } from '@cdktn/hcl2json';
import fc from '../../helpers/properties.js';
import { readHcl } from '../../../src/jobspec/hcl.js';
import { toPlain, type Tree } from '../../../src/jobspec/tree.js';

/** What the oracle makes of a text; undefined when it refuses it. */
async function oracle(text: string): Promise<unknown> {
  try {
    const json: unknown = await parseByOracle('job.tf', text);
    return normal(json);
  } catch {
    return undefined;
  }
}

/** The oracle writes templates back as HCL, where `%{` is escaped; we keep only `$${` for the run time. */
function normal(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('%%{', '%{');
  if (Array.isArray(value)) return value.map(normal);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, normal(item)]));
}

function ours(text: string): unknown {
  const { tree, faults } = readHcl(text);
  if (tree === undefined || faults.length > 0) return undefined;
  return JSON.parse(JSON.stringify(toPlain(tree))) as unknown;
}

/** True when a block stands with different numbers of labels: the oracle's JSON has no form for that. */
function isAmbiguous(tree: Tree | undefined): boolean {
  if (tree?.kind === 'list') return tree.items.some(isAmbiguous);
  if (tree?.kind !== 'map') return false;
  const labels = new Map<string, number>();
  return tree.entries.some((entry) => {
    const count = entry.labels?.length ?? -1;
    const first = labels.get(entry.key) ?? count;
    labels.set(entry.key, first);
    return first !== count || isAmbiguous(entry.value);
  });
}

const FOLDERS = ['examples', 'test/fixtures/jobspec/valid'];
const FILES = FOLDERS.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name))).filter(
  (path) => /\.(hcl|nomad)$/.test(path),
);

describe('readHcl and HCL’s own parser', () => {
  for (const path of FILES) {
    it(`see the same in ${path}`, async () => {
      const text = readFileSync(path, 'utf8');
      const expected = await oracle(text);
      assert.notEqual(expected, undefined, 'the oracle refuses this file');
      // The oracle works nothing out: what we made of such a file stands in its model.
      if (readHcl(text).isWorkedOut) return;
      assert.deepEqual(ours(text.replace(/^\uFEFF/, '')), expected);
    });
  }

  it('agree on every mutation of a file that we accept', async () => {
    const base = readFileSync('test/fixtures/jobspec/valid/full.hcl', 'utf8');
    const more = readFileSync('test/fixtures/jobspec/valid/heredocs.hcl', 'utf8');
    const bits = [
      ...Array.from('"{}[]=\n ,#\\a1.-$%()_:\t'),
      '//',
      '/*',
      '*/',
      'EOF',
      '<<EOF\n',
      '<<-E\n',
      '${',
      '$${',
      '%{',
      'null',
      'true',
      ' = ',
      'e3',
      '""',
      '"x"',
      '\r\n',
      'b {}\n',
      'x = 1\n',
    ];
    const edit = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      remove: fc.nat({ max: 4 }),
      insert: fc.oneof(fc.constant(''), fc.constantFrom(...bits)),
    });
    let accepted = 0;
    const property = fc.asyncProperty(
      fc.constantFrom(base, more),
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      async (text, edits) => {
        let mutated = text;
        for (const { at, remove, insert } of edits) {
          const offset = Math.floor(at * mutated.length);
          mutated = mutated.slice(0, offset) + insert + mutated.slice(offset + remove);
        }
        const read = ours(mutated);
        if (readHcl(mutated).isWorkedOut) return;
        if (read === undefined || isAmbiguous(readHcl(mutated).tree)) return;
        accepted++;
        assert.ok(isDeepStrictEqual(read, await oracle(mutated)), mutated);
      },
    );
    await fc.assert(property, { numRuns: 400 });
    assert.ok(accepted > 30, `only ${accepted} mutations were accepted: this proves little`);
  });
});

describe('readHcl', () => {
  it('never throws, and tells places within the text', () => {
    const fragments = fc.array(
      fc.constantFrom(
        'a',
        '"',
        '{',
        '}',
        '[',
        ']',
        '=',
        '\n',
        '<<A\n',
        'A\n',
        '${',
        '%{',
        '\\',
        '/*',
        '#',
        '1',
        ',',
      ),
      { maxLength: 40 },
    );
    const text = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fragments.map((list) => list.join('')),
    );
    fc.assert(
      fc.property(text, (source) => {
        const { tree, faults } = readHcl(source);
        assert.ok(tree !== undefined || faults.length > 0);
        for (const { at } of faults) assert.ok(Number.isInteger(at) && at >= 0 && at <= source.length);
      }),
      { numRuns: 1000 },
    );
  });

  it('takes what is deep or long without falling over', () => {
    for (const text of [
      'a = '.padEnd(5_000, '['),
      'a {\n'.repeat(2_000),
      '"'.repeat(20_000),
      '${'.repeat(5_000),
    ]) {
      assert.ok(readHcl(text).faults.length > 0);
    }
  });
});
