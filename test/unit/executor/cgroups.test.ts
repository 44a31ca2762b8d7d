import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { systemClock } from '../../../src/base/clock.js';
import { isPopulated, killLeaf, removeLeaf, removeTree } from '../../../src/executor/cgroup-leaf.js';
import { cpuShares, cpuWeight, memoryLimits } from '../../../src/executor/cgroup-limits.js';
import { parseCgroupMounts, type CgroupMounts } from '../../../src/executor/cgroup-roots.js';
import { Cgroups, leafName } from '../../../src/executor/cgroups.js';
import { until } from '../../helpers/until.js';

const MIB = 1024 * 1024;

describe('limits', () => {
  it('take memory as the limit, or as a reservation below memory_max', () => {
    const cases: readonly (readonly [number, number | undefined, number | undefined, number | undefined])[] =
      [
        [64, undefined, 64 * MIB, undefined],
        [64, 0, 64 * MIB, undefined],
        [64, 128, 128 * MIB, 64 * MIB],
        [64, -1, undefined, 64 * MIB],
      ];
    for (const [memory, most, memoryMaxBytes, memoryReserveBytes] of cases)
      assert.deepEqual(memoryLimits(memory, most), { memoryMaxBytes, memoryReserveBytes });
  });

  it('take MHz for shares, within the range of the kernel', () => {
    assert.equal(cpuShares(500, 4000), 500);
    assert.equal(cpuShares(0, 4000), 2);
    assert.equal(cpuShares(300_000, 4000), 262_144);
    assert.equal(cpuShares(1000, 2 * 262_144), 500);
  });

  it('turn shares into weights as runc and crun do', () => {
    assert.equal(cpuWeight(0), 1);
    assert.equal(cpuWeight(2), 1);
    assert.equal(cpuWeight(1024), 100);
    assert.equal(cpuWeight(262_144), 10_000);
    const share = fc.integer({ min: 2, max: 262_144 });
    fc.assert(
      fc.property(share, share, (a, b) => {
        const [low, high] = a < b ? [a, b] : [b, a];
        assert.ok(cpuWeight(low) >= 1 && cpuWeight(high) <= 10_000 && cpuWeight(low) <= cpuWeight(high));
      }),
    );
  });
});

describe('the name of a leaf', () => {
  it('is one path component, whatever the task is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (task) => {
        const name = leafName({ allocId: '12345678-0000', task, runId: 'abcdef0123456789' });
        assert.match(name, /^12345678\.[A-Za-z0-9_.-]*\.abcdef01$/);
        assert.ok(name.length <= 255);
      }),
    );
  });
});

describe('the mounts', () => {
  it('are read from mountinfo', () => {
    const hybrid = parseCgroupMounts(
      [
        '31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755',
        '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct',
        '40 31 0:37 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd',
        '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
        '',
      ].join('\n'),
    );
    assert.equal(hybrid.unified, '/sys/fs/cgroup/unified');
    assert.equal(hybrid.v1.get('cpu'), '/sys/fs/cgroup/cpu,cpuacct');
    assert.equal(hybrid.v1.get('cpuacct'), '/sys/fs/cgroup/cpu,cpuacct');
    assert.equal(hybrid.v1.get('systemd'), '/sys/fs/cgroup/systemd');
    const nothing = parseCgroupMounts('garbage\n\n1 2 3');
    assert.deepEqual(nothing, { unified: undefined, v1: new Map() });
  });
});

