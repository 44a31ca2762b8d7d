/** One task in every cgroup mode that this host can be made to look like, for whichever user runs the tests. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parseCgroupMounts, type CgroupMounts } from '../../src/executor/cgroup-roots.js';
import { inForceOfState } from '../../src/executor/in-force-record.js';
import { DriverWorld } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const SIGTERM = 15;
const MIB = 2 ** 20;
const host = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
const modes: Readonly<Record<string, CgroupMounts>> = {
  'as it is': host,
  'v1 alone': { unified: undefined, v1: host.v1 },
  'v2 alone': { unified: host.unified, v1: new Map() },
  'v2 and v1 without memory': {
    unified: host.unified,
    v1: new Map([...host.v1].filter(([controller]) => controller !== 'memory')),
  },
  none: { unified: undefined, v1: new Map() },
};

/** Two in sessions of their own, one of them stopped; then the leader says that they are there. */
const TREE =
  'setsid sleep 1000 & setsid sh -c "kill -STOP \\$\\$" & trap "" TERM; sleep 0.1; echo ready; while :; do sleep 1000 & wait $!; done';

describe('cgroup modes', () => {
  for (const [name, mounts] of Object.entries(modes)) {
    for (const driverName of ['raw_exec', 'exec'] as const) {
      it(`G27: ${name}, ${driverName}: limits what it can and says what not, counts, kills the whole tree, leaves nothing`, async (t) => {
        const world = await DriverWorld.open({ mounts });
        try {
          const { mode, controllers } = world.deps.cgroups;
          t.diagnostic(`${driverName}: ${mode} ${[...controllers].sort().join(' ')}`);
          const driver = driverName === 'exec' ? world.execDriver() : world.driver();
          const config = await world.shell(TREE);
          const wanted = { ...config.resources, pids: 40, memoryMib: driverName === 'exec' ? 300 : 64 };
          const canAll = controllers.has('memory') && controllers.has('pids');
          if (driverName === 'exec' && !controllers.has('pids')) {
            await assert.rejects(
              driver.start({ ...config, resources: wanted }, world.emit),
              /pids|processes/,
            );
            return;
          }
          const handle = world.keep(await driver.start({ ...config, resources: wanted }, world.emit));
          await world.says(config, /ready/);
          const told = world.events.map((event) => ('message' in event ? event.message : '')).join('\n');
          if (canAll) assert.doesNotMatch(told, /Not in force/);
          else assert.match(told, /Not in force: .*(memory|no cgroup)/);
          const limits = inForceOfState(handle.ref.driverState)?.limits;
          assert.equal(limits?.pidsMax, controllers.has('pids') ? 40 : undefined);
          assert.equal(
            limits?.memoryMaxBytes,
            controllers.has('memory') ? wanted.memoryMib * MIB : undefined,
          );
          const usage = await handle.usage();
          assert.ok(usage !== undefined && usage.memoryBytes > 0);
          await handle.stop({ signal: SIGTERM, graceMs: 100 });
          const { result } = await handle.wait();
          assert.equal(result.kind, 'signaled');
          await until('nothing of it is left', () => world.processes().length === 0);
          await handle.release();
        } finally {
          await world.close();
        }
      });
    }
  }
});
