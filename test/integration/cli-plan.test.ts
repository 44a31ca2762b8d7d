/** `holdfast plan` against a real agent: it tells, it does nothing, and what it tells is what `run` then does. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { AllocListStub, PlanResponse } from '../../src/api/wire.js';
import { CliWorld } from './cli-world.js';

const job = (o: { readonly count: number; readonly port: number; readonly killTimeout: string }): string => `
job "web" {
  group "api" {
    count = ${o.count}
    task "server" {
      driver = "raw_exec"
      kill_timeout = "${o.killTimeout}"
      env { PORT = "${o.port}" }
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`;

describe('holdfast plan', { timeout: 120_000 }, () => {
  const world = new CliWorld();
  const first = { count: 1, port: 80, killTimeout: '5s' };
  before(async () => {
    await world.startAgent();
  });
  after(async () => {
    await world.close();
  });

  const allocs = async (): Promise<readonly AllocListStub[]> =>
    JSON.parse((await world.cli('ps', '-a', '--json')).stdout) as AllocListStub[];

  it('a new job, then what it becomes when it is changed', async () => {
    const file = world.file('web.hcl', job(first));
    const fresh = await world.cli('plan', file);
    assert.equal(fresh.code, 0, fresh.stderr);
    assert.match(fresh.stdout, /^job web is new$/m);
    assert.match(fresh.stdout, /^api\[0\] +- +create/m);
    assert.match(fresh.stdout, /holdfast run --check-index 0 /);
    assert.deepEqual(await allocs(), []);

    const ran = await world.cli('run', '--check-index', '0', file);
    assert.equal(ran.code, 0, ran.stderr);
    const same = await world.cli('plan', file);
    assert.match(same.stdout, /^job web is unchanged, version 0$/m);
    assert.match(same.stdout, /^api\[0\] +[0-9a-f]{8} +none/m);

    world.file('web.hcl', job({ count: 2, port: 80, killTimeout: '7s' }));
    const inPlace = await world.cli('plan', file);
    assert.match(inPlace.stdout, /^~ api\/server KillTimeout: 5s → 7s$/m);
    assert.match(inPlace.stdout, /^~ api Count: 1 → 2$/m);
    assert.match(inPlace.stdout, /^api\[0\] +[0-9a-f]{8} +in-place update/m);
    assert.match(inPlace.stdout, /^api\[1\] +- +create/m);

    world.file('web.hcl', job({ ...first, port: 81 }));
    const replace = await world.cli('plan', file);
    assert.match(replace.stdout, /^~ api\/server Env\[PORT\]: 80 → 81$/m);
    assert.match(replace.stdout, /^api\[0\] +[0-9a-f]{8} +replace/m);
    assert.equal((await allocs()).length, 1);
  });

  it('--json, the index for run, and a job that changed meanwhile', async () => {
    const file = world.file('web.hcl', job({ ...first, port: 82 }));
    const plan = JSON.parse((await world.cli('plan', '--json', file)).stdout) as PlanResponse;
    assert.deepEqual(
      plan.Holdfast.Places.map(({ Action }) => Action),
      ['replace'],
    );
    assert.equal(plan.Annotations.DesiredTGUpdates['api']?.DestructiveUpdate, 1);
    assert.deepEqual(plan.Diff?.TaskGroups[0]?.Updates, { 'create/destroy update': 1 });
    const index = String(plan.JobModifyIndex);
    assert.equal((await world.cli('plan', '--check-index', index, file)).code, 0);
    const stale = await world.cli('plan', '--check-index', '1000000', file);
    assert.equal(stale.code, 1);
    assert.match(stale.stderr, /has changed: its index is \d+, not 1000000/);
    const ran = await world.cli('run', '--check-index', index, file);
    assert.equal(ran.code, 0, ran.stderr);
    const [stopped, ...more] = (await allocs()).filter(({ DesiredStatus }) => DesiredStatus === 'stop');
    assert.equal(stopped?.ID, plan.Holdfast.Places[0]?.AllocID);
    assert.equal(more.length, 0);
  });

  it('a file with faults is said as validate says it', async () => {
    const bad = await world.cli('plan', world.file('bad.hcl', 'job "x" { grup "g" {} }'));
    assert.equal(bad.code, 2);
    assert.match(bad.stderr, /bad\.hcl:1:\d+/);
  });
});
