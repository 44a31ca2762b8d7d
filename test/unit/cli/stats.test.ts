import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { renderStats } from '../../../src/cli/render/stats.js';
import { displayWidth } from '../../../src/cli/render/text.js';
import { alloc, look, row, usage } from './samples.js';

const plain = usage(4.1, 88, 256);
const troubled = usage(150, 250, 256);
const rows = [
  row({ alloc: alloc('7a1c9d2e'), usage: plain }),
  row({
    alloc: alloc('90be11f0'),
    usage: { ...troubled, Holdfast: { ...troubled.Holdfast, OOMKills: 2 } },
  }),
  row({
    alloc: alloc('c0ffee12'),
    usage: {
      ...plain,
      Holdfast: {
        ...usage(null, 1, null).Holdfast,
        MemoryPeakBytes: null,
        ThrottledMs: null,
        OOMKills: null,
      },
    },
  }),
];

describe('render of stats', () => {
  it('shows what is counted, and a dash for what is not', () => {
    const [head, ...lines] = renderStats(rows, look(Infinity)).map((line) => line.split(/\s{2,}/));
    assert.deepEqual(head?.slice(2), ['CPU', 'MEM/LIMIT', 'MEM', 'PEAK', 'PROCS', 'THROTTLED', 'OOM KILLS']);
    assert.deepEqual(lines[0]?.slice(2), ['4.1%', '88/256 MiB', '34.4%', '98 MiB', '1', '1s', '0']);
    assert.deepEqual(lines[1]?.slice(2), ['150%', '250/256 MiB', '97.7%', '260 MiB', '1', '1s', '2']);
    assert.deepEqual(lines[2]?.slice(2), ['-', '1 MiB', '-', '-', '1', '-', '-']);
  });

  it('fits any terminal', () => {
    for (const width of [20, 40, 60, 80, 120])
      for (const line of renderStats(rows, look(width))) assert.ok(displayWidth(line) <= width, line);
  });

  it('says so when nothing runs', () => {
    assert.deepEqual(renderStats([row({ alloc: alloc('7a1c9d2e') })], look(80)), ['nothing runs now']);
  });
});
