import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import {
  endOf,
  fromEnd,
  fromStart,
  fromTime,
  LineTail,
  logFileName,
  parseLogFileName,
  selectLogFiles,
  type FoundLogFile,
} from '../../../src/logs/files.js';

/** Files with these sizes, numbered from `first`, written to at 1000, 2000, … ms. */
function files(sizes: readonly number[], first = 0): FoundLogFile[] {
  return sizes.map((sizeBytes, index) => ({
    name: logFileName('web', 'stdout', first + index),
    number: first + index,
    isCompressed: false,
    sizeBytes,
    modifiedAtMs: (index + 1) * 1000,
  }));
}

describe('names of log files', () => {
  it('are parsed back, and nothing else is taken for one', () => {
    assert.equal(parseLogFileName('web.stdout.12', 'web', 'stdout'), 12);
    assert.equal(parseLogFileName('web.stdout.0', 'web', 'stdout'), 0);
    for (const name of [
      'web.stdout.',
      'web.stdout.01',
      'web.stdout.-1',
      'web.stdout.1.gz',
      'web.stdout.1e3',
      'web.stderr.1',
      'other.stdout.1',
      'web.stdout.9999999999999999',
      'web.stdout',
    ]) {
      assert.equal(parseLogFileName(name, 'web', 'stdout'), undefined, name);
    }
  });

  it('of a task with dots and of its namesakes are kept apart', () => {
    const names = ['a.stdout.stdout.1', 'a.stdout.0', 'a.stdout.stdout.0'];
    assert.deepEqual(
      selectLogFiles(names, 'a.stdout', 'stdout').map((file) => file.number),
      [0, 1],
    );
    assert.deepEqual(
      selectLogFiles(names, 'a', 'stdout').map((file) => file.name),
      ['a.stdout.0'],
    );
  });

  it('are ordered by number, not by text', () => {
    const names = ['w.stdout.10', 'w.stdout.9', 'w.stderr.1', 'w.stdout.100'];
    assert.deepEqual(
      selectLogFiles(names, 'w', 'stdout').map((file) => file.number),
      [9, 10, 100],
    );
  });
});

describe('places in the text', () => {
  it('count over all files, from either end', () => {
    const three = files([10, 20, 5], 7);
    assert.deepEqual(fromStart(three, 0), { fileNumber: 7, offsetBytes: 0 });
    assert.deepEqual(fromStart(three, 10), { fileNumber: 8, offsetBytes: 0 });
    assert.deepEqual(fromStart(three, 31), { fileNumber: 9, offsetBytes: 1 });
    assert.deepEqual(fromStart(three, 1000), { fileNumber: 9, offsetBytes: 5 });
    assert.deepEqual(fromEnd(three, 0), { fileNumber: 9, offsetBytes: 5 });
    assert.deepEqual(fromEnd(three, 6), { fileNumber: 8, offsetBytes: 19 });
    assert.deepEqual(fromEnd(three, 1000), { fileNumber: 7, offsetBytes: 0 });
    assert.deepEqual(endOf([]), { fileNumber: 0, offsetBytes: 0 });
    assert.deepEqual(fromEnd([], 9), { fileNumber: 0, offsetBytes: 0 });
  });

  it('by time begin with the first file that was still written to', () => {
    const three = files([1, 1, 1]);
    assert.deepEqual(fromTime(three, 0), { fileNumber: 0, offsetBytes: 0 });
    assert.deepEqual(fromTime(three, 1001), { fileNumber: 1, offsetBytes: 0 });
    assert.deepEqual(fromTime(three, 9999), { fileNumber: 2, offsetBytes: 1 });
  });

  it('lie as far apart as asked, whatever the sizes', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50), { minLength: 1 }), fc.nat(300), (sizes, offsetBytes) => {
        const found = files(sizes);
        const total = sizes.reduce((sum, size) => sum + size, 0);
        const absolute = (at: { fileNumber: number; offsetBytes: number }): number =>
          sizes.slice(0, at.fileNumber).reduce((sum, size) => sum + size, 0) + at.offsetBytes;
        assert.equal(absolute(fromStart(found, offsetBytes)), Math.min(offsetBytes, total));
        assert.equal(absolute(fromEnd(found, offsetBytes)), Math.max(0, total - offsetBytes));
      }),
    );
  });
});

describe('LineTail', () => {
  it('finds the last lines, however the text is cut into blocks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('a', 'bb', '\n', '\n\n', 'é'), { maxLength: 40 }),
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 7 }),
        (parts, blockBytes, count) => {
          const text = Buffer.from(parts.join(''));
          const tail = new LineTail(count);
          let begin = 0;
          for (let end = text.length; end > 0; end -= blockBytes) {
            const start = Math.max(0, end - blockBytes);
            const at = tail.takeBlock(text.subarray(start, end));
            if (at === undefined) continue;
            begin = start + at;
            break;
          }
          const lines = text.toString('latin1').match(/[^\n]*\n|[^\n]+$/g) ?? [];
          assert.equal(text.subarray(begin).toString('latin1'), lines.slice(-count).join(''));
        },
      ),
    );
  });
});
