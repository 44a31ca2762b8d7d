/** What every driver promises the task runner, checked over each of them with what it really runs. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { systemClock } from '../../src/base/clock.js';
import { newRunId } from '../../src/base/ids.js';
import type { Driver, DriverHandle, TaskConfig } from '../../src/drivers/driver.js';
import { MockDriver, MockWorld } from '../../src/drivers/mock.js';
import type { RunRecord } from '../../src/state/store.js';
import { DriverWorld, lives } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const IS_ROOT = process.getuid?.() === 0;
const { SIGINT, SIGTERM, SIGKILL, SIGUSR1 } = constants.signals;

/** One driver with the scripts that make its tasks do what a case needs. */
interface Subject {
  readonly name: string;
  readonly world: DriverWorld;
  /** A driver as an agent has it that has just started; earlier runs are there still. */
  agent(): Driver;
  exits(code: number, afterMs: number): Promise<TaskConfig>;
  diesBy(signal: number): Promise<TaskConfig>;
  /** Runs until it is stopped, and ends by the signal of the stop. */
  runs(): Promise<TaskConfig>;
  /** Takes no notice of a polite signal. */
  ignoresSignals(): Promise<TaskConfig>;
  cannotStart(): Promise<TaskConfig>;
  /** Resolves when the task is so far that signals find it prepared. */
  ready(config: TaskConfig): Promise<unknown>;
  /** The run is over, whoever knows. */
  hasEnded(config: TaskConfig): boolean;
  /** Nothing of the run is left on this host. */
  assertNothingLeft(config: TaskConfig): void;
}

/** @param which driver, over the executor; without cgroups no memory limit is asked for, which `exec` would refuse */
async function program(which: 'raw_exec' | 'exec', cgroups: boolean): Promise<Subject> {
  const name = cgroups ? which : `${which} without cgroups`;
  const world = await DriverWorld.open({ cgroups, ...(cgroups ? {} : { memoryMib: 300 }) });
  const signalName = (signal: number): string => String(signal);
  const runDir = ({ runId }: TaskConfig): string => join(world.deps.runsDir, runId.slice(0, 2), runId);
  return {
    name,
    world,
    agent: () => (which === 'exec' ? world.execDriver() : world.driver()),
    exits: (code, afterMs) => world.shell(`sleep ${afterMs / 1000}; exit ${code}`),
    diesBy: (signal) => world.shell(`kill -${signalName(signal)} $$; sleep 60`),
    runs: () => world.task({ config: { command: '/bin/sh', args: ['-c', 'echo ready; exec sleep 600'] } }),
    ignoresSignals: () =>
      world.shell('trap "" INT TERM USR1; echo ready; while :; do sleep 600 & wait; done'),
    cannotStart: () => world.task({ config: { command: '/nonexistent/program' } }),
    ready: (config) => world.says(config, /ready/),
    hasEnded: (config) => existsSync(join(runDir(config), 'exit')),
    assertNothingLeft: (config) => {
      assert.equal(existsSync(runDir(config)), false);
      const { unified, v1 } = world.deps.cgroups.leafOf(
        `${config.allocId.slice(0, 8)}.${config.task}.${config.runId.slice(0, 8)}`,
      );
      for (const dir of [...v1, ...(unified === undefined ? [] : [unified])])
        assert.equal(existsSync(dir), false, dir);
    },
  };
}

async function mock(): Promise<Subject> {
  const world = await DriverWorld.open({ cgroups: false });
  const mocks = new MockWorld();
  const task = (config: Record<string, unknown>): Promise<TaskConfig> => world.task({ config });
  return {
    name: 'mock_driver',
    world,
    agent: () => new MockDriver({ clock: systemClock, bootId: world.bootId, world: mocks }),
    exits: (code, afterMs) => task({ exit_code: code, run_for: `${afterMs}ms` }),
    diesBy: (signal) => task({ exit_signal: signal, run_for: '10ms' }),
    runs: () => task({ run_for: '10m' }),
    ignoresSignals: () => task({ run_for: '10m', kill_after: '10m' }),
    cannotStart: () => task({ start_error: 'no such program' }),
    ready: () => Promise.resolve(),
    hasEnded: ({ runId }) => mocks.runs.get(runId)?.report !== undefined,
    assertNothingLeft: (config) => {
      assert.equal(mocks.runs.has(config.runId), false);
    },
  };
}

const subjects = [
  await program('raw_exec', true),
  await program('raw_exec', false),
  await program('exec', IS_ROOT),
  await program('exec', false),
  await mock(),
];

