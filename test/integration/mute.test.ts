/** Executors that were killed, stopped, or lost their socket: a stop still ends the task, and in good time. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat, type ProcessRef } from '../../src/base/host.js';
import type { TaskView } from '../helpers/agent-api.js';
import { canHaveHangingDisk, HangingDisk, hangs } from '../helpers/hanging-disk.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

/** Less than the second that a timer anywhere on the way would take. */
const SOON_MS = 1000;

async function start(
  agent: RealAgent,
  id: string,
  config: object = {},
): Promise<{ view: TaskView; dir: string; executor: ProcessRef; workload: ProcessRef }> {
  await agent.register({
    ID: id,
    Type: 'service',
    TaskGroups: [
      {
        Name: 'group',
        Tasks: [
          {
            Name: 'task',
            Driver: 'raw_exec',
            Config: { command: '/bin/sleep', args: ['1000'], ...config },
            RestartPolicy: { Attempts: 0, Mode: 'fail' },
            KillTimeout: 1e9,
            Resources: { CPU: 50, MemoryMB: 64 },
          },
        ],
      },
    ],
  });
  const [view] = await agent.untilTasks(id, 'runs', (tasks) =>
    tasks.some(({ state }) => state.State === 'running' && state.Holdfast.Pid !== null),
  );
  assert.ok(view !== undefined);
  const runId = view.state.Holdfast.RunID ?? '';
  return { view, dir: agent.runDir(runId), ...agent.processesOfRun(runId) };
}

/** Milliseconds from asking for a stop until the workload is gone. */
async function stop(agent: RealAgent, id: string, workload: ProcessRef): Promise<number> {
  const fromMs = performance.now();
  await agent.request('DELETE', `/v1/job/${id}`);
  await until('the workload is gone', () => !isAlive(workload), { timeoutMs: 30_000, everyMs: 2 });
  const tookMs = performance.now() - fromMs;
  await agent.untilTasks(id, 'is over', (tasks) => tasks.every(({ state }) => state.State === 'dead'));
  return tookMs;
}

const supervisionLost = async (agent: RealAgent, id: string): Promise<boolean> =>
  (await agent.events(id)).some(({ Type }) => Type === 'Supervision Lost');

describe('a stop', { timeout: 120_000 }, () => {
  it('of a run that was taken over is as quick as any other', async () => {
    await using agent = await RealAgent.start();
    const { executor, workload, view } = await start(agent, 'orphan');
    process.kill(executor.pid, 'SIGKILL');
    await until('it is taken over', () => supervisionLost(agent, 'orphan'));
    const tookMs = await stop(agent, 'orphan', workload);
    assert.ok(tookMs < SOON_MS, `${tookMs} ms`);
    const [run] = await agent.runs(view.allocId, 'task');
    assert.equal(run?.Exit?.Kind, 'signaled');
  });

  it('G17: of a run whose executor is stopped wakes it, and the end is the true one', async () => {
    await using agent = await RealAgent.start();
    const { executor, workload, view } = await start(agent, 'mute');
    process.kill(executor.pid, 'SIGSTOP');
    await until('it is stopped', () => readProcessStat(executor.pid)?.state === 'T');
    await stop(agent, 'mute', workload);
    const [run] = await agent.runs(view.allocId, 'task');
    assert.equal(run?.Exit?.Kind, 'signaled');
    assert.equal(await supervisionLost(agent, 'mute'), false);
  });
});

const FREEZER = '/sys/fs/cgroup/freezer';
const canFreeze =
  process.getuid?.() === 0 &&
  existsSync(join(FREEZER, 'cgroup.procs')) &&
  !existsSync(join(FREEZER, 'freezer.state'));

describe('a log disk that hangs', { timeout: 120_000 }, () => {
  const skip = !canHaveHangingDisk() && 'needs root, loop devices, mkfs.ext4 and fsfreeze';
  it('G30: a stop ends as any other, with the true end, while the disk hangs', { skip }, async () => {
    await using agent = await RealAgent.start();
    await agent.kill();
    await using disk = new HangingDisk(join(agent.dir, 'image'), join(agent.dataDir, 'alloc'));
    await agent.start();
    const loud = { command: '/usr/bin/yes', args: [] };
    const { executor, workload, view } = await start(agent, 'loud', loud);
    disk.freeze();
    await until('it hangs', () => hangs(executor.pid));
    await stop(agent, 'loud', workload);
    const [run] = await agent.runs(view.allocId, 'task');
    assert.deepEqual([run?.Exit?.Kind, run?.LogComplete], ['signaled', false]);
    assert.equal(await supervisionLost(agent, 'loud'), false);
    disk.thaw();
    await until('the executor is gone', () => readProcessStat(executor.pid) === undefined);
  });
});

