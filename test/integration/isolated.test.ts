/**
 * A task that is shut in, under a real agent: what it really got is on record and shown, the death of the agent and of
 * the executor changes nothing of it, and its limits follow the job file while it runs. As root and as an ordinary user.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive } from '../../src/base/host.js';
import { parseCgroupMounts } from '../../src/executor/cgroup-roots.js';
import { parseCores } from '../../src/executor/cores.js';
import type { Allocation, InForceJson } from '../../src/api/wire.js';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const IS_ROOT = process.getuid?.() === 0;
const MIB = 1024 * 1024;

function jobFile(resources: string): string {
  return `
job "box" {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command      = "sleep"
        args         = ["1000"]
        network_mode = "none"
        cap_drop     = ["all"]
        cap_add      = ["net_bind_service"]
        umask        = "027"
        nice         = 5
        oom_score_adj = 100
        ulimit { nofile = "256:512" }
      }
      resources {
        ${resources}
      }
      restart {
        attempts = 3
        interval = "1m"
        delay    = "100ms"
      }
    }
  }
}`;
}

/** Mounts of the host below that directory. Others come and go with whatever runs beside this. */
const mountsBelow = (dir: string): readonly string[] =>
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(dir));

class Box implements AsyncDisposable {
  readonly agent: RealAgent;
  readonly allocId: string;
  readonly runId: string;

  static async start(resources: string): Promise<Box> {
    const agent = await RealAgent.start();
    try {
      await Box.write(agent, resources);
      const isUp = (tasks: readonly TaskView[]): boolean =>
        tasks.length === 1 && tasks.every(({ state }) => state.State === 'running');
      const [task] = await agent.untilTasks('box', 'runs', isUp);
      const runId = task?.state.Holdfast.RunID;
      assert.ok(task !== undefined && typeof runId === 'string');
      return new Box(agent, task.allocId, runId);
    } catch (error) {
      await agent.close();
      throw error;
    }
  }

  static async write(agent: RealAgent, resources: string): Promise<string> {
    const file = join(agent.dir, 'box.hcl');
    writeFileSync(file, jobFile(resources));
    const { code, stdout, stderr } = await agent.cli(['run', '--detach', file]);
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  }

  private constructor(agent: RealAgent, allocId: string, runId: string) {
    this.agent = agent;
    this.allocId = allocId;
    this.runId = runId;
  }

  async inForce(): Promise<InForceJson> {
    const alloc = (await this.agent.get(`/v1/allocation/${this.allocId}`)) as Allocation;
    const state = alloc.TaskStates['t'];
    assert.equal(state?.State, 'running');
    assert.equal(state.Holdfast.RunID, this.runId);
    assert.ok(state.Holdfast.InForce !== undefined);
    return state.Holdfast.InForce;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent.close();
  }
}

