/** Executors that die between letting the workload run and saying so, and agents that can open nothing any more. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { AgentError } from '../../src/base/errors.js';
import { leafName } from '../../src/executor/cgroups.js';
import { prepareRun, type LaunchRequest } from '../../src/executor/launch.js';
import { decodeSpec } from '../../src/executor/protocol.js';
import { resolveRun } from '../../src/executor/resolve.js';
import { readExitFile, removeRunDir, runDirOf } from '../../src/executor/run-dir.js';
import { startFailure } from '../../src/drivers/command.js';
import type { TaskConfig } from '../../src/drivers/driver.js';
import { DriverWorld } from '../helpers/driver-world.js';

const world = await DriverWorld.open();
const runDir = (config: TaskConfig): string => runDirOf(world.deps.runsDir, config.runId);

/** A program named as the executor that does what `script` says with the real one, `$real`. */
function executorThat(name: string, script: string): string {
  const path = join(world.dir, name, 'holdfast-executor');
  mkdirSync(dirname(path));
  writeFileSync(path, `#!/bin/sh\nreal='${world.deps.executorPath}'\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

describe('a start that is interrupted', () => {
  after(() => world.close());

  it('says that it could not be set up, and runs: that is not a failed start', async () => {
    // Killed between opening the gate and reporting, an executor leaves its foreground process with status 12.
    const executorPath = executorThat('dies', '"$real" "$@"; [ "$1" = run ] && exit 12; exit 0');
    const config = await world.shell('echo ready; exec sleep 600');
    const handle = world.keep(await world.driver({ executorPath }).start(config, world.emit));
    await world.says(config, /ready/);
    await handle.stop({ signal: constants.signals.SIGKILL, graceMs: 0 });
    assert.equal((await handle.wait()).result.kind, 'signaled');
    await handle.release();
    assert.equal(existsSync(runDir(config)), false);
  });

  it('could really not be set up: nothing is left, and it may be tried again', async () => {
    const executorPath = executorThat('fails', 'echo "no memory" >&2; exit 12');
    const config = await world.shell('exit 0');
    await assert.rejects(
      world.driver({ executorPath }).start(config, world.emit),
      (error) =>
        error instanceof AgentError &&
        error.code === 'executor_failed' &&
        error.recoverable &&
        error.message.includes('no memory'),
    );
    assert.equal(existsSync(runDir(config)), false);
  });

  it('writes down which cgroup it will make before it makes it', async () => {
    const config = await world.shell('exit 0');
    const leaf = { unified: '/nowhere/leaf', v1: [] };
    let named: string | undefined;
    const cgroups = {
      executorProcs: [],
      planLeaf: () => ({ leaf, memoryEvents: undefined, memoryPeak: undefined }),
      createLeaf: () => {
        named = decodeSpec(readFileSync(join(runDir(config), 'spec'))).cgroup;
        throw new AgentError('executor_failed', 'the agent dies here');
      },
    };
    const spec: LaunchRequest['spec'] = {
      ...{ runId: config.runId, title: 't', path: '/bin/true', argv: ['true'], env: {}, cwd: '/' },
      ...{ user: undefined, log: undefined, gate: false, oomScoreAdj: 0 },
      leftovers: 'kill',
    };
    const limits = {
      ...{
        memoryMaxBytes: undefined,
        memoryReserveBytes: undefined,
        cpuShares: 2,
        swapMax: undefined,
        cores: 0,
      },
      ...{ ioWeight: undefined, ioReadBps: undefined, ioWriteBps: undefined },
      ...{ cpuQuotaPercent: undefined, pidsMax: undefined },
    };
    const request = { runDir: runDir(config), leafName: leafName(config), limits, demanded: [], spec };
    await assert.rejects(prepareRun({ ...world.deps, cgroups }, request), /the agent dies here/);
    assert.equal(named, leaf.unified);
    assert.equal(existsSync(runDir(config)), false);
  });

  it('had its child killed before it was the task: that passes', () => {
    const { ECHILD, ENOENT } = constants.errno;
    const record = { kind: 'start_failed', runId: 'r', bootId: 'b', stage: 'gate' } as const;
    const killed = startFailure({ ...record, errno: ECHILD, detail: 'killed before its start' });
    assert.equal(killed.recoverable, true);
    assert.match(killed.message, /^the task was killed before its start$/);
    assert.equal(startFailure({ ...record, stage: 'exec', errno: ENOENT, detail: '/x' }).recoverable, false);
  });

  it('was never seen to become the task: nobody says that it started', async () => {
    const config = await world.shell('exit 0');
    const dir = runDir(config);
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, 'lock'), '');
    writeFileSync(
      join(dir, 'status'),
      ['holdfast_status=1', `run_id=${config.runId}`, `boot_id=${world.bootId}`, 'state=starting'].join(
        '\n',
      ) +
        '\nexecutor_pid=999999999\nexecutor_start=1\npid=999999998\npid_start=1\nstarted_at_ns=1000000000\n',
    );
    const resolved = await resolveRun(world.deps, {
      ...{ runId: config.runId, runDir: dir, bootId: world.bootId, handle: undefined },
    });
    assert.equal(resolved.kind, 'ended');
    assert.equal(resolved.report.result.kind, 'unknown');
    assert.equal(resolved.report.startedAtMs, undefined);
    await removeRunDir(dir);
  });

  it('is asked for by an agent that can open no file: it is unreachable, not damaged or gone', async () => {
    const config = await world.shell('exit 0');
    const dir = runDir(config);
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, 'exit'), 'a record that cannot be opened');
    assert.equal(readExitFile(dir, config.runId).kind, 'unreadable');
    const base = new URL('../../src/', import.meta.url).href;
    const script = `
      import { openSync } from 'node:fs';
      import { systemClock } from '${base}base/clock.js';
      import { resolveRun } from '${base}executor/resolve.js';
      const run = ${JSON.stringify({ runId: config.runId, runDir: dir, bootId: world.bootId })};
      const deps = { clock: systemClock, bootId: run.bootId, executorPath: '/bin/false', settleWithinMs: 0 };
      try { for (;;) openSync('/dev/null'); } catch {}
      resolveRun(deps, run).then((resolved) => process._rawDebug(resolved.kind));`;
    const said = spawnSync(
      '/bin/sh',
      ['-c', 'ulimit -n 80; exec "$0" --input-type=module -e "$1"', process.execPath, script],
      { encoding: 'utf8' },
    );
    assert.equal(said.stderr.trim(), 'unreachable');
    await removeRunDir(dir);
  });
});