describe('an executor that hangs', { timeout: 180_000 }, () => {
  const skip = !canFreeze && 'no cgroup v1 freezer that may be used';
  it(
    'G30: its executor answers nobody and does not die; a stop kills the task all the same',
    { skip },
    async () => {
      await using agent = await RealAgent.start();
      const loud = { command: '/usr/bin/yes', args: [] };
      const { executor, workload, view } = await start(agent, 'hung', loud);
      // Frozen by v1 is like a write that the disk never answers: nothing is done, and not even SIGKILL ends it.
      const group = join(FREEZER, `holdfast-test-${process.pid}-hung`);
      mkdirSync(group);
      const thaw = (): void => {
        writeFileSync(join(group, 'freezer.state'), 'THAWED');
      };
      try {
        writeFileSync(join(group, 'cgroup.procs'), String(executor.pid));
        writeFileSync(join(group, 'freezer.state'), 'FROZEN');
        await until('it hangs', () => readFileSync(join(group, 'freezer.state'), 'utf8') === 'FROZEN\n');
        await until('the pipe of the task is full', () =>
          readFileSync(`/proc/${workload.pid}/wchan`, 'utf8').includes('pipe_write'),
        );
        await agent.request('DELETE', '/v1/job/hung');
        await until(
          'the task is dead',
          () => !isAlive(workload) || readProcessStat(workload.pid)?.state === 'Z',
          {
            timeoutMs: 60_000,
          },
        );
        assert.ok(isAlive(executor), 'the executor hangs on');
        thaw();
        await agent.untilTasks('hung', 'is over', (tasks) =>
          tasks.every(({ state }) => state.State === 'dead'),
        );
        const [run] = await agent.runs(view.allocId, 'task');
        // Whoever sees its status says how it ended; nobody makes it up.
        assert.ok(['signaled', 'unknown'].includes(run?.Exit?.Kind ?? ''), JSON.stringify(run?.Exit));
      } finally {
        thaw();
        await until('the group is empty', () => readFileSync(join(group, 'cgroup.procs'), 'utf8') === '');
        rmdirSync(group);
      }
    },
  );
});

describe('an agent that comes back to 50 tasks', { timeout: 180_000 }, () => {
  const skip = !canFreeze && 'no cgroup v1 freezer that may be used';
  it(
    'supervises all of them but the one whose executor hangs, and that one when it can',
    { skip },
    async () => {
      await using agent = await RealAgent.start();
      await agent.register({
        ID: 'many',
        Type: 'service',
        TaskGroups: [
          {
            Name: 'group',
            Count: 50,
            Tasks: [
              {
                Name: 'task',
                Driver: 'raw_exec',
                Config: { command: '/bin/sleep', args: ['1000'] },
                RestartPolicy: { Attempts: 0, Mode: 'fail' },
                Resources: { CPU: 1, MemoryMB: 16 },
              },
            ],
            ReschedulePolicy: { Attempts: 0, Unlimited: false },
          },
        ],
      });
      const views = await agent.untilTasks(
        'many',
        'all run',
        (tasks) =>
          tasks.length === 50 &&
          tasks.every(({ state }) => state.State === 'running' && state.Holdfast.Pid !== null),
      );
      const [hung, ...others] = views.map((view) => ({
        ...view,
        ...agent.processesOfRun(view.state.Holdfast.RunID ?? ''),
      }));
      assert.ok(hung !== undefined);
      await agent.kill();
      const group = join(FREEZER, `holdfast-test-${process.pid}-many`);
      mkdirSync(group);
      const thaw = (): void => {
        writeFileSync(join(group, 'freezer.state'), 'THAWED');
      };
      try {
        writeFileSync(join(group, 'cgroup.procs'), String(hung.executor.pid));
        writeFileSync(join(group, 'freezer.state'), 'FROZEN');
        await until('it hangs', () => readFileSync(join(group, 'freezer.state'), 'utf8') === 'FROZEN\n');
        await agent.start();
        // Only whoever is connected to its executor hears of an end.
        for (const { workload } of others) process.kill(workload.pid, 'SIGKILL');
        const after = await agent.untilTasks(
          'many',
          'the others have ended',
          (tasks) => tasks.filter(({ state }) => state.State === 'dead').length === others.length,
        );
        const still = after.find(({ allocId }) => allocId === hung.allocId);
        assert.equal(still?.state.State, 'running', 'what cannot be asked is not over');
        assert.ok(isAlive(hung.workload) && isAlive(hung.executor));
        thaw();
        process.kill(hung.workload.pid, 'SIGKILL');
        await agent.untilTasks('many', 'it is over as well', (tasks) =>
          tasks.every(({ state }) => state.State === 'dead'),
        );
        const [run] = await agent.runs(hung.allocId, 'task');
        assert.equal(run?.Exit?.Kind, 'signaled');
      } finally {
        thaw();
        await until('the group is empty', () => readFileSync(join(group, 'cgroup.procs'), 'utf8') === '');
        rmdirSync(group);
      }
    },
  );
});

describe('G12: an executor without its socket', { timeout: 120_000 }, () => {
  it('is found again by an agent that comes back', async () => {
    await using agent = await RealAgent.start();
    const { executor, workload, dir } = await start(agent, 'lost');
    await agent.kill();
    rmSync(join(dir, 'sock'));
    await agent.start();
    await until('the socket is back', () => existsSync(join(dir, 'sock')));
    const [view] = await agent.untilTasks('lost', 'runs', (tasks) =>
      tasks.some(({ state }) => state.State === 'running'),
    );
    assert.equal(view?.state.Holdfast.Pid, workload.pid);
    assert.ok(isAlive(executor), 'it is the same executor');
    assert.equal(await supervisionLost(agent, 'lost'), false);
    await stop(agent, 'lost', workload);
  });
});

describe('G13: on_executor_death = "kill"', { timeout: 120_000 }, () => {
  it('the task ends with its executor, and its end is unknown or the true one', async () => {
    await using agent = await RealAgent.start();
    const { executor, workload, view } = await start(agent, 'bound', { on_executor_death: 'kill' });
    process.kill(executor.pid, 'SIGKILL');
    await until('the workload is gone', () => !isAlive(workload));
    await agent.untilTasks('bound', 'is over', (tasks) => tasks.every(({ state }) => state.State === 'dead'));
    const [run] = await agent.runs(view.allocId, 'task');
    assert.ok(['signaled', 'unknown'].includes(run?.Exit?.Kind ?? ''), JSON.stringify(run?.Exit));
  });
});
