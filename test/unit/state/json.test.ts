/** The text form of values: what comes back is what went in, or it is refused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { decodeJson, encodeJson } from '../../../src/state/json.js';

describe('encodeJson', () => {
  it('gives back any plain value, with undefined and NUL in it', () => {
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<unknown>(undefined, null, true, false),
        fc.string({ unit: 'binary' }),
        fc.constantFrom('\u0000', '\u0000u', '\u0000s', '\u0000\u0000'),
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
        fc.array(tie('value')),
        fc.dictionary(fc.string(), tie('value')).map((object) => ({ ...object })),
      ),
    }));
    fc.assert(
      fc.property(value, (given) => {
        assert.deepEqual(decodeJson(encodeJson(given)), given);
      }),
      { numRuns: 500 },
    );
  });

  const refused: Readonly<Record<string, unknown>> = {
    NaN: NaN,
    infinity: -Infinity,
    'a function': () => 1,
    'a symbol': Symbol('x'),
    'a bigint': 1n,
    'a date': new Date(0),
    'a map': new Map(),
  };
  for (const [name, value] of Object.entries(refused)) {
    it(`refuses ${name}`, () => {
      assert.throws(() => encodeJson({ a: [value] }), TypeError);
    });
  }
});
