/** Deployments, launches and collection with a real agent that is killed in the middle. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { AllocListStub, Deployment, DispatchResponse } from '../../src/api/wire.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const S = 1e9;

function service(script: string): object {
  return {
    ID: 'web',
    Type: 'service',
    Update: { MaxParallel: 1, HealthCheck: 'task_states', MinHealthyTime: S / 2, AutoRevert: true },
    TaskGroups: [
      {
        Name: 'g',
        Count: 2,
        RestartPolicy: { Attempts: 0, Mode: 'fail' },
        Tasks: [{ Name: 'main', Driver: 'raw_exec', Config: { command: 'sh', args: ['-c', script] } }],
      },
    ],
  };
}

const batch = (id: string, own: object, script = 'echo "got $NOMAD_META_input"'): object => ({
  ID: id,
  Type: 'batch',
  TaskGroups: [
    {
      Name: 'g',
      Tasks: [{ Name: 'main', Driver: 'raw_exec', Config: { command: 'sh', args: ['-c', script] } }],
    },
  ],
  ...own,
});

/** Waits until the newest deployment of the job is of that version and has come to an end. */
async function ended(agent: RealAgent, version: number): Promise<Deployment> {
  let seen: Deployment | null = null;
  return await until(
    `the deployment of version ${version} ends`,
    async () => {
      const all = (await agent.get('/v1/job/web/deployments')) as readonly Deployment[];
      seen = all.find(({ JobVersion }) => JobVersion === version) ?? null;
      return seen === null || seen.Status === 'running' ? undefined : seen;
    },
    { timeoutMs: 60_000, everyMs: 100, lastSeen: () => seen },
  );
}

const running = async (agent: RealAgent): Promise<readonly AllocListStub[]> => {
  const allocs = (await agent.get('/v1/job/web/allocations')) as readonly AllocListStub[];
  return allocs.filter(
    ({ ClientStatus, DesiredStatus }) => ClientStatus === 'running' && DesiredStatus === 'run',
  );
};

describe('scheduling, with a real agent', () => {
  it('a good version goes from place to place over a SIGKILL of the agent; a bad one goes back', async () => {
    await using agent = await RealAgent.start();
    await agent.register(service('exec sleep 1000'));
    assert.equal((await ended(agent, 0)).Status, 'successful');
    const before = new Set((await running(agent)).map(({ ID }) => ID));

    await agent.register(service('echo 2; exec sleep 1000'));
    await agent.kill();
    await agent.start();
    assert.equal((await ended(agent, 1)).Status, 'successful');
    const good = await running(agent);
    assert.deepEqual(
      good.map(({ JobVersion, ID }) => [JobVersion, before.has(ID)]),
      [
        [1, false],
        [1, false],
      ],
    );

    await agent.register(service('exit 3'));
    await agent.kill();
    await agent.start();
    const failed = await ended(agent, 2);
    assert.equal(failed.Status, 'failed');
    assert.match(failed.StatusDescription, /rolling back to job version 1/);
    assert.equal((await ended(agent, 3)).Status, 'successful');
    const after = await running(agent);
    assert.equal(after.length, 2);
    const kept = after.filter(({ ID }) => good.some((alloc) => alloc.ID === ID));
    assert.equal(kept.length, 1, 'the place that was not reached runs on');
    const job = (await agent.get('/v1/job/web')) as { readonly Stable: boolean };
    assert.equal(job.Stable, true);
  });

  it('a pattern is dispatched, its launch is forgotten with its directory, and nothing that is needed', async () => {
    await using agent = await RealAgent.start();
    await agent.register(batch('conv', { ParameterizedJob: { MetaRequired: ['input'] } }));
    await agent.register(batch('once', {}, 'true'));
    const refused = await agent.request('PUT', '/v1/job/conv/dispatch', {});
    assert.equal(refused.status, 400, refused.text);
    const { text } = await agent.request('PUT', '/v1/job/conv/dispatch', { Meta: { input: 'a.wav' } });
    const { DispatchedJobID: id } = JSON.parse(text) as DispatchResponse;
    const [view] = await agent.untilTasks(id, 'is over', (tasks) =>
      tasks.some(({ state }) => state.State === 'dead'),
    );
    assert.ok(view);
    assert.equal(agent.output(view.allocId, 'main'), 'got a.wav\n');
    await agent.untilTasks('once', 'is over', (tasks) => tasks.some(({ state }) => state.State === 'dead'));
    const dir = join(agent.dataDir, 'alloc', view.allocId);
    await until('all of it is forgotten', async () => {
      await agent.request('PUT', '/v1/system/gc');
      return (await agent.tasks(id)).length === 0 && !existsSync(dir);
    });
    assert.equal((await agent.tasks('once')).length, 1, 'it says that the job is done');
  });

  it('a clock launches a job, and an agent that comes back goes on with it', async () => {
    await using agent = await RealAgent.start();
    await agent.register(batch('tick', { Periodic: { Enabled: true, Spec: '* * * * * *' } }, 'true'));
    const launches = async (): Promise<number> =>
      ((await agent.get('/v1/jobs?prefix=tick/')) as readonly unknown[]).length;
    await until('two launches', async () => (await launches()) >= 2, { timeoutMs: 30_000 });
    await agent.kill();
    await agent.start();
    const known = await launches();
    await until('one more', async () => (await launches()) > known, { timeoutMs: 30_000 });
    // An attempt whose start was cut off is made again; no launch has ever run twice.
    for (const { state } of await agent.tasks())
      assert.ok(state.Events.filter(({ Type }) => Type === 'Started').length <= 1);
  });
});
