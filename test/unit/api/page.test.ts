/** Filters and pages of lists. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { parseFilter } from '../../../src/api/filter.js';
import { cutPage } from '../../../src/api/page.js';
import { Query } from '../../../src/api/query.js';
import { AgentError } from '../../../src/base/errors.js';

const ITEM = {
  ID: 'web-1',
  Status: 'running',
  Version: 3,
  Stop: false,
  Datacenters: ['dc1', 'dc2'],
  Meta: { owner: 'ann' },
  Empty: '',
  Nothing: null,
};

describe('filter', () => {
  it('takes what stands in its table', () => {
    for (const [text, expected] of [
      ['Status == "running"', true],
      ['Status == running', true],
      ['Status != "running"', false],
      ['Version == 3', true],
      ['Stop == false and Version == 3', true],
      ['Stop == true or Version == 3', true],
      ['Stop == true or Version == 3 and Status == dead', false],
      ['(Stop == true or Version == 3) and not Status == dead', true],
      ['not (Status == "running")', false],
      ['ID contains "eb-"', true],
      ['ID not contains `eb-`', false],
      ['Datacenters contains dc2', true],
      ['"dc2" in Datacenters', true],
      ['"dc9" not in Datacenters', true],
      ['"owner" in Meta', true],
      ['Meta.owner == "ann"', true],
      ['Empty is empty and Nothing is empty', true],
      ['Meta is not empty', true],
      ['ID == "a \\"b\\""', false],
    ] as const) {
      assert.equal(parseFilter(text)(ITEM), expected, text);
    }
  });

  it('refuses the rest, saying what', () => {
    for (const [text, words] of [
      ['Status matches "r.*"', /after Status comes/],
      ['Status ==', /a value is missing/],
      ['Status', /after Status comes/],
      ['Nope == 1', /no field "Nope"/],
      ['__proto__ == 1', /no field/],
      ['Meta == 1', /no single value/],
      ['(Status == running', /"\)" is missing/],
      ['Status == running)', /not expected/],
      ['Status == running and', /missing/],
      ['Status = running', /cannot read/],
      ['"x" is empty', /"in"/],
      ['('.repeat(100), /within one another/],
      ['a'.repeat(5000), /at most/],
    ] as const) {
      assert.throws(() => parseFilter(text)(ITEM), { code: 'bad_request', message: words }, text);
    }
  });

  it('throws nothing but AgentError, whatever the text', () => {
    const word = fc.constantFrom(
      'Status',
      '==',
      '!=',
      'and',
      'or',
      'not',
      '(',
      ')',
      'in',
      'is',
      'empty',
      '"x"',
      '3',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(word).map((words) => words.join(' ')),
        ),
        (text) => {
          try {
            parseFilter(text)(ITEM);
          } catch (error) {
            assert.ok(error instanceof AgentError, String(error));
          }
        },
      ),
    );
  });
});

describe('pages', () => {
  it('give each item once, in order, whatever is added and removed meanwhile', () => {
    const ids = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,3}$/), { maxLength: 30 });
    fc.assert(
      fc.property(
        ids,
        ids,
        fc.integer({ min: 1, max: 7 }),
        fc.boolean(),
        fc.constantFrom('id', 'created'),
        (stay, go, perPage, reverse, order) => {
          const staying = stay.filter((id) => !go.includes(id));
          const make = (names: readonly string[]): unknown[] =>
            names.map((ID) => ({ ID, CreateIndex: (ID.charCodeAt(0) * 7) % 5 }));
          const seen: string[] = [];
          let token: string | undefined;
          let round = 0;
          do {
            // The others come and go between the pages.
            const there = make(round % 2 === 0 ? [...staying, ...go] : staying);
            const query = new Query(
              `/x?per_page=${perPage}&next_token=${token ?? ''}&reverse=${String(reverse)}`,
            );
            const page = cutPage(there, query, order);
            assert.ok(page.items.length <= perPage);
            seen.push(...page.items.map((item) => (item as { ID: string }).ID));
            token = page.nextToken;
            round += 1;
          } while (token !== undefined);
          assert.equal(new Set(seen).size, seen.length);
          const whole = cutPage(
            make(staying),
            new Query(`/x?per_page=1000&reverse=${String(reverse)}`),
            order,
          );
          assert.deepEqual(
            seen.filter((id) => !go.includes(id)),
            whole.items.map((item) => (item as { ID: string }).ID),
          );
        },
      ),
    );
  });

  it('refuse a token that is none', () => {
    assert.throws(() => cutPage([], new Query('/x?next_token=foo'), 'created'), { code: 'bad_request' });
  });
});
