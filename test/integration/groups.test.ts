/** Groups as a whole, with real processes: checks, health, restarts of all tasks, max_run_duration over a killed agent. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { AllocListStub, CheckView } from '../../src/api/wire.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const allocOf = async (agent: RealAgent): Promise<AllocListStub> => {
  const [alloc] = (await agent.get('/v1/allocations')) as readonly AllocListStub[];
  assert.ok(alloc, 'there is an alloc');
  return alloc;
};

const eventsOf = (alloc: AllocListStub, task: string): readonly string[] =>
  (alloc.TaskStates[task]?.Events ?? []).map(({ Type }) => Type);

async function untilAlloc(
  agent: RealAgent,
  what: string,
  isSo: (alloc: AllocListStub) => boolean,
): Promise<AllocListStub> {
  let last: AllocListStub | undefined;
  await until(
    what,
    async () => {
      last = await allocOf(agent);
      return isSo(last);
    },
    { timeoutMs: 30_000 },
  );
  assert.ok(last);
  return last;
}

describe('groups, for real', () => {
  it('a script check makes an alloc healthy, and restarts its task when it fails', async () => {
    await using agent = await RealAgent.start();
    const flag = join(agent.dir, 'well');
    writeFileSync(flag, '');
    const file = join(agent.dir, 'job.hcl');
    writeFileSync(
      file,
      `job "checked" {
        group "g" {
          update {
            min_healthy_time = "1s"
            healthy_deadline = "30s"
          }
          task "main" {
            driver = "raw_exec"
            config {
              command = "sleep"
              args    = ["1000"]
            }
            restart {
              attempts = 3
              delay    = "0s"
            }
            service {
              check {
                name     = "flag"
                type     = "script"
                command  = "/bin/sh"
                args     = ["-c", "echo looked; test -e ${flag} || exit 2"]
                interval = "1s"
                timeout  = "5s"
                check_restart {
                  limit = 2
                  grace = "0s"
                }
              }
            }
          }
        }
      }`,
    );
    assert.equal((await agent.cli(['run', '--detach', file])).code, 0);
    const healthy = await untilAlloc(agent, 'is healthy', (alloc) => alloc.DeploymentStatus !== null);
    assert.equal(healthy.DeploymentStatus?.Healthy, true);
    const checks = (await agent.get(`/v1/client/allocation/${healthy.ID}/checks`)) as Record<
      string,
      CheckView
    >;
    const [check] = Object.values(checks);
    assert.deepEqual([check?.Check, check?.Status, check?.Output], ['flag', 'success', 'looked\n']);
    assert.match(
      (await agent.cli(['status', 'checked'])).stdout,
      /healthy after .*\n[^]*Checks .* flag {2}passing/,
    );
    rmSync(flag);
    const restarted = await untilAlloc(
      agent,
      'was restarted',
      (alloc) => (alloc.TaskStates['main']?.Restarts ?? 0) === 1,
    );
    assert.ok(eventsOf(restarted, 'main').includes('Restart Signaled'));
    writeFileSync(flag, '');
  });

  it('restart --all-tasks runs what has ended again, in order, though the agent is killed in it', async () => {
    await using agent = await RealAgent.start();
    const trace = join(agent.dir, 'trace');
    const file = join(agent.dir, 'job.hcl');
    const task = (name: string, more: string): string =>
      `task "${name}" {
         driver = "raw_exec"
         kill_timeout = "2s"
         config {
           command = "/bin/sh"
           args    = ["-c", "echo ${name} >> ${trace}${name === 'main' ? '; exec sleep 1000' : ''}"]
         }
         ${more}
       }`;
    const init = 'lifecycle {\n hook = "prestart"\n }';
    writeFileSync(file, `job "staged" {\n group "g" {\n ${task('main', '')}\n ${task('init', init)}\n }\n }`);
    assert.equal((await agent.cli(['run', '--detach', file])).code, 0);
    const lines = (): string => (existsSync(trace) ? readFileSync(trace, 'utf8') : '');
    await until('both have run', () => lines() === 'init\nmain\n');
    await untilAlloc(agent, 'runs', (alloc) => alloc.TaskStates['main']?.State === 'running');
    assert.equal((await agent.cli(['restart', 'staged/g/init'])).code, 3, 'it has ended');
    assert.equal((await agent.cli(['restart', '--all-tasks', 'staged/g/init'])).code, 2);
    const asked = await agent.cli(['restart', '--all-tasks', 'staged']);
    assert.equal(asked.code, 0, asked.stderr);
    await agent.kill();
    await agent.start();
    await until('both have run again', () => lines() === 'init\nmain\ninit\nmain\n', { timeoutMs: 30_000 });
    const alloc = await untilAlloc(
      agent,
      'runs',
      ({ TaskStates }) => TaskStates['main']?.State === 'running',
    );
    assert.deepEqual([alloc.TaskStates['init']?.Restarts, alloc.TaskStates['main']?.Restarts], [1, 1]);
  });

  it('max_run_duration ends an alloc on time, also when the agent was away meanwhile', async () => {
    await using agent = await RealAgent.start();
    const file = join(agent.dir, 'job.hcl');
    writeFileSync(
      file,
      `job "short" {
        type = "batch"
        group "g" {
          max_run_duration = "3s"
          task "main" {
            driver = "raw_exec"
            config {
              command = "sleep"
              args    = ["1000"]
            }
          }
        }
      }`,
    );
    assert.equal((await agent.cli(['run', '--detach', file])).code, 0);
    await untilAlloc(agent, 'runs', (alloc) => alloc.ClientStatus === 'running');
    await agent.kill();
    await agent.start();
    const over = await untilAlloc(agent, 'is complete', (alloc) => alloc.ClientStatus === 'complete');
    assert.equal(over.ClientDescription, 'allocation exceeded max_run_duration');
    assert.equal(eventsOf(over, 'main').filter((type) => type === 'Started').length, 1);
  });
});
