import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { parse as parseYaml } from 'yaml';
import { readJson } from '../../../src/jobspec/json.js';
import { LineIndex, toPlain } from '../../../src/jobspec/tree.js';
import { readYaml } from '../../../src/jobspec/yaml.js';

describe('readJson', () => {
  it('reads every JSON object as JSON.parse does, however it is laid out', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 }));
    fc.assert(
      fc.property(object, fc.constantFrom(undefined, 1, '\t', ' \r\n'), (value, space) => {
        const text = JSON.stringify(value, null, space);
        const { tree, faults } = readJson(text);
        assert.deepEqual(faults, []);
        assert.ok(tree !== undefined);
        assert.deepEqual(toPlain(tree), JSON.parse(text));
      }),
    );
  });

  it('accepts nothing that JSON.parse refuses, and refuses nothing that it accepts', () => {
    const base = '{"a": [1, -2.5e3, true, null, "x\\u00e9\\n"], "b": {"c": ""}}';
    const mutation = fc.record({
      at: fc.nat({ max: base.length }),
      remove: fc.nat({ max: 3 }),
      insert: fc.oneof(fc.constantFrom(...Array.from('{}[],:"\\0.-e tf\n'), ''), fc.string({ maxLength: 3 })),
    });
    fc.assert(
      fc.property(mutation, ({ at, remove, insert }) => {
        const text = base.slice(0, at) + insert + base.slice(at + remove);
        let expected: unknown;
        let accepted = true;
        try {
          expected = JSON.parse(text);
        } catch {
          accepted = false;
        }
        const { tree, faults } = readJson(text);
        const isTwice = faults.some((fault) => fault.message.includes('twice'));
        assert.equal(tree !== undefined, accepted, text);
        if (tree !== undefined && !isTwice) assert.deepEqual(toPlain(tree), expected);
        for (const fault of faults) assert.ok(fault.at >= 0 && fault.at <= text.length);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('readYaml', () => {
  it('reads what the library reads', () => {
    const text =
      'a: [1, x, yes, ~, 0x10]\nb: &b {c: |\n  d\n}\n'.replace('{c: |\n  d\n}', '\n  c: |\n    d\n') +
      'e: *b\n';
    const { tree, faults } = readYaml(text);
    assert.deepEqual(faults, []);
    assert.ok(tree !== undefined);
    assert.deepEqual(toPlain(tree), parseYaml(text));
  });

  it('does not follow aliases without end', () => {
    const laughs = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
    for (const [name, of] of ['ba', 'cb', 'dc', 'ed', 'fe', 'gf', 'hg'].map((pair) => Array.from(pair))) {
      laughs.push(
        `${name ?? ''}: &${name ?? ''} [${Array.from({ length: 10 }, () => `*${of ?? ''}`).join(', ')}]`,
      );
    }
    assert.match(readYaml(laughs.join('\n')).faults[0]?.message ?? '', /too many values/);
    assert.ok(readYaml('a: &a [*a]').faults.length > 0);
  });
});

describe('LineIndex', () => {
  it('counts lines and characters as people do', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '\n', '😀', 'é') }), fc.nat(), (text, seed) => {
        const characters = Array.from(text);
        const index = characters.length === 0 ? 0 : seed % (characters.length + 1);
        const before = characters.slice(0, index).join('');
        const lines = before.split('\n');
        const expected = { line: lines.length, column: Array.from(lines.at(-1) ?? '').length + 1 };
        assert.deepEqual(new LineIndex(text).place(before.length), expected);
      }),
    );
  });
});
