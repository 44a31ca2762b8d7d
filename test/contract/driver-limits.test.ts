/**
 * Limits that only some kernels have: cores of its own, swap, disk I/O. For raw_exec and exec; what this host cannot do is
 * refused, or told.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { describeError } from '../../src/base/errors.js';
import type { Driver, DriverHandle, TaskConfig } from '../../src/drivers/driver.js';
import { inForceOfState } from '../../src/executor/in-force-record.js';
import { leafPids, type CgroupLeaf } from '../../src/executor/cgroup-leaf.js';
import { leafName } from '../../src/executor/cgroups.js';
import { parseCores } from '../../src/executor/cores.js';
import { DEFAULTS } from '../../src/jobspec/defaults.js';
import type { Resources } from '../../src/jobspec/types.js';
import { DriverWorld, kill, lives } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const SIGKILL = 9;
const MIB = 2 ** 20;
const world = await DriverWorld.open();
const { mode, controllers, features } = world.deps.cgroups;
const usable = parseCores(
  /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '',
).length;
const hasCores = controllers.has('cpuset') && usable > 1;

/** `exec` refuses a limit that was asked for and cannot be had; that of the default was not. */
const ASKS_NOTHING: Partial<Resources> = mode === 'none' ? { memoryMib: DEFAULTS.memoryMib.value } : {};

const limitsOf = (handle: DriverHandle) => inForceOfState(handle.ref.driverState)?.limits;
const allowedTo = (pid: number): string =>
  /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';

/** Where the leaf is now. */
const dirsOf = ({ unified, v1 }: CgroupLeaf): string[] =>
  [...v1, unified].filter((dir): dir is string => dir !== undefined && existsSync(dir));

async function task(resources: Partial<Resources>, script = 'echo ready; sleep 600'): Promise<TaskConfig> {
  const config = await world.shell(script);
  return { ...config, resources: { ...config.resources, ...resources } };
}

async function start(driver: Driver, config: TaskConfig): Promise<DriverHandle> {
  const handle = world.keep(await driver.start(config, world.emit));
  await world.says(config, /ready/);
  return handle;
}

async function end(handle: DriverHandle): Promise<void> {
  await handle.stop({ signal: SIGKILL, graceMs: 0 });
  await handle.wait();
  await handle.release();
}

