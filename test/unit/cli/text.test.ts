import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { displayWidth, pad, sanitize, truncate, truncateMiddle, wrap } from '../../../src/cli/render/text.js';
import {
  formatAge,
  formatMemory,
  formatMemoryOf,
  formatTime,
  formatWait,
} from '../../../src/cli/render/units.js';
import { DAY, HOUR, MINUTE, NOW_MS, SECOND } from './samples.js';

describe('text', () => {
  it('is counted in columns', () => {
    assert.equal(displayWidth('abc'), 3);
    assert.equal(displayWidth('日本'), 4);
    assert.equal(displayWidth('e\u0301'), 1);
    assert.equal(displayWidth('👍'), 2);
    assert.equal(displayWidth('●…·'), 3);
  });

  it('is cut to columns, never through a wide letter', () => {
    assert.equal(truncate('日本語', 5), '日本…');
    assert.equal(truncate('日本語', 4), '日…');
    assert.equal(truncate('日本語', 6), '日本語');
    assert.equal(truncate('abc', 0), '');
    assert.equal(truncateMiddle('frontend/api/server', 19), 'frontend/api/server');
    assert.equal(truncateMiddle('frontend/api/server', 12), 'fronte…erver');
    assert.equal(truncateMiddle('日本語日本語', 8), '日本…語');
    assert.equal(truncateMiddle('abcdef', 3), 'ab…');
    assert.equal(pad('日本', 6), '日本  ');
    assert.equal(pad('12', 4, 'right'), '  12');
  });

  it('loses what could harm the terminal, and nothing else', () => {
    assert.equal(sanitize('\x1b[31mred\x1b[0m and \x1b]0;title\x07plain'), 'red and plain');
    assert.equal(sanitize('a\tb'), 'a  b');
    assert.equal(sanitize('a\r\nb\x00c'), 'a··b·c');
    assert.equal(sanitize('abc\u202etxt'), 'abc·txt');
    assert.equal(sanitize('größe 日本 👍'), 'größe 日本 👍');
  });
});

describe('wrapping', () => {
  it('loses nothing but spaces at the breaks, and keeps to the width', () => {
    assert.deepEqual(wrap('cannot run /no/such/program: no such file', 16), [
      'cannot run',
      '/no/such/program',
      ': no such file',
    ]);
    assert.deepEqual(wrap('ein wort', 80), ['ein wort']);
    assert.deepEqual(wrap('日本語', 5, 2), ['日本', '語']);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 2, max: 20 }), (raw, width) => {
        const text = sanitize(raw);
        const lines = wrap(text, width);
        assert.equal(lines.join('').replaceAll(' ', ''), text.replaceAll(' ', ''));
        for (const line of lines) assert.ok(displayWidth(line) <= width, JSON.stringify(line));
      }),
    );
  });
});

describe('units', () => {
  it('show ages with their two largest parts', () => {
    const table: readonly (readonly [number, string])[] = [
      [0, '0ms'],
      [850, '850ms'],
      [12_900, '12s'],
      [4 * MINUTE + 10 * SECOND, '4m10s'],
      [3 * HOUR + 2 * MINUTE, '3h2m'],
      [3 * DAY + 2 * HOUR, '3d2h'],
      [41 * DAY + HOUR, '41d'],
      [-5, '0ms'],
    ];
    for (const [ms, expected] of table) assert.equal(formatAge(ms), expected);
    assert.equal(formatWait(11_001), '12s');
    assert.equal(formatWait(-1), '0s');
  });

  it('show the date of another day only', () => {
    assert.equal(formatTime(NOW_MS - HOUR, NOW_MS), '13:00:12');
    assert.equal(formatTime(NOW_MS - DAY, NOW_MS), '2026-11-20 14:00:12');
  });

  it('show memory in MiB', () => {
    assert.equal(formatMemory(1_572_864), '1.5 MiB');
    assert.equal(formatMemoryOf(88 * 1024 * 1024, 256 * 1024 * 1024), '88/256 MiB');
    assert.equal(formatMemoryOf(88 * 1024 * 1024, null), '88 MiB');
  });
});
