/** The daemon as a service: what a service manager hears of a real one. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readProcessStat } from '../../src/base/host.js';
import { RealAgent } from '../helpers/real-agent.js';
import { ServiceManager } from '../helpers/service-manager.js';
import { until } from '../helpers/until.js';

const job = {
  ID: 'sleeper',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'g',
      Count: 2,
      Tasks: [{ Name: 't', Driver: 'raw_exec', Config: { command: 'sleep', args: ['1000'] } }],
    },
  ],
};

/** Pids of the helpers that a process has. */
/** '' when it has ended meanwhile. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return '';
  }
}

function helpersOf(parent: number): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => readProcessStat(pid)?.ppid === parent)
    .filter((pid) => commandOf(pid).endsWith('\0notify\0'));
}

test('a manager hears readiness, status, watchdog, reload and the end of a real agent', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'hf-sd-'));
  try {
    await using manager = await ServiceManager.listen(join(dir, 'notify'));
    await using agent = await RealAgent.start({
      env: { NOTIFY_SOCKET: manager.socket, WATCHDOG_USEC: '400000' },
    });
    const ready = await manager.until('it is ready', ({ READY }) => READY === '1');
    assert.equal(ready, 0, 'nothing is told before');
    assert.equal(manager.heard[0]?.fields['STATUS'], 'no tasks');

    await agent.register(job);
    await manager.until('both run', ({ STATUS }) => STATUS === '2 tasks running');

    const fed = manager.heard.length;
    const first = await manager.until('fed', ({ WATCHDOG }) => WATCHDOG === '1', fed);
    await manager.until('fed again', ({ WATCHDOG }) => WATCHDOG === '1', first + 1);

    const before = manager.heard.length;
    process.kill(agent.pid, 'SIGHUP');
    const reloading = await manager.until('it reloads', ({ RELOADING }) => RELOADING === '1', before);
    const { fields, atMs } = manager.heard[reloading] ?? { fields: {}, atMs: 0 };
    const saidMs = Number(fields['MONOTONIC_USEC']) / 1000;
    assert.ok(saidMs <= atMs && saidMs > atMs - 30_000, `${saidMs} is not on the clock of ${atMs}`);
    await manager.until('it is ready again', ({ READY }) => READY === '1', reloading + 1);

    // A helper that is killed costs nothing but itself.
    const [helper] = helpersOf(agent.pid);
    assert.ok(helper !== undefined);
    process.kill(helper, 'SIGKILL');
    await until('there is another helper', () => {
      const [now] = helpersOf(agent.pid);
      return now !== undefined && now !== helper;
    });

    const [task] = await agent.tasks('sleeper');
    assert.ok(task !== undefined);
    const [run] = await agent.runs(task.allocId, 't');
    assert.ok(run !== undefined);
    const { workload } = agent.processesOfRun(run.RunID);
    assert.ok(!readFileSync(`/proc/${workload.pid}/environ`, 'latin1').includes('NOTIFY_SOCKET'));

    const last = manager.heard.length;
    const helpers = helpersOf(agent.pid);
    await agent.leave();
    await manager.until('it leaves', ({ STOPPING }) => STOPPING === '1', last);
    for (const pid of helpers) assert.ok(!existsSync(`/proc/${pid}`), 'the helper goes with the agent');
    assert.ok(existsSync(`/proc/${workload.pid}`), 'the task stays');

    const comeback = manager.heard.length;
    await agent.start();
    const again = await manager.until('it is back', ({ READY }) => READY === '1', comeback);
    assert.equal(manager.heard[again]?.fields['STATUS'], '2 tasks running');
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

test('an agent that is killed leaves no helper, and one that cannot start says why', async () => {
  const name = `@hf-sd-${process.pid}`;
  await using manager = await ServiceManager.listen(name);
  await using agent = await RealAgent.start({ env: { NOTIFY_SOCKET: name } });
  await manager.until('it is ready', ({ READY }) => READY === '1');
  const refused = await agent.cli(['agent', '--data-dir', agent.dataDir], { env: { NOTIFY_SOCKET: name } });
  assert.equal(refused.code, 1);
  await manager.until('it says why', ({ STATUS }) => /^cannot start: .*another agent/.test(STATUS ?? ''));
  const helpers = helpersOf(agent.pid);
  assert.equal(helpers.length, 1);
  await agent.kill();
  await until('the helper is gone', () => helpers.every((pid) => readProcessStat(pid) === undefined));
});
