/** What is watched while something changes: a deployment that fails, logs over a reschedule, screens over a restart. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { until } from '../helpers/until.js';
import { CliWorld } from './cli-world.js';

/** A service that is rolled out with a way back. */
const service = (script: string): string => `
job "site" {
  group "g" {
    count = 2
    update {
      min_healthy_time  = "300ms"
      healthy_deadline  = "20s"
      progress_deadline = "30s"
      auto_revert       = true
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "${script}"]
      }
    }
  }
}
`;

/** Each alloc says a few lines and fails; another takes its place. */
const MOVING = `
job "moving" {
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      delay          = "1s"
      delay_function = "constant"
      unlimited      = true
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo begin $NOMAD_SHORT_ALLOC_ID; sleep 1; echo end $NOMAD_SHORT_ALLOC_ID; exit 3"]
      }
    }
  }
}
`;

describe('while something changes', { timeout: 120_000 }, () => {
  let world: CliWorld;
  before(async () => {
    world = new CliWorld();
    await world.startAgent();
  });
  after(async () => {
    await world.close();
  });

  it('run watches a deployment to its good end, or says why it failed and what goes back', async () => {
    world.file('site.hcl', service('echo up; exec sleep 1000'));
    const good = await world.cli('run', 'site.hcl');
    assert.equal(good.code, 0, good.stderr + good.stdout);
    assert.match(good.stdout, /\/main {2}Started {9}Task started by client, pid \d+\n/);
    assert.match(
      good.stdout,
      /\ndeployment [0-9a-f]{8}: successful, g 2 of 2 healthy\njob site is healthy: /,
    );

    world.file('site.hcl', service('echo no database >&2; exit 3'));
    const bad = await world.cli('run', 'site.hcl');
    assert.equal(bad.code, 1, bad.stderr + bad.stdout);
    assert.match(bad.stdout, /\ndeployment [0-9a-f]{8}: failed, g 0 of 2 healthy, 1 unhealthy\n/);
    assert.match(bad.stdout, /\nlast lines of stderr of main:\n {2}no database\n/);
    assert.match(
      bad.stderr,
      /^holdfast: job site failed: site\.g\[\d\] [0-9a-f]{8} task main: exited 3; .*rolling back to job version 0; "holdfast status site" shows all\n$/,
    );
    assert.match(
      bad.stdout,
      /\njob site goes back: version 2 is what was good before\n[^]*\ndeployment [0-9a-f]{8}: successful, g 2 of 2 healthy\njob site is healthy again, as it was before: .*\n$/,
    );
    const { stdout } = await world.cli('status', 'site');
    assert.match(stdout, /of version 2: successful[^]*before {3}[0-9a-f]{8} of version 1: failed/);
  });

  it('logs -f goes on with the alloc that takes the place of one that failed', async () => {
    world.file('moving.hcl', MOVING);
    assert.equal((await world.cli('run', 'moving.hcl', '--detach')).code, 0);
    await until('it has begun', async () => (await world.cli('logs', 'moving')).stdout.includes('begin'));
    const logs = world.follow('logs', 'moving', '-f', '-n', '100');
    const begun = (): string[] => [...logs.stdout().matchAll(/begin (\w+)/g)].map(([, id = '']) => id);
    await until('three allocs have spoken', () => new Set(begun()).size >= 3, {
      timeoutMs: 60_000,
      lastSeen: () => logs.stdout() + logs.stderr(),
    });
    const ended = [...logs.stdout().matchAll(/end (\w+)/g)].map(([, id = '']) => id);
    assert.equal(new Set(begun()).size, begun().length, 'a line came twice');
    assert.deepEqual(ended.slice(0, 2), begun().slice(0, 2), 'a line is missing');
    await logs.end();
  });

  it('ps -w and status -w go on after the daemon was killed and started again', async () => {
    const screens = [world.follow('ps', '-w'), world.follow('status', 'site', '-w')];
    const count = (text: string): number => text.split(/site\/g\/main|● site/).length;
    await until('both show it', () => screens.every((live) => live.stdout().includes('site')));
    await world.killAgent('SIGKILL');
    await until('both notice', () => screens.every((live) => live.stderr().includes('went away')), {
      timeoutMs: 20_000,
    });
    const before = screens.map((live) => count(live.stdout()));
    await world.startAgent();
    await until(
      'both go on',
      () => screens.every((live, at) => count(live.stdout()) > (before[at] ?? Infinity)),
      { timeoutMs: 20_000, lastSeen: () => screens.map((live) => live.stderr()).join('') },
    );
    for (const live of screens) {
      assert.equal(live.child.exitCode, null);
      await live.end();
    }
  });
});
