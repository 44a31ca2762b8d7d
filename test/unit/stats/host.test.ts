import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cpuShareBetween, findMount, parseMeminfo } from '../../../src/stats/host.js';

describe('usage of the host', () => {
  it('memory from /proc/meminfo', () => {
    const text = 'MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n';
    assert.deepEqual(parseMeminfo(text), {
      totalBytes: 1_024_000,
      availableBytes: 614_400,
      freeBytes: 102_400,
    });
    const old = 'MemTotal:       1000 kB\nMemFree:         100 kB\n';
    assert.equal(parseMeminfo(old).availableBytes, 102_400);
  });

  it('a share of a processor is that between two readings', () => {
    const before = { user: 10, nice: 0, sys: 10, idle: 100, irq: 0 };
    const after = { user: 30, nice: 10, sys: 20, idle: 160, irq: 0 };
    assert.deepEqual(cpuShareBetween(before, after), { userPercent: 30, systemPercent: 10, idlePercent: 60 });
    assert.equal(cpuShareBetween(after, after).idlePercent, 100);
  });

  it('the mount of a path is the deepest, and the last at one place', () => {
    const mountinfo = [
      '1 0 8:1 / / rw - ext4 /dev/root rw',
      '2 1 8:2 / /var rw - ext4 /dev/old rw',
      '3 1 8:3 / /var rw - xfs /dev/var rw',
      '4 1 8:4 / /var/lib\\040x rw - ext4 /dev/x rw',
      '',
    ].join('\n');
    assert.deepEqual(findMount(mountinfo, '/var/lib/a'), { device: '/dev/var', mountPoint: '/var' });
    assert.deepEqual(findMount(mountinfo, '/var/lib x/a'), { device: '/dev/x', mountPoint: '/var/lib x' });
    assert.deepEqual(findMount(mountinfo, '/variable'), { device: '/dev/root', mountPoint: '/' });
  });
});
