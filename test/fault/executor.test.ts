/** What becomes of real tasks when their executors die, stall or write nonsense, and when files are damaged or gone. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { DriverHandle, TaskConfig } from '../../src/drivers/driver.js';
import type { ExitResult } from '../../src/events/exit-result.js';
import type { RunHandle } from '../../src/state/store.js';
import { DriverWorld, kill, lives } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const { SIGKILL, SIGTERM } = constants.signals;

const worlds = [await DriverWorld.open(), await DriverWorld.open({ cgroups: false })];

/** A shell that counts, so that it is seen to go on. */
const COUNTER = 'echo ready; i=0; while :; do i=$((i+1)); echo "count $i"; sleep 0.05; done';

describe('executors that fail', { concurrency: 2, timeout: 120_000 }, () => {
  for (const world of worlds) suite(world);
});

function suite(world: DriverWorld): void {
  /** A started task with the pids of its executor and its leader. */
  const start = async (
    script: string,
  ): Promise<{
    config: TaskConfig;
    handle: DriverHandle;
    executor: number;
    workload: number;
    runDir: string;
  }> => {
    const config = await world.shell(script);
    const handle = world.keep(await world.driver().start(config, world.emit));
    await world.says(config, /ready/);
    const { executor, workload } = pids(handle.ref);
    return { config, handle, executor, workload, runDir: runDirOf(config) };
  };
  const runDirOf = (config: TaskConfig): string =>
    join(world.deps.runsDir, config.runId.slice(0, 2), config.runId);
  const lost = (): number => world.events.filter((event) => event.type === 'Supervision Lost').length;
  const dies = (pid: number): Promise<unknown> => until(`process ${pid} is gone`, () => !lives(pid));
  const counted = (config: TaskConfig): number => world.stdout(config).split('\n').length;
  const recover = (config: TaskConfig, handle: DriverHandle | undefined) =>
    world.driver({ settleWithinMs: 300 }).recover(world.record(config, handle), world.emit);

  describe(`raw_exec, cgroups ${world.deps.cgroups.mode}`, { concurrency: 1 }, () => {
    after(() => world.close());

    it('loses its executor: another one takes over, output goes on, a stop works, the end is true', async () => {
      const { config, handle, executor, workload } = await start(COUNTER);
      const before = lost();
      kill(executor, 'SIGKILL');
      await until('somebody takes over', () => lost() > before);
      assert.ok(lives(workload));
      assert.equal(pids(handle.ref).workload, workload);
      assert.notEqual(pids(handle.ref).executor, executor);
      const lines = counted(config);
      await until('its output goes on', () => counted(config) > lines + 2);
      await handle.signal(constants.signals.SIGCONT);
      await handle.stop({ signal: SIGTERM, graceMs: 10_000 });
      assertTrueOrUnknown((await handle.wait()).result, SIGTERM);
      assert.ok(!lives(workload));
      await handle.release();
    });

    it('has a status file that a full disk kept as it was: the executor says what is true', async () => {
      const { config, handle, workload, runDir } = await start(COUNTER);
      handle.detach();
      const status = join(runDir, 'status');
      const now = readFileSync(status, 'utf8');
      writeFileSync(status, now.replace('state=running', 'state=starting'));
      const recovered = await recover(config, undefined);
      assert.equal(recovered.kind, 'running');
      world.keep(recovered.handle);
      assert.equal(pids(recovered.handle.ref).workload, workload);
      await recovered.handle.stop({ signal: SIGKILL, graceMs: 0 });
      await recovered.handle.wait();
      await recovered.handle.release();
    });

    it('loses its executor while no agent is there', async () => {
      const { config, handle, executor, workload } = await start(COUNTER);
      handle.detach();
      kill(executor, 'SIGKILL');
      await dies(executor);
      const before = lost();
      const recovered = await recover(config, handle);
      assert.equal(recovered.kind, 'running');
      world.keep(recovered.handle);
      assert.equal(lost(), before + 1);
      assert.equal(pids(recovered.handle.ref).workload, workload);
      recovered.handle.detach();
      const again = await recover(config, recovered.handle);
      assert.equal(again.kind, 'running');
      assert.equal(lost(), before + 1, 'told once');
      await again.handle.stop({ signal: 0, graceMs: 0 });
      assertTrueOrUnknown((await again.handle.wait()).result, SIGKILL);
      await again.handle.release();
    });

    it('G2: loses executor and leader: the end is unknown, and what the leader left is killed', async () => {
      const { config, handle, executor, workload } = await start(
        'sleep 600 & echo "child $!"; echo ready; wait',
      );
      const child = Number((await world.says(config, /child (\d+)/))[1]);
      kill(executor, 'SIGSTOP');
      kill(workload, 'SIGKILL');
      await dies(workload);
      kill(executor, 'SIGKILL');
      const report = await handle.wait();
      assert.equal(report.result.kind, 'unknown');
      assert.equal(report.result.reason, 'executor_lost');
      assert.equal(report.logComplete, false);
      assert.ok(!lives(child), 'a child of the leader was left');
      await handle.release();
      assert.equal(existsSync(runDirOf(config)), false);
    });

    it('loses its executor in the middle of a stop: the stop goes on', async () => {
      const { handle, executor, workload } = await start(
        'trap "" TERM; echo ready; while :; do sleep 600 & wait; done',
      );
      const stopped = handle.stop({ signal: SIGTERM, graceMs: 1_000 });
      kill(executor, 'SIGKILL');
      await stopped;
      assert.ok(!lives(workload));
      assertTrueOrUnknown((await handle.wait()).result, SIGKILL);
      await handle.release();
    });

    it('has an executor that does not answer: unreachable, nothing is touched, later it is found', async () => {
      const { config, handle, executor, workload } = await start(COUNTER);
      handle.detach();
      kill(executor, 'SIGSTOP');
      const recovered = await recover(config, handle);
      assert.equal(recovered.kind, 'unreachable');
      assert.ok(lives(workload) && lives(executor));
      kill(executor, 'SIGCONT');
      const later = await recover(config, handle);
      assert.equal(later.kind, 'running');
      assert.equal(pids(later.handle.ref).executor, executor);
      await later.handle.stop({ signal: SIGTERM, graceMs: 10_000 });
      await later.handle.release();
    });

    it('has a status that is garbage: its executor is found all the same', async () => {
      const { config, handle, runDir } = await start(COUNTER);
      handle.detach();
      writeFileSync(join(runDir, 'status'), 'executor_pid=1\npid=1\n\0garbage');
      const recovered = await recover(config, handle);
      assert.equal(recovered.kind, 'running');
      await recovered.handle.stop({ signal: SIGTERM, graceMs: 10_000 });
      assert.equal((await recovered.handle.wait()).result.kind, 'signaled');
      await recovered.handle.release();
    });

    it('has garbage for a status and no executor: not touched while it lives, unknown after', async () => {
      const { config, handle, executor, workload, runDir } = await start('echo ready; exec sleep 600');
      handle.detach();
      kill(executor, 'SIGKILL');
      await dies(executor);
      writeFileSync(join(runDir, 'status'), 'garbage');
      for (const known of [handle, undefined]) {
        assert.equal((await recover(config, known)).kind, 'unreachable');
        assert.ok(lives(workload));
      }
      kill(workload, 'SIGKILL');
      await dies(workload);
      const over = await recover(config, handle);
      assert.equal(over.kind, 'ended');
      assert.equal(over.report.result.kind, 'unknown');
      assert.equal(over.report.result.reason, 'record_unreadable');
      await over.release();
    });

    it('has half an exit record: unknown, not a made-up status', async () => {
      const { config, handle, workload, runDir } = await start('echo ready; sleep 0.1; exit 0');
      handle.detach();
      const record = join(runDir, 'exit');
      await until('it has ended', () => existsSync(record) && !lives(workload));
      truncateSync(record, statSync(record).size - 20);
      const recovered = await recover(config, handle);
      assert.equal(recovered.kind, 'ended');
      assert.equal(recovered.report.result.kind, 'unknown');
      assert.equal(recovered.report.result.reason, 'record_unreadable');
      await recovered.release();
    });

    it('has the record of another run: not believed', async () => {
      const { config, handle, workload, runDir } = await start('echo ready; exit 0');
      const other = await start('echo ready; exit 7');
      handle.detach();
      await other.handle.wait();
      await until('it has ended', () => existsSync(join(runDir, 'exit')) && !lives(workload));
      writeFileSync(join(runDir, 'exit'), readFileSync(join(other.runDir, 'exit')));
      const recovered = await recover(config, handle);
      assert.equal(recovered.kind, 'ended');
      assert.equal(recovered.report.result.kind, 'unknown');
      await recovered.release();
      await other.handle.release();
    });

    it('has no run directory any more: not started again while it lives, lost after', async () => {
      const { config, handle, executor, workload, runDir } = await start('echo ready; exec sleep 600');
      handle.detach();
      renameSync(runDir, `${runDir}.gone`);
      for (const known of [handle, undefined]) {
        assert.equal((await recover(config, known)).kind, 'unreachable');
        assert.ok(lives(workload) && lives(executor));
      }
      kill(executor, 'SIGKILL');
      kill(workload, 'SIGKILL');
      await Promise.all([dies(executor), dies(workload)]);
      const over = await recover(config, handle);
      assert.equal(over.kind, 'ended');
      assert.equal(over.report.result.kind, 'unknown');
      assert.equal(over.report.result.reason, 'executor_lost');
      await over.release();
      rmSync(`${runDir}.gone`, { recursive: true });
    });

    it('had pids that others have now: they are not taken for it', async () => {
      const { config, handle, executor, workload, runDir } = await start('echo ready; exec sleep 600');
      const bystander = await start('echo ready; exec sleep 600');
      handle.detach();
      kill(executor, 'SIGKILL');
      kill(workload, 'SIGKILL');
      await Promise.all([dies(executor), dies(workload)]);
      const status = readFileSync(join(runDir, 'status'), 'utf8');
      writeFileSync(
        join(runDir, 'status'),
        status
          .replace(/^executor_pid=.*$/m, `executor_pid=${bystander.executor}`)
          .replace(/^pid=.*$/m, `pid=${bystander.workload}`),
      );
      const recovered = await recover(config, handle);
      assert.equal(recovered.kind, 'ended');
      assert.equal(recovered.report.result.kind, 'unknown');
      assert.ok(lives(bystander.executor) && lives(bystander.workload));
      await recovered.release();
      await bystander.handle.stop({ signal: SIGTERM, graceMs: 10_000 });
      await bystander.handle.release();
    });

    it('cannot be started by what is no executor: said, and nothing is left', async () => {
      for (const executorPath of ['/nonexistent/executor', '/bin/false', '/bin/true']) {
        const config = await world.shell('exit 0');
        const driver = world.driver({ executorPath });
        await assert.rejects(driver.start(config, world.emit), {
          code: 'executor_failed',
          recoverable: true,
        });
        assert.equal(existsSync(runDirOf(config)), false);
      }
    });
  });
}

function pids(ref: RunHandle): { executor: number; workload: number } {
  assert.ok(ref.executor !== undefined && ref.workload !== undefined);
  return { executor: ref.executor.pid, workload: ref.workload.pid };
}

/** An executor that took over may or may not be told by the kernel how the task ended; it must not make it up. */
function assertTrueOrUnknown(result: ExitResult, signal: number): void {
  if (result.kind === 'unknown') assert.equal(result.reason, 'supervision_lost');
  else assert.deepEqual(result, { kind: 'signaled', signal, coreDumped: false, oomKilled: false });
}
