import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import {
  cpuPercentBetween,
  parseBlkioBytes,
  parseCpuacctMs,
  parseCpuStatMs,
  parseIoStat,
  parseKeyed,
  parseMemoryLimit,
  parseNumber,
  parseThrottling,
  workingSetBytes,
} from '../../../src/stats/procfs.js';

describe('usage texts of the kernel', () => {
  it('are read', () => {
    assert.equal(parseCpuStatMs('usage_usec 1234567\nuser_usec 1000000\n'), 1234.567);
    assert.equal(parseCpuacctMs('1234567890\n'), 1234.56789);
    assert.equal(parseMemoryLimit('67108864\n'), 67108864);
    assert.equal(parseMemoryLimit('max\n'), undefined);
    assert.equal(parseMemoryLimit('9223372036854771712\n'), undefined);
    assert.equal(parseKeyed('oom 1\noom_kill 2\n', 'oom_kill'), 2);
  });

  it('tell throttling in the units of v2 and of v1', () => {
    const v2 = 'usage_usec 9\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2500\n';
    assert.deepEqual(parseThrottling(v2), { periods: 3, ms: 2.5 });
    const v1 = 'nr_periods 7\nnr_throttled 3\nthrottled_time 2500000\n';
    assert.deepEqual(parseThrottling(v1), { periods: 3, ms: 2.5 });
    assert.deepEqual(parseThrottling('usage_usec 9\n'), { periods: undefined, ms: undefined });
  });

  it('tell the bytes of all block devices, of v2 and of v1', () => {
    const v2 = '254:0 rbytes=4096 wbytes=2097152 rios=1 wios=8\n8:0 rbytes=1 wbytes=2 rios=1 wios=1\n';
    assert.deepEqual(parseIoStat(v2), { readBytes: 4097, writeBytes: 2097154 });
    const device = (id: string, read: number, write: number): string =>
      `${id} Read ${read}\n${id} Write ${write}\n${id} Sync 9\n${id} Discard 7\n${id} Total ${read + write}\n`;
    const v1 = `${device('254:0', 4096, 2097152)}${device('8:0', 1, 2)}Total 2101251\n`;
    assert.deepEqual(parseBlkioBytes(v1), { readBytes: 4097, writeBytes: 2097154 });
    assert.equal(parseBlkioBytes('Total 0\n'), undefined);
    assert.equal(parseBlkioBytes(undefined), undefined);
  });

  it('that are not there or not numbers are undefined, never 0', () => {
    for (const text of [undefined, '', '-1', '1 2', 'max', '0x10'])
      assert.equal(parseNumber(text), undefined);
    fc.assert(fc.property(fc.string(), (text) => (parseNumber(text) ?? 0) >= 0));
  });

  it('count memory less idle file cache, over the whole tree', () => {
    assert.equal(workingSetBytes(100, 'inactive_file 30\n'), 70);
    assert.equal(workingSetBytes(100, 'inactive_file 30\ntotal_inactive_file 60\n'), 40);
    assert.equal(workingSetBytes(100, 'inactive_file 130\n'), 0);
    assert.equal(workingSetBytes(100, undefined), 100);
  });

  it('give percent of one core between two readings', () => {
    const at = (monoMs: number, cpuTotalMs: number) => ({ monoMs, cpuTotalMs });
    assert.equal(cpuPercentBetween(at(0, 0), at(1000, 1500)), 150);
    assert.equal(cpuPercentBetween(at(0, 10), at(1000, 5)), 0);
    assert.equal(cpuPercentBetween(at(5, 0), at(5, 10)), undefined);
  });
});
