/** An agent of an ordinary user in cgroups that were handed over to it: it limits its tasks there, and finds them again. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findExecutor } from '../../src/executor/binary.js';
import { AS_ORDINARY_USER, DelegatedCgroups, ORDINARY_UID, whyNotDelegated } from '../helpers/delegated.js';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
const skip = whyNotDelegated([CLI, findExecutor()]);
const MIB = 2 ** 20;

/** Of a task that has a child in a session of its own, which only its cgroup tells of. */
const JOB = {
  ID: 'small',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'group',
      RestartPolicy: { Attempts: 0, Mode: 'fail' },
      Tasks: [
        {
          Name: 'main',
          Driver: 'raw_exec',
          Config: { command: '/bin/sh', args: ['-c', 'setsid env -i sleep 1000 & wait'] },
          Resources: { CPU: 100, MemoryMB: 64, Pids: 50 },
        },
      ],
    },
  ],
};

interface Seen {
  readonly Holdfast: {
    readonly CgroupMode: string;
    readonly CgroupsDelegated: readonly string[];
    readonly Capabilities: readonly unknown[];
  };
}

async function look(agent: RealAgent): Promise<Seen['Holdfast']> {
  const nodes = (await agent.get('/v1/nodes')) as readonly { readonly ID: string }[];
  return ((await agent.get(`/v1/node/${nodes[0]?.ID ?? ''}`)) as Seen).Holdfast;
}

/** Leaves of runs, in each of the hierarchies. */
function leavesIn(own: DelegatedCgroups): string[] {
  return [...own.dirs.values()].flatMap((dir) => {
    const root = join(dir, 'holdfast.slice');
    return (existsSync(root) ? readdirSync(root) : [])
      .filter((name) => name.includes('.main.'))
      .map((name) => join(root, name));
  });
}

const read = (leaves: readonly string[], file: string): string[] =>
  leaves
    .map((leaf) => join(leaf, file))
    .filter((path) => existsSync(path))
    .map((path) => readFileSync(path, 'utf8').trim());

describe(
  'an agent of an ordinary user, in cgroups that were delegated to it',
  { timeout: 120_000, skip },
  () => {
    it('G27: limits its tasks there, finds them again from another child of it, and leaves nothing', async () => {
      await using own = new DelegatedCgroups(['memory', 'cpu', 'pids']);
      await using agent = await RealAgent.start({ uid: ORDINARY_UID, prefix: own.command() });
      const before = await look(agent);
      assert.notEqual(before.CgroupMode, 'none');
      assert.deepEqual([...before.CgroupsDelegated].sort(), [...own.dirs.values()].sort());
      const { stdout } = await agent.cli(['node', 'status']);
      assert.ok(stdout.replace(/\s+/g, '').includes(`${own.name}/agent`), stdout);

      await agent.register(JOB);
      const running = (tasks: readonly TaskView[]): boolean => tasks[0]?.state.State === 'running';
      const [task] = await agent.untilTasks('small', 'runs', running);
      assert.ok(task);
      const leaves = leavesIn(own);
      assert.equal(leaves.length, own.dirs.size, leaves.join());
      if (own.dirs.has('memory')) assert.deepEqual(read(leaves, 'memory.limit_in_bytes'), [String(64 * MIB)]);
      if (own.dirs.has('pids')) assert.deepEqual(read(leaves, 'pids.max'), ['50']);
      await until('its child is in it too', () =>
        read(leaves, 'cgroup.procs').every((text) => text.split('\n').length === 2),
      );

      await agent.kill();
      agent.launch(own.command('again'));
      await agent.ready();
      const after = await look(agent);
      assert.deepEqual(after.CgroupsDelegated, before.CgroupsDelegated);
      assert.deepEqual(after.Capabilities, before.Capabilities);
      await agent.untilTasks('small', 'runs', running);
      assert.equal((await agent.runs(task.allocId, 'main')).length, 1);
      const { stdout: found } = await agent.cli(['doctor', '--json']);
      assert.ok(!found.includes('"cgroup"'), found);

      const [pids = ''] = read(leaves, 'cgroup.procs');
      await agent.request('DELETE', '/v1/job/small?purge=true');
      await until('its leaves are gone', () => leavesIn(own).length === 0);
      for (const pid of pids.split('\n')) assert.ok(!existsSync(`/proc/${pid}`), `pid ${pid} is there still`);
    });

    it('has none when nothing was, and says how that is done', async () => {
      await using agent = await RealAgent.start({ uid: ORDINARY_UID, prefix: AS_ORDINARY_USER });
      assert.equal((await look(agent)).CgroupMode, 'none');
      const { stdout } = await agent.cli(['node', 'status']);
      assert.match(stdout, /Delegate=yes/);
    });
  },
);
