import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { formatDuration, readDuration, readMib, readNanoseconds } from '../../../src/jobspec/units.js';

describe('readDuration', () => {
  const GOOD: readonly (readonly [string, number])[] = [
    ['0', 0],
    ['0s', 0],
    ['15s', 15_000],
    ['500ms', 500],
    ['1h30m', 5_400_000],
    ['1.1s', 1100],
    ['.5m', 30_000],
    ['1.s', 1000],
    ['+2s', 2000],
    ['2000us', 2],
    ['3000000ns', 3],
    ['1m1m', 120_000],
    [' 5s ', 5000],
    ['2562047h', 9_223_369_200_000],
  ];
  for (const [text, ms] of GOOD) {
    it(`${JSON.stringify(text)} is ${ms} ms`, () => {
      assert.deepEqual(readDuration(text), { ok: true, value: ms });
    });
  }

  const BAD: readonly (readonly [string, RegExp])[] = [
    ['', /empty/],
    ['15', /no unit/],
    ['1.5', /no unit/],
    ['-5s', /cannot be negative/],
    ['5 s', /use units/],
    ['5d', /unknown unit "d"/],
    ['5sec', /unknown unit "sec"/],
    ['s', /use units/],
    ['.s', /use units/],
    ['1m-5s', /use units/],
    ['1us', /whole milliseconds/],
    ['0.0001s', /whole milliseconds/],
    ['2562048h', /292 years/],
    ['9'.repeat(60) + 'h', /292 years/],
    ['9'.repeat(1000) + 'h', /too long/],
    ['5constructor', /unknown unit/],
    ['forever', /use units/],
  ];
  for (const [text, why] of BAD) {
    it(`${JSON.stringify(text.slice(0, 30))} is refused`, () => {
      const read = readDuration(text);
      assert.ok(!read.ok);
      assert.match(read.why, why);
    });
  }

  it('never throws', () => {
    fc.assert(fc.property(fc.string(), (text) => typeof readDuration(text).ok === 'boolean'));
  });

  it('reads back what formatDuration writes', () => {
    fc.assert(
      fc.property(fc.nat({ max: 9_223_372_036_854 }), (ms) => {
        assert.deepEqual(readDuration(formatDuration(ms)), { ok: true, value: ms });
      }),
    );
  });
});

describe('readNanoseconds', () => {
  it('gives back every number of milliseconds, also above 2^53 ns', () => {
    fc.assert(
      fc.property(fc.nat({ max: 9_223_372_036_854 }), (ms) => {
        assert.deepEqual(readNanoseconds(ms * 1e6), { ok: true, value: ms });
      }),
    );
  });

  it('refuses what is no number of milliseconds', () => {
    for (const ns of [-1, 0.5, 1, 1_500_001, 1e300]) assert.equal(readNanoseconds(ns).ok, false, String(ns));
  });
});

describe('readMib', () => {
  it('counts in MiB', () => {
    assert.deepEqual(
      ['256', '256MiB', '2GiB', '1.5 GiB', '1TiB'].map((text) => readMib(text)),
      [256, 256, 2048, 1536, 1024 * 1024].map((value) => ({ ok: true, value })),
    );
  });

  it('guesses nothing', () => {
    for (const text of ['', '256MB', '1.5', '0.1GiB', 'lots', '1e9'])
      assert.equal(readMib(text).ok, false, text);
  });
});