describe(`limits beyond memory and CPU (this host and user: ${mode}, ${usable} cores)`, () => {
  after(() => world.close());

  for (const name of ['raw_exec', 'exec'] as const) {
    const driver = (): Driver => (name === 'exec' ? world.execDriver() : world.driver());

    it(`G26: ${name}: cores are its own, changed while it runs, and everybody's again afterwards`, async () => {
      const config = await task({ cores: 1 });
      if (!hasCores) {
        await assert.rejects(driver().start(config, world.emit), /cores/);
        return;
      }
      const handle = await start(driver(), config);
      const own = limitsOf(handle)?.cpus ?? '';
      assert.equal(parseCores(own).length, 1);
      const pid = handle.ref.workload?.pid ?? 0;
      assert.equal(allowedTo(pid), own);
      // One stays for all others: nobody else gets this one, nor can it have all.
      const refused = await task({ cores: usable });
      await assert.rejects(
        driver().start(refused, world.emit),
        /cores are asked for, and of the \d+ of this host/,
      );
      assert.equal(existsSync(join(world.deps.runsDir, refused.runId.slice(0, 2), refused.runId)), false);
      if (usable === 2)
        await assert.rejects(
          driver().start(await task({ cores: 1 }), world.emit),
          (error: { recoverable?: boolean; message: string }) =>
            error.recoverable === true && error.message.includes('1 cores are asked for, and 0 are free'),
        );
      else assert.deepEqual(handle.changeLimits?.({ ...config.resources, cores: 2 }), []);
      assert.match(handle.changeLimits?.({ ...config.resources, cores: usable }).join() ?? '', /one stays/);
      assert.equal(allowedTo(pid), limitsOf(handle)?.cpus);
      await end(handle);
      // Also when one that was refused is asked for again.
      const again = await start(driver(), await task({ cores: 1 }));
      await end(again);
    });

    it(`G26: ${name}: swap is counted, changed while it runs, and read back`, async () => {
      const config = await task({ memorySwapMib: 16 });
      if (!features.has('swap')) {
        if (name === 'exec') await assert.rejects(driver().start(config, world.emit), /swap/);
        return;
      }
      const handle = await start(driver(), config);
      assert.equal(limitsOf(handle)?.swapMaxBytes, 16 * MIB);
      // Both at once, up and down: v1 has an order for it.
      for (const [memoryMib, memorySwapMib] of [
        [128, 64],
        [64, 0],
      ] as const) {
        const more = { ...config.resources, memoryMib, memorySwapMib };
        assert.deepEqual(handle.changeLimits?.(more), []);
        assert.equal(limitsOf(handle)?.swapMaxBytes, memorySwapMib * MIB);
        assert.equal(limitsOf(handle)?.memoryMaxBytes, memoryMib * MIB);
      }
      const free = { ...config.resources, memoryMaxMib: -1, memorySwapMib: -1 };
      assert.deepEqual(handle.changeLimits?.(free), []);
      assert.deepEqual(limitsOf(handle)?.swapMaxBytes, undefined);
      await end(handle);
    });

    it(`G26: ${name}: disk I/O is limited on every disk, changed while it runs, and read back`, async () => {
      const config = await task({ ioReadMib: 50, ioWriteMib: 20 });
      if (!controllers.has('io') || readdirSync('/sys/block').length === 0) {
        if (name === 'exec') await assert.rejects(driver().start(config, world.emit), /disks|io_read/);
        return;
      }
      const handle = await start(driver(), config);
      assert.equal(limitsOf(handle)?.ioReadBps, 50 * MIB);
      assert.equal(limitsOf(handle)?.ioWriteBps, 20 * MIB);
      const { ioWriteMib: gone, ...less } = config.resources;
      assert.equal(gone, 20);
      assert.deepEqual(handle.changeLimits?.({ ...less, ioReadMib: 10 }), []);
      assert.equal(limitsOf(handle)?.ioReadBps, 10 * MIB);
      assert.equal(limitsOf(handle)?.ioWriteBps, undefined);
      await end(handle);
    });

    it(`G26: ${name}: the share of the disks is set, or refused with the reason; where no disk heeds it, that is told`, async () => {
      const config = await task({ ioWeight: 300 });
      const before = world.events.length;
      const handle = await start(driver(), config).catch((error: unknown) => {
        assert.equal(name, 'exec');
        assert.match(describeError(error), /bfq|cgroup/);
      });
      if (handle === undefined) {
        assert.ok(!features.has('io_weight'));
        return;
      }
      const { ioWeight, ioWeightIdle } = limitsOf(handle) ?? {};
      const files = (inForceOfState(handle.ref.driverState)?.cgroups ?? []).flatMap((dir) =>
        readdirSync(dir),
      );
      const isSet = files.some((file) => /^(blkio|io)\.(bfq\.)?weight$/.test(file));
      // Where no disk has bfq or iocost it is no wall that is missing: the task runs, and is told.
      const isHeeded = features.has('io_weight');
      assert.equal(ioWeight, isSet && isHeeded ? 300 : undefined);
      assert.equal(ioWeightIdle, isSet && !isHeeded ? 300 : undefined);
      const isTold = world.events
        .slice(before)
        .some((event) => event.type === 'Driver' && event.message.includes('share of the disks'));
      assert.equal(isTold, !isHeeded);
      await end(handle);
    });
  }

  it('G26: a disk is really written as slowly as was asked for', async (t) => {
    const script =
      'echo ready; dd if=/dev/zero of="$NOMAD_ALLOC_DIR/slow" bs=256k count=8 oflag=direct 2>&1; echo over';
    const config = await task({ ioWriteMib: 1 }, script);
    const env = { ...config.env, NOMAD_ALLOC_DIR: config.dirs.allocDir };
    const handle = world.keep(await world.driver().start({ ...config, env }, world.emit));
    const report = await handle.wait();
    await world.says(config, /over/);
    if (controllers.has('io') && limitsOf(handle)?.ioWriteBps !== undefined) {
      // 2 MiB at 1 MiB a second; the kernel lets the first of them go at once.
      assert.ok((report.ranForMs ?? 0) > 500, `it took ${String(report.ranForMs)} ms`);
    } else {
      t.diagnostic('no io controller for this user');
    }
    await handle.release();
  });

  it('what a task reads and writes of disks is counted once it has limits of that, also if it got them later', async (t) => {
    const script = [
      'echo ready; until [ -e "$NOMAD_ALLOC_DIR/go" ]; do sleep 0.01; done',
      'dd if=/dev/zero of="$NOMAD_ALLOC_DIR/counted" bs=256k count=8 oflag=direct 2>&1; echo over; sleep 600',
    ].join('\n');
    const config = await task({}, script);
    const env = { ...config.env, NOMAD_ALLOC_DIR: config.dirs.allocDir };
    const handle = await start(world.driver(), { ...config, env });
    const unmet = handle.changeLimits?.({ ...config.resources, ioWriteMib: 50 }) ?? [];
    writeFileSync(join(config.dirs.allocDir, 'go'), '');
    await world.says(config, /over/);
    // File systems without a device of their own, as tmpfs, have major number 0.
    const isOnDisk = statSync(config.dirs.allocDir).dev > 0xff;
    if (unmet.length === 0 && controllers.has('io') && isOnDisk) {
      const written = await until('it is counted', async () => (await handle.usage())?.ioWriteBytes);
      assert.ok(written >= 2 * MIB, `${written} bytes`);
    } else {
      t.diagnostic('no io controller for this user, or no disk');
    }
    await end(handle);
  });

  for (const name of ['raw_exec', 'exec'] as const) {
    const driver = (): Driver => (name === 'exec' ? world.execDriver() : world.driver());

    it(`G26: ${name}: what was not asked for at the start is had at once, by the whole tree and whoever joins it, and found again`, async () => {
      // Its processes replace themselves all the time; one is in a session of its own.
      const config = await task(
        ASKS_NOTHING,
        'setsid sleep 600 & while :; do sleep 0.01 & wait $!; done & echo ready; exec sleep 600',
      );
      const handle = await start(driver(), config);
      const stored = world.record(config, handle);
      const more = { ...config.resources, cores: 1, ioReadMib: 10, ioWriteMib: 5 };
      const unmet = handle.changeLimits?.(more) ?? [];
      if (mode === 'none') {
        assert.match(unmet.join(), /no cgroup/);
        await end(handle);
        return;
      }
      const hasIo = controllers.has('io') && readdirSync('/sys/block').length > 0;
      assert.deepEqual(
        unmet.filter((why) => !/no cpuset|no io controller|no disk/.test(why)),
        [],
      );
      assert.equal(limitsOf(handle)?.ioReadBps, hasIo ? 10 * MIB : undefined);
      const own = limitsOf(handle)?.cpus;
      assert.equal(own !== undefined, hasCores);
      const leaf = world.deps.cgroups.leafOf(leafName(config));
      const groups = [
        ...leaf.v1.filter((dir) => existsSync(dir)).map((dir) => ({ unified: undefined, v1: [dir] })),
        leaf,
      ];
      const before = leafPids(leaf);
      const seen = groups.map(leafPids);
      const lasting = before.filter((pid) => lives(pid));
      assert.ok(lasting.length >= 3, `of the tree there is ${before.join()}`);
      for (const pids of seen)
        assert.deepEqual(
          lasting.filter((pid) => !pids.includes(pid)),
          [],
        );
      if (hasCores) for (const pid of lasting) assert.equal(allowedTo(pid), own);

      const session = await handle.exec?.('/bin/sh', ['-c', 'grep Cpus_allowed_list /proc/self/status'], {
        timeoutMs: 30_000,
      });
      if (hasCores) assert.match(session?.output ?? '', new RegExp(`\\s${String(own)}\n`));

      // The first agent died before it had stored where the leaf is now.
      handle.detach();
      const recovered = await driver().recover(stored, world.emit);
      assert.equal(recovered.kind, 'running');
      const later = world.keep(recovered.handle);
      const change = (to: Resources): readonly string[] => later.changeLimits?.(to) ?? ['not to be changed'];
      assert.deepEqual(change(more), unmet);
      assert.deepEqual(limitsOf(later), limitsOf(handle));
      const [why = ''] = change(config.resources);
      assert.equal(why, '');
      assert.equal(limitsOf(later)?.cpus, undefined);
      await end(later);
      assert.deepEqual(dirsOf(leaf), []);
    });

    it(`G26: ${name}: of what it has joined while it ran nothing stays, whoever ends it, and its executor may die`, async () => {
      const config = await task(ASKS_NOTHING);
      const handle = await start(driver(), config);
      const stored = world.record(config, handle);
      handle.changeLimits?.({ ...config.resources, ioReadMib: 10 });
      handle.detach();
      const executor = handle.ref.executor?.pid ?? 0;
      kill(executor, 'SIGKILL');
      await until('its executor is gone', () => !lives(executor));
      const recovered = await driver().recover(stored, world.emit);
      assert.equal(recovered.kind, 'running');
      await end(world.keep(recovered.handle));
      assert.deepEqual(dirsOf(world.deps.cgroups.leafOf(leafName(config))), []);
    });
  }
});
