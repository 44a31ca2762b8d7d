/** The text form of values: what comes back is what went in, or it is refused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { copyPlain, decodeJson, encodeJson } from '../../../src/state/json.js';

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '\u0000',
    '\u0000u',
    '\u0000s',
    '\u0000\u0000',
    'a"b',
    'a\\b',
    '\ud800',
    'x\udfff',
    '\u2028',
  ),
);
const key = fc.oneof(text, fc.constantFrom('__proto__', 'toString', '0', '10', 'length'));
const number = fc.double({ noNaN: true, noDefaultInfinity: true });

/** Values of every depth, made of what is plain to the store and of `leaf`. */
function valuesWith(leaf: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom<unknown>(undefined, null, true, false),
      text,
      leaf,
      fc.array(tie('value')),
      fc.dictionary(key, tie('value')).map((object) => ({ ...object })),
    ),
  })).value;
}

const kept = valuesWith(number.map((some) => some + 0));
/** What is stored as something else, and what is not stored at all. */
const odd = valuesWith(
  fc.oneof(
    number,
    fc.constantFrom<unknown>(-0, new Array(2), Object.assign(Object.create(null), { a: 1 })),
    fc.constantFrom<unknown>(NaN, -Infinity, 1n, Symbol('x'), new Date(0), new Map(), Object('boxed')),
  ),
);

/** The same form, said in terms of JSON.stringify: it is on disks since the first release. */
function encodeByReplacer(value: unknown): string {
  return JSON.stringify(value, function (this: Readonly<Record<string, unknown>>, name: string) {
    const raw = this[name];
    if (raw === undefined) return '\u0000u';
    if (typeof raw === 'string') return raw.startsWith('\u0000') ? `\u0000s${raw}` : raw;
    if (raw === null || typeof raw === 'boolean' || Array.isArray(raw)) return raw;
    if (typeof raw === 'number' && Number.isFinite(raw)) return raw;
    if (typeof raw === 'object' && isPlain(raw)) return raw;
    throw new TypeError('refused');
  });
}

function isPlain(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === Object.prototype || prototype === null;
}

/** What it gives, or the kind of its error. */
function outcomeOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error instanceof Error ? error.name : error;
  }
}

describe('encodeJson', () => {
  it('gives back any plain value, with undefined and NUL in it', () => {
    fc.assert(
      fc.property(kept, (given) => {
        assert.deepEqual(decodeJson(encodeJson(given)), given);
      }),
      { numRuns: 500 },
    );
  });

  it('writes JSON as everybody does, byte by byte', () => {
    fc.assert(
      fc.property(odd, (given) => {
        assert.equal(
          outcomeOf(() => encodeJson(given)),
          outcomeOf(() => encodeByReplacer(given)),
        );
      }),
      { numRuns: 1_000 },
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
    it(`refuses ${name}, and says where it is`, () => {
      assert.throws(() => encodeJson({ a: { b: value } }), { name: 'TypeError', message: /^b is / });
      assert.throws(() => copyPlain({ a: [value] }), { name: 'TypeError', message: /^0 is / });
    });
  }

  it('refuses what is within itself', () => {
    const ring: unknown[] = [];
    ring.push({ ring });
    assert.throws(() => encodeJson(ring));
  });
});

describe('copyPlain', () => {
  it('gives what the store would give back, or refuses as it does', () => {
    fc.assert(
      fc.property(odd, (given) => {
        assert.deepEqual(
          outcomeOf(() => copyPlain(given)),
          outcomeOf(() => decodeJson(encodeJson(given))),
        );
      }),
      { numRuns: 1_000 },
    );
  });

  it('shares nothing with what it was given', () => {
    const given = { list: [{ n: 1 }] };
    const copied = copyPlain(given);
    given.list[0] = { n: 2 };
    assert.deepEqual(copied, { list: [{ n: 1 }] });
    assert.notEqual(copied.list, given.list);
  });
});