for (const subject of subjects) {
  const { world } = subject;
  const start = async (config: TaskConfig, driver = subject.agent()): Promise<DriverHandle> =>
    world.keep(await driver.start(config, world.emit));
  const finish = async (handle: DriverHandle): Promise<void> => {
    await handle.stop({ signal: 0, graceMs: 0 });
    await handle.release();
  };

  describe(`driver ${subject.name}`, { timeout: 120_000 }, () => {
    after(() => world.close());

    it('tells an exit code, once and to everybody, and leaves nothing', async () => {
      const config = await subject.exits(3, 50);
      const beforeMs = systemClock.wallMs();
      const handle = await start(config);
      const [first, second] = await Promise.all([handle.wait(), handle.wait()]);
      assert.deepEqual(first.result, { kind: 'exited', code: 3, oomKilled: false });
      assert.equal(second, first);
      assert.equal(await handle.wait(), first);
      assert.ok(first.endedAtMs >= beforeMs && first.endedAtMs <= systemClock.wallMs() + 1);
      assert.ok(first.ranForMs !== undefined && first.ranForMs >= 40, `ran for ${first.ranForMs}`);
      assert.equal(first.logComplete, true);
      await handle.release();
      await handle.release();
      subject.assertNothingLeft(config);
    });

    it('does not mistake exit code 137 for SIGKILL, nor the other way round', async () => {
      const coded = await start(await subject.exits(137, 10));
      const killed = await start(await subject.diesBy(SIGKILL));
      assert.deepEqual((await coded.wait()).result, { kind: 'exited', code: 137, oomKilled: false });
      assert.deepEqual((await killed.wait()).result, {
        kind: 'signaled',
        signal: SIGKILL,
        coreDumped: false,
        oomKilled: false,
      });
      await coded.release();
      await killed.release();
    });

    it('stops by the signal that was asked for', async () => {
      const config = await subject.runs();
      const handle = await start(config);
      await subject.ready(config);
      await handle.stop({ signal: SIGTERM, graceMs: 20_000 });
      const { result } = await handle.wait();
      assert.deepEqual(result, { kind: 'signaled', signal: SIGTERM, coreDumped: false, oomKilled: false });
      await handle.stop({ signal: SIGTERM, graceMs: 20_000 });
      await handle.release();
    });

    it('kills by force what does not end in time', async () => {
      const config = await subject.ignoresSignals();
      const handle = await start(config);
      await subject.ready(config);
      const startedMs = systemClock.monoMs();
      await handle.stop({ signal: SIGINT, graceMs: 200 });
      const tookMs = systemClock.monoMs() - startedMs;
      const { result } = await handle.wait();
      assert.equal(result.kind, 'signaled');
      assert.equal(result.signal, SIGKILL);
      assert.ok(tookMs >= 195, `it was killed after ${tookMs} ms, before its time`);
      await handle.release();
    });

    it('lets a second stop bring the deadline forward, and never back', async () => {
      const config = await subject.ignoresSignals();
      const handle = await start(config);
      await subject.ready(config);
      const startedMs = systemClock.monoMs();
      const long = handle.stop({ signal: SIGINT, graceMs: 60_000 });
      const short = handle.stop({ signal: SIGINT, graceMs: 100 });
      const later = handle.stop({ signal: SIGINT, graceMs: 60_000 });
      await Promise.all([long, short, later]);
      assert.ok(systemClock.monoMs() - startedMs < 30_000);
      await handle.release();
    });

    it('says not_running to a signal after the end', async () => {
      const handle = await start(await subject.exits(0, 10));
      await handle.wait();
      await assert.rejects(handle.signal(SIGUSR1), { code: 'not_running' });
      assert.equal(await handle.usage(), undefined);
      await handle.release();
    });

    it('does not let go of a run that may be running', async () => {
      const handle = await start(await subject.runs());
      await assert.rejects(handle.release(), { code: 'internal' });
      await finish(handle);
    });

    it('refuses to start a run twice', async () => {
      const config = await subject.runs();
      const driver = subject.agent();
      const handle = await start(config, driver);
      await assert.rejects(driver.start(config, world.emit), { code: 'already_running' });
      await assert.rejects(subject.agent().start(config, world.emit), { code: 'already_running' });
      await finish(handle);
    });

    it('leaves nothing when a start fails, and can be tried again', async () => {
      const config = await subject.cannotStart();
      await assert.rejects(subject.agent().start(config, world.emit), {
        name: 'AgentError',
        code: 'start_failed',
      });
      subject.assertNothingLeft(config);
      await assert.rejects(subject.agent().start(config, world.emit), { code: 'start_failed' });
    });

    it('refuses a config that is not its own', async () => {
      const config = await world.task({ config: { colour: 'red' } });
      await assert.rejects(subject.agent().start(config, world.emit), { code: 'driver_config_invalid' });
      subject.assertNothingLeft(config);
    });

    it('finds a running task again, the same one, twice over', async () => {
      const config = await subject.runs();
      const handle = await start(config);
      await subject.ready(config);
      handle.detach();
      const record = world.record(config, handle);
      for (let agents = 0; agents < 2; agents++) {
        const recovered = await subject.agent().recover(record, world.emit);
        assert.equal(recovered.kind, 'running');
        world.keep(recovered.handle);
        assert.deepEqual(recovered.handle.ref, handle.ref);
        assert.equal(recovered.handle.startedAtMs, handle.startedAtMs);
        recovered.handle.detach();
      }
      const workload = handle.ref.workload;
      if (workload !== undefined) assert.ok(lives(workload.pid));
      const last = await subject.agent().recover(record, world.emit);
      assert.equal(last.kind, 'running');
      await last.handle.stop({ signal: SIGTERM, graceMs: 20_000 });
      assert.equal((await last.handle.wait()).result.kind, 'signaled');
      await last.handle.release();
      subject.assertNothingLeft(config);
    });

    it('finds one again that was started without its handle being stored', async () => {
      const config = await subject.runs();
      const handle = await start(config);
      await subject.ready(config);
      handle.detach();
      const recovered = await subject.agent().recover(world.record(config, undefined), world.emit);
      assert.equal(recovered.kind, 'running');
      // Whether its limits are in force is what nobody has stored; it is given them again.
      recovered.handle.changeLimits?.(config.resources);
      assert.deepEqual(recovered.handle.ref, handle.ref);
      await finish(recovered.handle);
    });

    it('tells the true end of a task that ended while no agent was there', async () => {
      const config = await subject.exits(42, 150);
      const startedAfterMs = systemClock.wallMs();
      const handle = await start(config);
      handle.detach();
      await until('it has ended', () => subject.hasEnded(config));
      const seenAtMs = systemClock.wallMs();
      await until('the clock goes on', () => systemClock.wallMs() > seenAtMs + 20);
      const record = world.record(config, handle);
      const driver = subject.agent();
      const first = await driver.recover(record, world.emit);
      const again = await driver.recover(record, world.emit);
      assert.equal(first.kind, 'ended');
      assert.deepEqual(first.report.result, { kind: 'exited', code: 42, oomKilled: false });
      const { ranForMs, endedAtMs } = first.report;
      assert.ok(ranForMs !== undefined && ranForMs >= 140, `ran for ${ranForMs}`);
      // Two clocks that are read to the millisecond.
      assert.ok(ranForMs <= seenAtMs - startedAfterMs + 2, `ran for ${ranForMs}`);
      assert.ok(endedAtMs <= seenAtMs, 'the end is when it ended, not when it was noticed');
      assert.equal(again.kind, 'ended');
      assert.deepEqual(again.report, first.report);
      await first.release();
      await first.release();
      subject.assertNothingLeft(config);
    });

    it('says never_started of an intent that was not acted upon, and then it never can be', async () => {
      const config = await subject.runs();
      const driver = subject.agent();
      for (let times = 0; times < 2; times++) {
        const recovered = await driver.recover(world.record(config, undefined), world.emit);
        assert.equal(recovered.kind, 'never_started');
      }
      await assert.rejects(driver.start(config, world.emit), { code: 'already_running' });
      const last = await driver.recover(world.record(config, undefined), world.emit);
      assert.equal(last.kind, 'never_started');
      await last.release();
      subject.assertNothingLeft(config);
    });

    it('says unknown of a run of another boot, whatever has its pids now', async () => {
      const config = await subject.runs();
      const bystander = await start(await subject.runs());
      const before: RunRecord = world.record(config, bystander, {
        runId: newRunId(),
        bootId: '00000000-0000-0000-0000-000000000000',
      });
      const recovered = await subject.agent().recover(before, world.emit);
      assert.equal(recovered.kind, 'ended');
      assert.equal(recovered.report.result.kind, 'unknown');
      assert.equal(recovered.report.result.reason, 'host_rebooted');
      await recovered.release();
      const { workload } = bystander.ref;
      if (workload !== undefined) assert.ok(lives(workload.pid), 'a process of this boot was taken for it');
      await finish(bystander);
    });

    it('says how it is', async () => {
      const { health, description } = await subject.agent().fingerprint();
      assert.equal(health, 'healthy');
      assert.notEqual(description, '');
    });
  });
}

describe('the contract suite', () => {
  it('leaves no temporary directory', () => {
    const probe = mkdtempSync(join(tmpdir(), 'holdfast-probe-'));
    rmSync(probe, { recursive: true });
    for (const { world } of subjects) assert.equal(existsSync(world.dir), false, world.dir);
  });
});
