/** A run that is set up while its intent is being stored, and an agent that dies just then: it never ran, and another one does. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { findExecutor } from '../../src/executor/binary.js';
import { findProcessesOfRun } from '../../src/executor/processes.js';
import { atFailpoint } from '../crash/syscalls.js';
import { cgroupRoots } from '../helpers/host-traces.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

/** Of these the first ones of an agent that takes up its first job: one of them has the first intent. */
const COMMITS = [1, 2, 3, 4];

const job = (script: string): object => ({
  ID: 'once',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'group',
      RestartPolicy: { Attempts: 0, Mode: 'fail' },
      Tasks: [{ Name: 'main', Driver: 'raw_exec', Config: { command: '/bin/sh', args: ['-c', script] } }],
    },
  ],
});

/** Ids of the runs of which there is anything. */
function runDirs(agent: RealAgent): string[] {
  const runs = join(agent.dataDir, 'run');
  return existsSync(runs) ? readdirSync(runs).flatMap((shard) => readdirSync(join(runs, shard))) : [];
}

/** Cgroups of single runs. */
function leaves(agent: RealAgent): string[] {
  return cgroupRoots(agent.cgroupRoot).flatMap((root) =>
    readdirSync(root, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && /\.main\./.test(entry.name))
      .map(({ name }) => name),
  );
}

describe('an agent that is killed while a run is prepared', { timeout: 180_000 }, () => {
  it('G7: before its intent is stored: nothing has run, one other run does, and nothing is left of the first', async () => {
    let strays = 0;
    for (const commit of COMMITS) {
      await using agent = await RealAgent.start();
      const ran = join(agent.dir, 'ran');
      const theJob = job(`echo $HOLDFAST_RUN_ID >> ${ran}; exec sleep 1000`);
      await agent.leave();
      agent.launch(atFailpoint('store.before_commit', commit));
      await agent.ready().catch(() => undefined);
      await agent.register(theJob).catch(() => undefined);
      await until('it is dead', () => !agent.isUp(), { timeoutMs: 2_000 }).catch(() => agent.kill());
      const before = runDirs(agent);
      await agent.start();
      await agent.register(theJob);
      const [task] = await agent.untilTasks(
        'once',
        'runs',
        ([one]) => one?.state.State === 'running' && one.state.Holdfast.Pid !== null,
      );
      const runs = (await agent.runs(task?.allocId ?? '', 'main')).map(({ RunID }) => RunID);
      const [live = ''] = runs;
      assert.deepEqual(runs, [live], `commit ${commit}`);
      // Whose intent was not stored: the store has never heard of them.
      const unheard = before.filter((runId) => runId !== live);
      strays += unheard.length;
      await until(
        'what is left is of the run that the store knows',
        () =>
          runDirs(agent).every((runId) => runId === live) &&
          leaves(agent).every((name) => name.endsWith(live.slice(0, 8))),
        { lastSeen: () => [live, runDirs(agent), leaves(agent)] },
      );
      await until('it has said so', () => existsSync(ran) && readFileSync(ran, 'utf8') !== '');
      assert.equal(readFileSync(ran, 'utf8'), `${live}\n`, `commit ${commit}: once, and nothing else`);
      for (const runId of unheard) {
        const { executors, workload } = findProcessesOfRun(runId, findExecutor());
        assert.deepEqual([executors, workload], [[], []]);
      }
      assert.ok(isAlive(agent.processesOfRun(live).workload));
    }
    assert.ok(strays > 0, 'no agent was killed before the intent of a run that was prepared');
  });

  it('ends with the launcher that holds it, which ends with its agent even when it is stopped', async () => {
    await using agent = await RealAgent.start();
    const children = readFileSync(`/proc/${agent.pid}/task/${agent.pid}/children`, 'utf8').trim();
    const launcher = children
      .split(' ')
      .map(Number)
      .find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('\0launch\0'));
    assert.ok(launcher !== undefined, children);
    const startTicks = readProcessStat(launcher)?.startTicks ?? 0;
    process.kill(launcher, 'SIGSTOP');
    await agent.kill();
    await until('it is gone', () => !isAlive({ pid: launcher, startTicks }));
  });
});
