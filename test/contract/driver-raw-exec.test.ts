/** What raw_exec promises beyond every driver: programs, places, limits, figures, failures in words. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, symlinkSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { systemClock } from '../../src/base/clock.js';
import type { TaskConfig } from '../../src/drivers/driver.js';
import type { TaskUsage } from '../../src/stats/usage.js';
import { leafName } from '../../src/executor/cgroups.js';
import { readLimits } from '../../src/executor/leaf-limits.js';
import { DriverWorld, lives } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const { SIGKILL, SIGTERM, SIGUSR1 } = constants.signals;
const DEEP = 'deep'.repeat(20);

const worlds = [
  await DriverWorld.open(),
  await DriverWorld.open({ cgroups: false, subDir: `${DEEP}/${DEEP}` }),
];

describe('raw_exec', { concurrency: 2, timeout: 120_000 }, () => {
  for (const world of worlds) suite(world);
});

function suite(world: DriverWorld): void {
  const { mode, controllers } = world.deps.cgroups;
  const run = async (config: TaskConfig): Promise<string> => {
    const handle = world.keep(await world.driver().start(config, world.emit));
    const { result } = await handle.wait();
    await handle.release();
    assert.deepEqual(result, { kind: 'exited', code: 0, oomKilled: false });
    return world.stdout(config);
  };
  const fails = async (config: TaskConfig): Promise<Error> => {
    const handle = await world
      .driver()
      .start(config, world.emit)
      .then(
        (started) => world.keep(started),
        (error: unknown) => error,
      );
    assert.ok(handle instanceof Error, 'it started');
    return handle;
  };

  describe(`with cgroups ${mode}`, () => {
    after(() => world.close());

    it('gives the task its arguments, environment and directory, and nothing of ours', async () => {
      const config = await world.task({
        config: {
          command: 'sh',
          args: ['-c', 'pwd; echo "$0|$1|$2"; env | sort; ls -l /proc/$$/fd | wc -l', 'a b', '', '$X'],
        },
        env: { PATH: '/usr/bin:/bin', A: '1', HOLDFAST_RUN_ID: 'somebody else' },
      });
      const lines = (await run(config)).trimEnd().split('\n');
      assert.equal(lines[0], config.dirs.taskDir);
      assert.equal(lines[1], 'a b||$X');
      const env = lines.slice(2, -1).filter((line) => !/^(PWD|OLDPWD|SHLVL|_)=/.test(line));
      assert.deepEqual(env, ['A=1', `HOLDFAST_RUN_ID=${config.runId}`, 'PATH=/usr/bin:/bin']);
    });

    it('finds a program in local, in the task directory, on the PATH of the task', async () => {
      const config = await world.task({ config: { command: 'greet' } });
      const script = (path: string, text: string): void => {
        writeFileSync(path, `#!/bin/sh\necho ${text}\n`);
        chmodSync(path, 0o755);
      };
      script(join(config.dirs.taskDir, 'greet'), 'task');
      assert.equal(await run(config), 'task\n');
      const local = await world.task({ config: { command: 'greet' } });
      script(join(local.dirs.taskDir, 'greet'), 'task');
      script(join(local.dirs.localDir, 'greet'), 'local');
      assert.equal(await run(local), 'local\n');
    });

    it('says in words why a start failed, and leaves nothing', async () => {
      const plain = await world.task({ config: { command: 'plain.txt' } });
      writeFileSync(join(plain.dirs.localDir, 'plain.txt'), 'no program');
      const noLoader = await world.task({ config: { command: 'broken' } });
      writeFileSync(join(noLoader.dirs.localDir, 'broken'), '#!/nonexistent/interpreter\n');
      chmodSync(join(noLoader.dirs.localDir, 'broken'), 0o755);
      const cases: readonly (readonly [TaskConfig, RegExp])[] = [
        [
          await world.task({ config: { command: 'no-such-program' } }),
          /no program "no-such-program" in the task's directory or its PATH, .*\/usr\/bin/,
        ],
        [plain, /plain\.txt is there, but is not executable/],
        [noLoader, /cannot run .*broken: .*ENOENT.*interpreter/],
        [await world.task({ config: { command: '/etc/passwd' } }), /cannot run \/etc\/passwd: .*EACCES/],
        [
          await world.task({ config: { command: '/bin/true', work_dir: '/nonexistent' } }),
          /working directory \/nonexistent: .*ENOENT/,
        ],
        [await world.shell('exit 0', { user: 'no-such-user' }), /there is no user no-such-user/],
      ];
      for (const [config, message] of cases) {
        const error = await fails(config);
        assert.match(error.message, message);
        assert.equal('code' in error ? error.code : '', 'start_failed');
        assert.equal(existsSync(join(world.deps.runsDir, config.runId.slice(0, 2), config.runId)), false);
        const { unified, v1 } = world.deps.cgroups.leafOf(
          `${config.allocId.slice(0, 8)}.web.${config.runId.slice(0, 8)}`,
        );
        for (const dir of [...v1, unified]) if (dir !== undefined) assert.equal(existsSync(dir), false);
      }
    });

    it('delivers signals to the leader', async () => {
      const config = await world.shell(
        'trap "echo got; exit 0" USR1; echo ready; while :; do sleep 0.02; done',
      );
      const handle = world.keep(await world.driver().start(config, world.emit));
      await world.says(config, /ready/);
      await handle.signal(SIGUSR1);
      assert.deepEqual((await handle.wait()).result, { kind: 'exited', code: 0, oomKilled: false });
      assert.match(world.stdout(config), /got/);
      await handle.release();
    });

    it('kills what outlives its leader, or keeps it, as the task says', async () => {
      for (const leftovers of ['kill', 'keep'] as const) {
        const config = await world.shell('setsid sleep 600 >/dev/null 2>&1 & echo "child $!"', { leftovers });
        const handle = world.keep(await world.driver().start(config, world.emit));
        const report = await handle.wait();
        const child = Number(/child (\d+)/.exec(world.stdout(config))?.[1]);
        assert.deepEqual(
          [report.leftoversKilled > 0, lives(child)],
          [leftovers === 'kill', leftovers === 'keep'],
        );
        if (leftovers === 'keep') process.kill(child, 'SIGKILL');
        await until('the child is gone', () => !lives(child));
        await handle.release();
      }
    });

    it('G18: gives what outlives its leader the time that the task says', async () => {
      for (const [lasts, leftoversTimeoutMs] of [
        [0.3, 60_000],
        [600, 300],
      ] as const) {
        const config = await world.shell(`setsid sleep ${lasts} >/dev/null 2>&1 & echo "child $!"`, {
          leftoversTimeoutMs,
        });
        const handle = world.keep(await world.driver().start(config, world.emit));
        const report = await handle.wait();
        assert.deepEqual(report.result, { kind: 'exited', code: 0, oomKilled: false });
        assert.equal(report.leftoversKilled, lasts === 600 ? 1 : 0);
        assert.equal(lives(Number(/child (\d+)/.exec(world.stdout(config))?.[1])), false);
        await handle.release();
      }
    });

    it('measures what a task uses while it runs', async () => {
      const config = await world.shell('echo ready; while :; do :; done');
      const handle = world.keep(await world.driver().start(config, world.emit));
      await world.says(config, /ready/);
      const first = await until('a first sample', () => handle.usage());
      // A cgroup counts from the start of the run, so that the first look has something to compare with.
      if (mode === 'none') assert.equal(first.cpuPercent, undefined);
      const second = await until('a later sample', async (): Promise<TaskUsage | undefined> => {
        const usage = await handle.usage();
        if (usage?.cpuPercent === undefined || usage.cpuTotalMs <= first.cpuTotalMs) return undefined;
        return usage;
      });
      assert.ok(second.cpuTotalMs > first.cpuTotalMs);
      assert.ok(
        (second.cpuPercent ?? 0) > 5 && (second.cpuPercent ?? 0) < 300,
        `${second.cpuPercent ?? ''} %`,
      );
      assert.ok(second.memoryBytes > 0 && second.processes >= 1);
      assert.equal(second.source, mode === 'none' ? 'pidusage' : 'cgroup');
      assert.equal(second.memoryLimitBytes, controllers.has('memory') ? 64 * 1024 * 1024 : undefined);
      await handle.stop({ signal: SIGTERM, graceMs: 10_000 });
      assert.equal(await handle.usage(), undefined);
      await handle.release();
    });

    if (controllers.has('memory')) {
      it('enforces the memory limit, and says that it was that', async () => {
        const config = await world.shell('exec tail /dev/zero');
        const handle = world.keep(await world.driver().start(config, world.emit));
        const { result, usage } = await handle.wait();
        assert.deepEqual(result, { kind: 'signaled', signal: SIGKILL, coreDumped: false, oomKilled: true });
        assert.ok((usage?.peakMemoryBytes ?? 0) > 32 * 1024 * 1024);
        await handle.release();
      });
    }

    it('starts many at once, each of them once', async () => {
      const configs = await Promise.all(
        Array.from({ length: 20 }, () => world.shell('echo "i am $$"; exit 0')),
      );
      const startedMs = systemClock.monoMs();
      const handles = await Promise.all(configs.map((config) => world.driver().start(config, world.emit)));
      const reports = await Promise.all(handles.map((handle) => world.keep(handle).wait()));
      assert.ok(systemClock.monoMs() - startedMs < 60_000);
      for (const { result } of reports)
        assert.deepEqual(result, { kind: 'exited', code: 0, oomKilled: false });
      for (const config of configs) assert.match(world.stdout(config), /^i am \d+\n$/);
      await Promise.all(handles.map((handle) => handle.release()));
    });

    it('writes no log when it is told so', async () => {
      const config = await world.shell('echo words', {
        logs: { maxFiles: 2, maxFileSizeMib: 1, disabled: true },
      });
      assert.equal(await run(config), '');
    });

    it('uses an absolute program as it is given, a link included', async () => {
      const config = await world.task({ config: { command: 'x' } });
      const link = join(config.dirs.localDir, 'link');
      symlinkSync('/bin/echo', link);
      assert.equal(await run({ ...config, config: { command: link, args: ['hi'] } }), 'hi\n');
    });
  });
}

describe('limits of a running task', { timeout: 60_000 }, () => {
  it('G26: change while it runs, and are read back; one below what is in use is not set', async () => {
    const world = await DriverWorld.open();
    try {
      const config = await world.shell('echo ready; sleep 600');
      const handle = world.keep(await world.driver().start(config, world.emit));
      await world.says(config, /ready/);
      const more = { ...config.resources, memoryMib: 128, cpuPercent: 50, pids: 30 };
      const unmet = handle.changeLimits?.(more) ?? ['not to be changed'];
      const { mode } = world.deps.cgroups;
      if (mode === 'none') {
        assert.match(unmet.join(), /nothing is limited/);
      } else {
        assert.deepEqual(unmet, []);
        const leaf = world.deps.cgroups.leafOf(leafName(config));
        assert.deepEqual(
          { ...readLimits(leaf), cpuShares: 0, cpuWeight: 0 },
          {
            memoryMaxBytes: 128 * 2 ** 20,
            memoryReserveBytes: undefined,
            cpuQuotaPercent: 50,
            cpuShares: 0,
            cpuWeight: 0,
            pidsMax: 30,
            swapMaxBytes: world.deps.cgroups.features.has('swap') ? 0 : undefined,
            cpus: undefined,
            ioWeight: undefined,
            ioWeightIdle: undefined,
            ioReadBps: undefined,
            ioWriteBps: undefined,
          },
        );
        const [why] = handle.changeLimits?.({ ...more, memoryMib: 0 }) ?? [];
        assert.match(
          why ?? '',
          /^memory stays limited to 134217728 bytes: \d+ bytes are in use, more than the 0 it may have$/,
        );
        assert.equal(readLimits(leaf).memoryMaxBytes, 128 * 2 ** 20);
        assert.deepEqual(handle.changeLimits?.({ ...config.resources, memoryMaxMib: -1 }), []);
        assert.equal(readLimits(leaf).pidsMax, undefined);
        assert.equal(readLimits(leaf).cpuQuotaPercent, undefined);
        const [never] = handle.changeLimits({ ...more, memoryMib: 0 });
        assert.match(never ?? '', /^memory is not limited: \d+ bytes are in use/);
      }
      await handle.stop({ signal: SIGKILL, graceMs: 0 });
      await handle.release();
    } finally {
      await world.close();
    }
  });
});
