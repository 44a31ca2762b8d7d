/** A run that is set up before it may start: with a launcher, which holds its executor, and without; by each driver that can. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { systemClock } from '../../src/base/clock.js';
import { isAlive } from '../../src/base/host.js';
import { silentLogger } from '../../src/base/log.js';
import type { Driver, PreparedStart, TaskConfig } from '../../src/drivers/driver.js';
import { Launcher } from '../../src/executor/launcher.js';
import { findProcessesOfRun } from '../../src/executor/processes.js';
import { DriverWorld } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const IS_ROOT = process.getuid?.() === 0;

interface Subject {
  readonly name: string;
  readonly world: DriverWorld;
  readonly launcher: Launcher | undefined;
  readonly driver: Driver;
}

async function subject(which: 'raw_exec' | 'exec', cgroups: boolean, launched: boolean): Promise<Subject> {
  const world = await DriverWorld.open({ cgroups, ...(cgroups ? {} : { memoryMib: 300 }) });
  const launcher = launched
    ? new Launcher({
        clock: systemClock,
        logger: silentLogger,
        executorPath: world.deps.executorPath,
        admit: (pid) => world.deps.cgroups.admitLauncher(pid),
      })
    : undefined;
  if (launcher !== undefined) await until('the launcher is ready', () => launcher.isReady);
  const driver = which === 'exec' ? world.execDriver({ launcher }) : world.driver({ launcher });
  const name = `${which}${cgroups ? '' : ' without cgroups'}, ${launched ? 'with' : 'without'} a launcher`;
  return { name, world, launcher, driver };
}

const subjects = [
  await subject('raw_exec', true, true),
  await subject('raw_exec', true, false),
  await subject('raw_exec', false, true),
  await subject('exec', IS_ROOT, true),
  await subject('exec', IS_ROOT, false),
];

for (const { name, world, launcher, driver } of subjects) {
  const runDirOf = ({ runId }: TaskConfig): string => join(world.deps.runsDir, runId.slice(0, 2), runId);
  const leavesOf = ({ allocId, task, runId }: TaskConfig): string[] => {
    const { unified, v1 } = world.deps.cgroups.leafOf(`${allocId.slice(0, 8)}.${task}.${runId.slice(0, 8)}`);
    return [...v1, unified].filter((dir) => dir !== undefined);
  };
  const prepare = async (config: TaskConfig): Promise<PreparedStart> => {
    assert.ok(driver.prepare !== undefined);
    return driver.prepare(config);
  };
  /** The executor, where there is one before the start, and its child wait behind the gate. */
  const isHeld = async (config: TaskConfig): Promise<void> => {
    const status = join(runDirOf(config), 'status');
    await until('its executor is ready', () => existsSync(status), { everyMs: 2 });
    assert.match(readFileSync(status, 'utf8'), /^state=ready$/m);
  };
  const assertNothingLeft = async (config: TaskConfig): Promise<void> => {
    for (const dir of [runDirOf(config), ...leavesOf(config)]) assert.equal(existsSync(dir), false, dir);
    const { executors, workload } = findProcessesOfRun(config.runId, world.deps.executorPath);
    // Its child may be a moment longer on its way out than the executor is.
    await until('no process is left', () => ![...executors, ...workload].some(isAlive), { everyMs: 2 });
    assert.equal(world.stdout(config), '');
  };

  describe(`a run that ${name} prepares`, { timeout: 120_000 }, () => {
    after(async () => {
      await launcher?.[Symbol.asyncDispose]();
      await world.close();
    });

    it('G7: is there but for the task, and given up leaves nothing', async () => {
      const config = await world.shell('echo ran; exec sleep 600');
      const prepared = await prepare(config);
      assert.ok(existsSync(join(runDirOf(config), 'spec')));
      const leaves = leavesOf(config);
      assert.equal(
        leaves.some((dir) => existsSync(dir)),
        leaves.length > 0,
      );
      if (launcher !== undefined) await isHeld(config);
      await prepared.giveUp();
      await assertNothingLeft(config);
    });

    it('G7: given up at once leaves nothing either', async () => {
      for (let round = 0; round < 5; round++) {
        const config = await world.shell('echo ran; exec sleep 600');
        await (await prepare(config)).giveUp();
        await assertNothingLeft(config);
      }
    });

    it('starts as any other', async () => {
      for (const waits of [true, false]) {
        const config = await world.shell('echo ran; exit 3');
        const prepared = await prepare(config);
        if (waits && launcher !== undefined) await isHeld(config);
        assert.equal(world.stdout(config), '');
        const handle = world.keep(await prepared.start(world.emit));
        assert.equal(handle.runId, config.runId);
        assert.ok(handle.ref.workload !== undefined && handle.ref.executor !== undefined);
        assert.deepEqual((await handle.wait()).result, { kind: 'exited', code: 3, oomKilled: false });
        assert.equal(world.stdout(config), 'ran\n');
        await handle.release();
        assert.ok(!existsSync(runDirOf(config)));
        for (const dir of leavesOf(config)) assert.equal(existsSync(dir), false, dir);
      }
    });

    it('is told of no more than once: the same run cannot be prepared, or started, beside it', async () => {
      const config = await world.shell('echo ran; exec sleep 600');
      const prepared = await prepare(config);
      await assert.rejects(prepare(config), { code: 'already_running' });
      await assert.rejects(driver.start(config, world.emit), { code: 'already_running' });
      await prepared.giveUp();
      await assertNothingLeft(config);
    });

    it('cannot be prepared: fails as a start does, and leaves nothing', async () => {
      const missing = await world.task({ config: { colour: 'red' } });
      await assert.rejects(prepare(missing), { name: 'AgentError', code: 'driver_config_invalid' });
      await assertNothingLeft(missing);
    });

    it('G5: cannot be started: says why at the start, and leaves nothing', async () => {
      for (const changes of [{ config: { command: '/nonexistent/program' } }, { user: 'no-such-user' }]) {
        const config = await world.shell('echo ran', changes);
        // Whether its set-up finds that out or its start: told is it as by a start.
        const failed = prepare(config).then((prepared) => prepared.start(world.emit));
        await assert.rejects(failed, { name: 'AgentError', code: 'start_failed' });
        await assertNothingLeft(config);
      }
    });

    it('G5: cannot be started, and is given up: leaves nothing', async () => {
      const config = await world.shell('echo ran', { user: 'no-such-user' });
      const prepared = await prepare(config).catch(() => undefined);
      if (prepared !== undefined && launcher !== undefined)
        await until('that is on record', () => existsSync(join(runDirOf(config), 'exit')), { everyMs: 2 });
      await prepared?.giveUp();
      await assertNothingLeft(config);
    });

    it('is never started, says the next agent, when this one has gone', async () => {
      const config = await world.shell('echo ran; exec sleep 600');
      await prepare(config);
      if (launcher !== undefined) {
        await isHeld(config);
        // Its launcher leaves with it. The last test: there is no other one.
        await launcher[Symbol.asyncDispose]();
      }
      const recovered = await driver.recover(world.record(config, undefined), world.emit);
      assert.equal(recovered.kind, 'never_started');
      await recovered.release();
      await assertNothingLeft(config);
    });
  });
}
