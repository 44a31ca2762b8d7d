/** The helper that forks for the agent: whatever becomes of it, runs start once and none is lost. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { sleep, systemClock } from '../../src/base/clock.js';
import { Deferred } from '../../src/base/deferred.js';
import { silentLogger } from '../../src/base/log.js';
import type { DriverHandle } from '../../src/drivers/driver.js';
import { Launcher } from '../../src/executor/launcher.js';
import { DriverWorld } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const world = await DriverWorld.open();

async function open(executorPath = world.deps.executorPath): Promise<Launcher> {
  const launcher = new Launcher({ clock: systemClock, logger: silentLogger, executorPath });
  await until('the launcher is ready', () => (launcher.isReady ? true : undefined));
  return launcher;
}

/** A program that starts its helper with the real one, and does `script` for a run. */
function executorThat(name: string, script: string): string {
  const path = join(world.dir, name, 'holdfast-executor');
  mkdirSync(dirname(path));
  const real = world.deps.executorPath;
  writeFileSync(path, `#!/bin/sh\n[ "$1" = launch ] && exec '${real}' "$@"\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

async function end(handle: DriverHandle): Promise<void> {
  await handle.stop({ signal: constants.signals.SIGKILL, graceMs: 0 });
  await handle.wait();
  await handle.release();
}

describe('launcher', () => {
  after(() => world.close());

  it('starts many at once, each of them once, and more than it has slots for', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const handles = await Promise.all(
      Array.from({ length: 80 }, async () =>
        world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit)),
      ),
    );
    const pids = new Set(handles.map(({ ref }) => ref.workload?.pid));
    assert.equal(pids.size, 80);
    assert.ok(!pids.has(undefined));
    await Promise.all(handles.map(end));
  });

  it('starts nothing before it is where it belongs', async () => {
    const admitted = new Deferred<undefined>();
    const admit = async (): Promise<void> => {
      await admitted.promise;
    };
    await using launcher = new Launcher({ ...world.deps, clock: systemClock, logger: silentLogger, admit });
    await until('the launcher is ready', () => (launcher.isReady ? true : undefined));
    let isStarted = false;
    const config = await world.shell('exec sleep 600');
    const start = world
      .driver({ launcher })
      .start(config, world.emit)
      .finally(() => (isStarted = true));
    await sleep(systemClock, 100);
    assert.ok(!isStarted);
    admitted.resolve(undefined);
    await end(world.keep(await start));
  });

  it('is gone once it is closed', async () => {
    const launcher = await open();
    const { pid } = launcher;
    await launcher[Symbol.asyncDispose]();
    assert.throws(() => process.kill(pid ?? 0, 0), { code: 'ESRCH' });
  });

  it('is killed: what it has started lives on, and the next run starts without it', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const first = world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit));
    process.kill(launcher.pid ?? 0, 'SIGKILL');
    await until('it is known to be gone', () => (launcher.isReady ? undefined : true));
    const second = world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit));
    assert.notEqual(first.ref.workload?.pid, second.ref.workload?.pid);
    await Promise.all([first, second].map(end));
  });

  it('is killed while it starts something: it is found out whether that runs', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const configs = await Promise.all(Array.from({ length: 20 }, () => world.shell('exec sleep 600')));
    const starts = configs.map(async (config) => {
      try {
        return world.keep(await driver.start(config, world.emit));
      } catch {
        return undefined; // It never started, and that is known.
      }
    });
    setImmediate(() => process.kill(launcher.pid ?? 0, 'SIGKILL'));
    const handles = (await Promise.all(starts)).filter((handle) => handle !== undefined);
    await Promise.all(handles.map(end));
  });

  it('tells what a program said that could not do it, and kills one that takes too long', async () => {
    const executorPath = executorThat(
      'says',
      '[ "$2" = slow ] && exec sleep 600; echo "no memory" >&2; exit 12',
    );
    await using launcher = await open(executorPath);
    assert.deepEqual(await launcher.run('run', 'fast', 10_000), {
      kind: 'exited',
      code: 12,
      said: 'no memory',
    });
    const slow = await launcher.run('run', 'slow', 50);
    assert.equal(slow.kind, 'unclear');
    assert.match(slow.detail, /signal 9/);
  });

  it('cannot be started: nobody asks it', async () => {
    await using launcher = new Launcher({
      clock: systemClock,
      logger: silentLogger,
      executorPath: executorThat('none', 'exit 1').replace('/none/', '/nowhere/'),
    });
    await until('its failure has come', () => (launcher.pid === undefined ? true : undefined));
    assert.equal(launcher.isReady, false);
    const driver = world.driver({ launcher });
    await end(world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit)));
  });
});