describe('cgroups of this host', () => {
  const limits = {
    memoryMaxBytes: 64 * MIB,
    memoryReserveBytes: 32 * MIB,
    cpuShares: 512,
    cpuQuotaPercent: 150,
    pidsMax: 20,
    ...{ swapMax: 16 * MIB, cores: 0, ioWeight: undefined, ioReadBps: 8 * MIB, ioWriteBps: 4 * MIB },
  };

  it('G27: are none, with the reason, where nothing may be made', () => {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-cgroup-'));
    const none: CgroupMounts = { unified: undefined, v1: new Map() };
    const forbidden: CgroupMounts = {
      unified: '/proc/1/nowhere',
      v1: new Map([['memory', '/proc/1/nowhere']]),
    };
    for (const mounts of [none, forbidden]) {
      const cgroups = Cgroups.open({ root: 'x.slice', mounts });
      assert.equal(cgroups.mode, 'none');
      assert.notEqual(cgroups.missing.length, 0);
      assert.equal(cgroups.createLeaf('a', limits), undefined);
      assert.deepEqual(cgroups.executorProcs, []);
    }
    rmSync(dir, { recursive: true });
  });

  it('G27: are v2 where the one hierarchy is there; what it cannot limit is noted', () => {
    // A directory stands for a v2 tree whose kernel has no controllers: files appear as they are written.
    const mount = mkdtempSync(join(tmpdir(), 'holdfast-cgroup-'));
    const cgroups = Cgroups.open({ root: 'x.slice', mounts: { unified: mount, v1: new Map() } });
    assert.equal(cgroups.mode, 'v2');
    const created = cgroups.createLeaf('leaf', limits);
    assert.ok(created);
    assert.equal(created.leaf.unified, join(mount, 'x.slice/leaf'));
    assert.deepEqual(cgroups.executorProcs, [join(mount, 'x.slice/executors/cgroup.procs')]);
    rmSync(mount, { recursive: true });
  });

  it('are joined by `tasks` on v1, which does not wait for all processors', () => {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-cgroup-'));
    const [unified, memory] = [join(dir, 'unified'), join(dir, 'memory')];
    for (const mount of [unified, memory]) mkdirSync(mount);
    const cgroups = Cgroups.open({ root: 'x.slice', mounts: { unified, v1: new Map([['memory', memory]]) } });
    assert.deepEqual(cgroups.executorProcs, [
      join(unified, 'x.slice/executors/cgroup.procs'),
      join(memory, 'x.slice/executors/tasks'),
    ]);
    rmSync(dir, { recursive: true });
  });

  const root = `holdfast-test-${process.pid}-cgroups.slice`;
  const cgroups = Cgroups.open({ root });
  it(`hold, limit, kill and let go (this host and user: ${cgroups.mode})`, async () => {
    if (cgroups.mode === 'none') {
      assert.notEqual(cgroups.missing.length, 0);
      return;
    }
    const created = cgroups.createLeaf('leaf', limits);
    assert.ok(created);
    const { leaf } = created;
    const dirs = [...leaf.v1, ...(leaf.unified === undefined ? [] : [leaf.unified])];
    assert.deepEqual(created.unmet, []);
    const values = dirs.flatMap((dir) =>
      ['memory.limit_in_bytes', 'memory.max', 'pids.max', 'cpu.shares', 'cpu.weight', 'cpu.cfs_quota_us']
        .filter((file) => existsSync(join(dir, file)))
        .map((file) => readFileSync(join(dir, file), 'utf8').trim()),
    );
    for (const value of [String(64 * MIB), '20']) assert.ok(values.includes(value), values.join());
    assert.throws(() => cgroups.createLeaf('leaf', limits), { code: 'executor_failed' });
    assert.equal(isPopulated(leaf), false);

    const { spawn } = await import('node:child_process');
    const procs = dirs.map((dir) => `echo $$ > ${dir}/cgroup.procs;`).join(' ');
    const child = spawn('/bin/sh', ['-c', `${procs} echo in; sleep 600 & wait`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    try {
      await until('it is in', () => isPopulated(leaf));
      assert.equal(await removeLeaf(systemClock, leaf), false);
      assert.equal(await killLeaf(systemClock, leaf, 10_000), true);
      await ended;
      assert.equal(await removeLeaf(systemClock, leaf), true);
      assert.equal(await removeLeaf(systemClock, leaf), true);
      for (const dir of dirs) assert.equal(existsSync(dir), false);
    } finally {
      child.kill('SIGKILL');
      const { unified, v1 } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
      for (const mount of [unified, ...v1.values()])
        if (mount !== undefined) await until('removed', () => removeTree(join(mount, root)));
    }
  });
});
