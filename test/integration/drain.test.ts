/** Draining a host with a real agent: graceful, by a deadline, over a killed daemon, and undone. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Node } from '../../src/api/wire.js';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

function job(id: string, type: 'service' | 'batch', script: string): object {
  return {
    ID: id,
    Type: type,
    TaskGroups: [
      {
        Name: 'group',
        Count: 1,
        Tasks: [
          {
            Name: 'task',
            Driver: 'raw_exec',
            Config: { command: '/bin/sh', args: ['-c', script] },
            KillSignal: 'SIGTERM',
            KillTimeout: 2e9,
            RestartPolicy: { Attempts: 0, Mode: 'fail' },
            Resources: { CPU: 50, MemoryMB: 64 },
          },
        ],
      },
    ],
  };
}

const runs = (tasks: readonly TaskView[]): boolean => tasks.some(({ state }) => state.Holdfast.Pid !== null);
const over = (tasks: readonly TaskView[]): boolean => tasks.every(({ state }) => state.State === 'dead');
const GRACEFUL = 'trap "exit 0" TERM; while :; do sleep 0.05; done';

async function nodeOf(agent: RealAgent): Promise<Node> {
  const [stub] = (await agent.get('/v1/nodes')) as readonly { readonly ID: string }[];
  return (await agent.get(`/v1/node/${stub?.ID}`)) as Node;
}

describe('drain', () => {
  it('stops services gracefully, lets a batch job finish, starts nothing new; undone, all is back', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('web', 'service', GRACEFUL));
    await agent.register(
      job('work', 'batch', 'until [ -e "$NOMAD_ALLOC_DIR/data/cue" ]; do sleep 0.05; done'),
    );
    await agent.untilTasks('web', 'runs', runs);
    const [work] = await agent.untilTasks('work', 'runs', runs);

    const begun = await agent.cli(['drain', '--detach']);
    assert.equal(begun.code, 0, begun.stderr);
    const [web] = await agent.untilTasks('web', 'is over', over);
    assert.equal(web?.state.Holdfast.LastExit?.Code, 0, 'it was asked with its kill signal');
    assert.equal((await nodeOf(agent)).Drain, true);
    assert.match((await agent.cli(['ps'])).stdout, /this host is draining/);
    assert.match((await agent.cli(['node', 'status'])).stdout, /draining/);

    // Nothing new, also after a kill of the daemon, which goes on draining where it was.
    await agent.register(job('late', 'service', GRACEFUL));
    await agent.kill();
    await agent.start();
    assert.equal((await nodeOf(agent)).Drain, true);
    assert.equal((await agent.tasks('late')).length, 0);
    assert.equal(runs(await agent.tasks('work')), true, 'a batch job may finish');

    writeFileSync(`${agent.dataDir}/alloc/${work?.allocId}/alloc/data/cue`, '');
    await until('it is drained', async () => !(await nodeOf(agent)).Drain);
    assert.equal((await nodeOf(agent)).SchedulingEligibility, 'ineligible');
    assert.match((await agent.cli(['ps'])).stdout, /takes nothing new/);
    assert.equal(runs([...(await agent.tasks('late')), ...(await agent.tasks('web'))]), false);

    const ended = await agent.cli(['drain', '--disable']);
    assert.equal(ended.code, 0, ended.stderr);
    await agent.untilTasks('late', 'runs', runs);
    await agent.untilTasks('web', 'runs again', runs);
    const [finished] = await agent.tasks('work');
    assert.equal(finished?.state.Holdfast.Attempts, 1, 'what was complete is not run again');
  });

  it('at the deadline whatever is left is stopped; the command waits for it', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('endless', 'batch', 'exec sleep 1000'));
    await agent.untilTasks('endless', 'runs', runs);
    const drained = await agent.cli(['drain', '--deadline', '1s']);
    assert.equal(drained.code, 0, drained.stderr);
    assert.match(drained.stdout, /drained/);
    assert.equal(over(await agent.tasks('endless')), true);
  });

  it('eligibility is a thing of its own: what runs goes on, a newer version waits', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('web', 'service', GRACEFUL));
    const [before] = await agent.untilTasks('web', 'runs', runs);
    const off = await agent.cli(['node', 'eligibility', '--disable']);
    assert.equal(off.code, 0, off.stderr);
    const [after] = await agent.tasks('web');
    assert.equal(after?.state.Holdfast.Pid, before?.state.Holdfast.Pid, 'what runs goes on');
    // A newer version that needs a new run waits: what runs is better than nothing.
    await agent.register(job('web', 'service', `: changed; ${GRACEFUL}`));
    assert.equal((await agent.tasks('web'))[0]?.state.Holdfast.Pid, before?.state.Holdfast.Pid);
    const { ID } = await nodeOf(agent);
    await agent.request('PUT', `/v1/node/${ID}/drain`, { DrainSpec: { Deadline: 0 } });
    await agent.untilTasks('web', 'is over', over);
    await until('it is drained', async () => !(await nodeOf(agent)).Drain);
    const wrong = await agent.request('PUT', `/v1/node/${ID}/eligibility`, { Eligibility: 'maybe' });
    assert.equal(wrong.status, 400);
    await agent.cli(['node', 'eligibility', '--enable']);
    await agent.untilTasks('web', 'runs in its new version', runs);
    const usage = await agent.cli(['drain', '--deadline', 'soon']);
    assert.equal(usage.code, 2);
  });
});
