import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { choosePorts } from '../../../src/allocrunner/ports.js';
import type { Port } from '../../../src/jobspec/types.js';
import { Scene } from '../../helpers/scene.js';
import { aGroup, aJob, aTask } from '../../helpers/specs.js';

describe('choosePorts', () => {
  it('gives what is asked for, says who has it, and begins its search where it is told to', () => {
    const wanted: Port[] = [
      { label: 'http', static: 8080 },
      { label: 'admin', static: undefined },
    ];
    assert.deepEqual(choosePorts(wanted, new Map(), 0), {
      kind: 'chosen',
      ports: { http: 8080, admin: 20_000 },
    });
    assert.deepEqual(choosePorts(wanted, new Map([[8080, 'alloc x']]), 0), {
      kind: 'taken',
      why: 'port 8080 (http) is used by alloc x',
    });
  });

  it('never gives a port twice or one that is taken, and finds the last one that is free', () => {
    const full = new Map(Array.from({ length: 12_001 }, (_, index) => [20_000 + index, 'x'] as const));
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.nat(12_000),
        (roll, free) => {
          const holders = new Map(full);
          holders.delete(20_000 + free);
          const one: Port[] = [{ label: 'a', static: undefined }];
          assert.deepEqual(choosePorts(one, holders, roll), { kind: 'chosen', ports: { a: 20_000 + free } });
          const two: Port[] = [...one, { label: 'b', static: undefined }];
          assert.equal(choosePorts(two, holders, roll).kind, 'taken');
        },
      ),
      { numRuns: 20 },
    );
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.integer({ min: 1, max: 30 }),
        (roll, n) => {
          const wanted = Array.from({ length: n }, (_, index): Port => ({
            label: `p${index}`,
            static: undefined,
          }));
          const choice = choosePorts([...wanted, { label: 's', static: 20_001 }], new Map(), roll);
          assert.ok(choice.kind === 'chosen');
          assert.equal(new Set(Object.values(choice.ports)).size, n + 1);
        },
      ),
    );
  });
});

describe('ports of allocs', () => {
  const ports: Port[] = [{ label: 'http', static: 8080 }];

  it('a second alloc waits for a static port, says for whom, and starts when it is free', async () => {
    const scene = await Scene.up([aTask()], { group: { ports } });
    const first = scene.allocId;
    const { scheduler } = scene.rig.agent;
    await scheduler.register(aJob({ id: 'other', groups: [aGroup({ ports })] }));
    await scene.rig.pass(60_000);
    const second = scene.allocId;
    assert.notEqual(second, first);
    assert.match(scene.task().phaseDetail, /^port 8080 \(http\) is used by alloc .{8} of job job$/);
    assert.equal(scene.rig.world.spawned, 1);
    await scheduler.stop('job', { purge: false, noShutdownDelay: false });
    await scene.rig.pass(2_000);
    assert.equal(scene.rig.task(second).phase, 'running');
    assert.deepEqual(scene.alloc().ports, { http: 8080 });
  });

  it('an alloc keeps its ports over a restart of the agent, and nobody else gets them', async () => {
    const dynamic: Port[] = [{ label: 'http', static: undefined }];
    const scene = await Scene.up([aTask()], { group: { ports: dynamic, count: 3 } });
    const held = (): readonly unknown[] =>
      scene.rig.disk.records.listAllocs().map(({ record }) => record.ports?.['http']);
    const before = held();
    assert.equal(new Set(before).size, 3);
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.agent.scheduler.register(aJob({ id: 'other', groups: [aGroup({ ports: dynamic })] }));
    await scene.rig.pass(1_000);
    assert.deepEqual(held().slice(0, 3), before);
    assert.equal(new Set(held()).size, 4);
  });

  it('nothing starts before the ports are stored', async () => {
    const scene = await Scene.up([aTask()], { group: { ports } });
    await scene.stop();
    scene.rig.world.startMs = 0;
    for (let act = 1; act <= 8; act++) {
      scene.rig.killAtAct(act);
      await scene.rig.agent.scheduler.register({ ...scene.job, priority: act }).catch(() => undefined);
      await scene.rig.pass(1_000);
      if (scene.rig.bury()) await scene.rig.start();
      await scene.rig.pass(1_000);
      for (const run of scene.rig.world.live()) {
        assert.ok(scene.rig.disk.records.getAlloc(run.allocId)?.record.ports, 'what runs has its ports');
      }
      await scene.stop();
      await scene.rig.pass(5_000);
    }
    assert.deepEqual(scene.rig.world.violations, []);
  });
});
