import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SAMPLES_KEPT, UsageHistory, type UsageSample } from '../../../src/stats/history.js';
import { parseIoStat, parsePressure } from '../../../src/stats/procfs.js';
import { sparkline } from '../../../src/cli/render/sparkline.js';

function sample(task: string, atMs: number): UsageSample {
  const usage = {
    atMs,
    cpuPercent: atMs,
    cpuTotalMs: 0,
    memoryBytes: 0,
    memoryLimitBytes: undefined,
    processes: 1,
    memoryPeakBytes: undefined,
    throttledPeriods: undefined,
    throttledMs: undefined,
    oomKills: undefined,
    source: 'cgroup',
  } as const;
  return { allocId: 'a', jobId: 'j', task, usage };
}

describe('the history of usage', () => {
  it('keeps the newest samples of what runs, oldest first', () => {
    const history = new UsageHistory();
    for (let at = 1; at <= SAMPLES_KEPT + 5; at += 1) history.take([sample('t', at)]);
    const kept = history.of('a').get('t') ?? [];
    assert.equal(kept.length, SAMPLES_KEPT);
    assert.deepEqual([kept[0]?.atMs, kept.at(-1)?.atMs], [6, SAMPLES_KEPT + 5]);
  });

  it('takes a shared sample once, and forgets what has ended', () => {
    const history = new UsageHistory();
    history.take([sample('t', 1), sample('u', 1)]);
    history.take([sample('t', 1), sample('u', 2)]);
    assert.deepEqual(
      [...history.of('a')].map(([task, { length }]) => [task, length]),
      [
        ['t', 1],
        ['u', 2],
      ],
    );
    history.take([sample('u', 3)]);
    assert.deepEqual([...history.of('a').keys()], ['u']);
    history.take([]);
    assert.equal(history.of('a').size, 0);
  });
});

describe('io and pressure', () => {
  it('are read from the texts of cgroup v2', () => {
    const io = '8:0 rbytes=100 wbytes=20 rios=1 wios=2 dbytes=7 dios=0\n8:16 rbytes=5 wbytes=6 rios=1\n';
    assert.deepEqual(parseIoStat(io), { readBytes: 105, writeBytes: 26 });
    assert.deepEqual(parseIoStat(''), { readBytes: 0, writeBytes: 0 });
    assert.equal(parseIoStat(undefined), undefined);
    const pressure =
      'some avg10=12.34 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.00 avg60=0 avg300=0 total=1\n';
    assert.equal(parsePressure(pressure), 12.34);
    for (const text of [undefined, '', 'full avg10=3.00 avg60=0\n', 'some avg10=x avg60\n']) {
      assert.equal(parsePressure(text), undefined);
    }
  });
});

describe('a sparkline', () => {
  it('is as high as the highest value, and empty where nothing is known', () => {
    assert.equal(sparkline([0, 50, 100], 10), '▁▅█');
    assert.equal(sparkline([null, 0, 0.1], 10), ' ▁▁');
    assert.equal(sparkline([1, 2, 3, 4], 2), '▇█');
    assert.equal(sparkline([], 5), '');
  });
});
