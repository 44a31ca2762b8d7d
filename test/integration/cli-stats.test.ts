/** `holdfast stats` against a real agent and a task that its CPU quota holds back. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TaskResourceUsage } from '../../src/api/wire.js';
import { until } from '../helpers/until.js';
import { CliWorld } from './cli-world.js';

/** Busy, but held to a twentieth of a core where there are cgroups; else it only sleeps. */
const JOB = `
job "eater" {
  group "g" {
    task "busy" {
      driver = "raw_exec"
      kill_timeout = "1s"
      resources {
        memory      = 64
        cpu_percent = 5
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "test \\"$0\\" = none && exec sleep 1000; while :; do :; done", "\${attr.driver.raw_exec.cgroups}"]
      }
    }
    task "idle" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`;

interface Row extends TaskResourceUsage {
  readonly Task: string;
}

describe('holdfast stats', { timeout: 120_000 }, () => {
  const world = new CliWorld();
  before(async () => {
    await world.startAgent();
    const ran = await world.cli('run', world.file('eater.hcl', JOB));
    assert.equal(ran.code, 0, ran.stderr);
  });
  after(async () => {
    await world.close();
  });
  const stats = async (...args: string[]): Promise<readonly Row[]> => {
    const { code, stdout, stderr } = await world.cli('stats', '--json', ...args);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as Row[];
  };

  it('tells CPU, memory, processes and throttling of each task', async () => {
    const first = await stats();
    assert.deepEqual(first.map(({ Task }) => Task).sort(), ['busy', 'idle']);
    for (const { Holdfast } of first) {
      assert.equal(typeof Holdfast.CPUPercent, 'number');
      assert.equal(Holdfast.Processes, 1);
      assert.ok(Holdfast.MemoryBytes > 0);
    }
    const [busy] = await stats('eater/g/busy');
    assert.equal(busy?.Task, 'busy');
    if (busy.Holdfast.ThrottledMs === null) {
      assert.notEqual(busy.Holdfast.Source, 'cgroup');
      return;
    }
    assert.equal(busy.Holdfast.MemoryLimitBytes, 64 * 2 ** 20);
    assert.equal(busy.Holdfast.OOMKills, 0);
    assert.ok((busy.Holdfast.MemoryPeakBytes ?? 0) >= busy.Holdfast.MemoryBytes / 2);
    await until(
      'its quota held it back',
      async () => ((await stats('eater/g/busy'))[0]?.Holdfast.ThrottledMs ?? 0) > 0,
    );
    const { stdout } = await world.cli('stats', 'eater');
    assert.match(stdout, /^JOB\/GROUP\/TASK +ALLOC +CPU +MEM\/LIMIT/);
    assert.match(stdout, /^eater\/g\/busy .*\/64 MiB/m);
  });

  it('-f goes on showing it', async () => {
    const live = world.follow('stats', '-f', '--json');
    await until('two pictures', () => live.stdout().split('\n').length > 2, { timeoutMs: 30_000 });
    const [line = ''] = live.stdout().split('\n');
    assert.equal((JSON.parse(line) as Row[]).length, 2);
    await live.end();
  });

  it('what does not run has exit code 3, what is not there 4', async () => {
    assert.equal((await world.cli('stats', 'nothing')).code, 4);
    assert.equal((await world.cli('stop', 'eater', '--no-shutdown-delay')).code, 0);
    assert.equal((await world.cli('stats', 'eater')).code, 3);
    const none = await world.cli('stats');
    assert.equal(none.code, 0);
    assert.match(none.stdout, /nothing runs now/);
  });
});