describe('a task that is shut in, under an agent', { timeout: 240_000 }, () => {
  it('shows in status and inspect what it really got', async () => {
    await using box = await Box.start('cpu = 100');
    const { agent } = box;
    const seen = await box.inForce();
    assert.ok(seen.Process !== null);
    const own = ['mount', 'pid', 'ipc', 'uts', 'cgroup', 'net', ...(IS_ROOT ? [] : ['user'])];
    assert.deepEqual(seen.Process.OwnNamespaces, own);
    const { uid } = IS_ROOT ? { uid: 65_534 } : { uid: process.getuid?.() };
    assert.equal(seen.Process.UID, uid);
    assert.deepEqual(seen.Process.Capabilities.Bounding, ['net_bind_service']);
    assert.equal(seen.Process.NoNewPrivs, true);
    assert.equal(seen.Process.Seccomp, 'filter');
    assert.equal(seen.Process.Umask, '0027');
    assert.equal(seen.Process.Nice, 5);
    assert.equal(seen.Process.OOMScoreAdj, 100);
    assert.deepEqual(seen.Process.Rlimits['nofile'], { Soft: 256, Hard: 512 });
    assert.ok((seen.Process.Mounts?.ReadOnly ?? 0) > 0);

    const status = await agent.cli(['status', 'box']);
    const shown = status.stdout.replace(/\s+/g, ' ');
    assert.match(
      shown,
      new RegExp(`isolation: own ${own.join(' ')}, user \\S+, no new privileges, seccomp, `),
    );
    assert.match(shown, /; umask 0027, nice 5, oom_score_adj 100, ulimit nofile 256:512; /);
    const inspected = await agent.cli(['inspect', 'box/g/t']);
    const { Holdfast } = JSON.parse(inspected.stdout) as {
      Holdfast: { Running: readonly { AllocID: string; RunID: string; InForce: InForceJson }[] };
    };
    assert.deepEqual(
      Holdfast.Running.map(({ AllocID, RunID, InForce }) => ({ AllocID, RunID, InForce })),
      [{ AllocID: box.allocId, RunID: box.runId, InForce: seen }],
    );
  });

  it('G13 is not touched by the end of the agent and of the executor, and leaves no mount on the host', async () => {
    let dir: string;
    {
      await using box = await Box.start('cpu = 100');
      const { agent } = box;
      dir = agent.dir;
      const first = agent.processesOfRun(box.runId);
      const seen = await box.inForce();
      await agent.kill();
      assert.ok(isAlive(first.workload) && isAlive(first.executor));
      await agent.start();
      assert.deepEqual(await box.inForce(), seen);
      process.kill(first.executor.pid, 'SIGKILL');
      await until('another executor took over', () => {
        const { executor } = agent.processesOfRun(box.runId);
        return executor.pid !== first.executor.pid && isAlive(executor);
      });
      assert.ok(isAlive(first.workload));
      const second = agent.processesOfRun(box.runId);
      assert.deepEqual(second.workload, first.workload);
      // All at once: the agent, its executor, and the task.
      await agent.kill();
      for (const { pid } of [second.executor, second.workload]) process.kill(pid, 'SIGKILL');
      await until('the task is gone', () => !isAlive(second.workload));
      assert.deepEqual(mountsBelow(dir), []);
      await agent.start();
      await until('another run is up', async () => {
        const [task] = await agent.tasks('box');
        return task?.state.State === 'running' && task.state.Holdfast.RunID !== box.runId;
      });
    }
    assert.deepEqual(mountsBelow(dir), []);
  });

  it('G26 has its limits changed while it runs, and an agent that comes later sees them', async (t) => {
    await using box = await Box.start('cpu = 100');
    const { agent } = box;
    if ((await box.inForce()).Cgroups.length === 0) {
      // Without a cgroup nothing is limited: what was asked for is refused, and says so.
      t.diagnostic('no cgroup for this user');
      assert.deepEqual((await box.inForce()).Limits.MemoryMaxBytes, null);
      return;
    }
    const { workload } = agent.processesOfRun(box.runId);
    await Box.write(agent, 'memory = 64\ncpu_percent = 20\npids = 50\nio_read = 5');
    await until('the limits are changed', async () => (await box.inForce()).Limits.Pids === 50);
    const { Limits } = await box.inForce();
    assert.equal(Limits.MemoryMaxBytes, 64 * MIB);
    assert.equal(Limits.CPUPercent, 20);
    // v1: the task was in no group of that hierarchy before.
    const { Cgroups } = await box.inForce();
    const { v1 } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
    assert.equal(
      Cgroups.some((dir) => dir.includes('/blkio/')),
      v1.has('blkio'),
    );
    if (v1.has('blkio')) assert.equal(Limits.IOReadBps, 5 * MIB);
    await agent.kill();
    await agent.start();
    const later = await box.inForce();
    assert.deepEqual([later.Limits, later.Cgroups], [Limits, Cgroups]);
    assert.deepEqual(agent.processesOfRun(box.runId).workload, workload);
    await Box.write(agent, 'memory = 96');
    await until(
      'they are changed again',
      async () => (await box.inForce()).Limits.MemoryMaxBytes === 96 * MIB,
    );
    assert.equal((await box.inForce()).Limits.Pids, null);
    const { stdout } = await agent.cli(['status', 'box']);
    assert.match(stdout.replace(/\s+/g, ' '), /limits memory 96 MiB/);
    assert.deepEqual(agent.processesOfRun(box.runId).workload, workload);
    assert.ok(readdirSync(agent.runDir(box.runId)).includes('status'));
  });

  it('keeps the cores of a task free of all others', async (t) => {
    await using agent = await RealAgent.start();
    const task = (name: string, more: object): object => ({
      Name: name,
      Driver: 'raw_exec',
      Config: { command: '/bin/sleep', args: ['600'] },
      Resources: { CPU: 50, MemoryMB: 32, ...more },
    });
    const job = (id: string, more: object): object => ({
      ID: id,
      Type: 'batch',
      TaskGroups: [{ Name: 'g', RestartPolicy: { Attempts: 0 }, Tasks: [task('t', more)] }],
    });
    const allowed = async (id: string): Promise<string> => {
      const [seen] = await agent.untilTasks(id, 'runs', (tasks) => tasks[0]?.state.State === 'running');
      const { workload } = agent.processesOfRun(seen?.state.Holdfast.RunID ?? '');
      return (
        /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${workload.pid}/status`, 'utf8'))?.[1] ?? ''
      );
    };
    await agent.register(job('before', {}));
    const all = await allowed('before');
    await agent.register(job('own', { Cores: 1 }));
    const [own] = await agent.untilTasks(
      'own',
      'runs or fails',
      (tasks) => tasks[0]?.state.State !== 'pending',
    );
    if (own?.state.State === 'dead') {
      // No cpusets for this user, or one core only.
      t.diagnostic('no cores can be reserved here');
      assert.match(JSON.stringify(await agent.events('own')), /cores/);
      return;
    }
    const mine = await allowed('own');
    assert.match(mine, /^\d+$/);
    await agent.register(job('after', {}));
    const others = parseCores(all).filter((core) => String(core) !== mine);
    assert.deepEqual(parseCores(await allowed('after')), others);
    assert.deepEqual(parseCores(await allowed('before')), others);
    await agent.kill();
    await agent.start();
    assert.deepEqual([await allowed('own'), parseCores(await allowed('before'))], [mine, others]);
    const stopped = await agent.cli(['stop', 'own']);
    assert.equal(stopped.code, 0, stopped.stdout + stopped.stderr);
    await until('all cores are everybody’s again', async () => (await allowed('before')) === all);
  });

  it('has its cores again when it is killed and restarted without a delay, each time', async (t) => {
    await using agent = await RealAgent.start();
    const task = {
      Name: 't',
      Driver: 'raw_exec',
      Config: { command: '/bin/sleep', args: ['600'] },
      Resources: { Cores: 1, MemoryMB: 32 },
    };
    const policy = { Attempts: 5, Interval: 3600e9, Delay: 0, Mode: 'fail', Jitter: 0 };
    await agent.register({
      ID: 'own',
      Type: 'service',
      TaskGroups: [{ Name: 'g', RestartPolicy: policy, Tasks: [task] }],
    });
    for (let restarts = 0; restarts <= 3; restarts += 1) {
      const [own] = await agent.untilTasks('own', 'runs, or fails', ([seen]) => {
        const { State, Restarts, Failed } = seen?.state ?? {};
        return Failed === true || (State === 'running' && (Restarts ?? 0) >= restarts);
      });
      if (restarts === 0 && own?.state.Failed === true) {
        t.diagnostic('no cores can be reserved here');
        assert.match(JSON.stringify(await agent.events('own')), /cores/);
        return;
      }
      assert.equal(own?.state.Restarts, restarts, 'no start has failed');
      process.kill(agent.processesOfRun(own.state.Holdfast.RunID ?? '').workload.pid, 'SIGKILL');
    }
  });

  it('G27 tells once of limits that are not in force, however often it starts', async () => {
    // Below a file: this agent can have no cgroup, whoever it is.
    await using agent = await RealAgent.start({ env: { HOLDFAST_CGROUP_ROOT: 'cgroup.procs/x' } });
    await agent.register({
      ID: 'again',
      Type: 'batch',
      TaskGroups: [
        {
          Name: 'g',
          Tasks: [
            {
              Name: 't',
              Driver: 'raw_exec',
              Config: { command: '/bin/sh', args: ['-c', 'exit 3'] },
              RestartPolicy: { Attempts: 2, Interval: 60e9, Delay: 100e6, Mode: 'fail' },
              Resources: { CPU: 50, MemoryMB: 64 },
            },
          ],
        },
      ],
    });
    const count = async (type: string): Promise<number> =>
      (await agent.events('again')).filter(({ Type }) => Type === type).length;
    await until('it has given up', async () => (await count('Terminated')) === 3, { timeoutMs: 60_000 });
    const told = (await agent.events('again')).filter(({ Type }) => Type === 'Driver');
    assert.deepEqual(
      told.map(({ DisplayMessage }) => DisplayMessage),
      ['Not in force: memory: this host lets the agent have no cgroup'],
    );
  });
});
