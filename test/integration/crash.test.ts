/**
 * A short, seeded run of the crash tester: kills of the agent at random moments, of executors too, and at system calls
 * where strace can do that. `npm run test:crash` is the long one; docs/crash-windows.md says what each window comes to.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FAILPOINTS } from '../../src/base/failpoint.js';
import { audit } from '../crash/audit.js';
import { Chance } from '../crash/chance.js';
import { chaosRound } from '../crash/chaos.js';
import {
  atFailpoint,
  DoomedExecutor,
  doomedAgentRound,
  doomedExecutorsRound,
  findStrace,
} from '../crash/syscalls.js';
import { workloads } from '../crash/workloads.js';
import { CrashWorld } from '../crash/world.js';

/** Blows end then, so that the whole stays short on a busy machine; the audit has no such limit. */
const BLOWS_MS = 8_000;

const until = (endMs: number) => (): boolean => performance.now() > endMs;

describe('crashes', { concurrency: 2 }, () => {
  it('G1: of the agent and of executors at random moments break no promise', async () => {
    const chance = new Chance(20_260);
    await using world = await CrashWorld.open([...workloads(4, 'j'), ...workloads(2, 'p')]);
    for (const workload of world.workloads) await world.register(workload, 'none');
    const isLate = until(performance.now() + BLOWS_MS);
    while (world.agentKills < 8 && !isLate()) await chaosRound(world, chance);
    assert.deepEqual(await audit(world), []);
  });

  it('of the agent at every failpoint break no promise', async () => {
    await using world = await CrashWorld.open([...workloads(4, 'j'), ...workloads(2, 'p')]);
    for (const workload of world.workloads) await world.register(workload, 'none');
    const chance = new Chance(14);
    const alive: string[] = [];
    for (const name of FAILPOINTS) {
      if (!(await doomedAgentRound(world, chance, atFailpoint(name, 1)))) alive.push(name);
    }
    assert.deepEqual(await audit(world), []);
    assert.deepEqual(alive, [], 'failpoints that are never reached prove nothing');
  });

  it('G6: of executors at every system call of a start break no promise', async (test) => {
    const strace = findStrace();
    if ('missing' in strace) {
      test.diagnostic(`not killed at system calls: ${strace.missing}`);
      return;
    }
    const dir = mkdtempSync(join(tmpdir(), 'hf-doomed-'));
    try {
      const doomed = new DoomedExecutor(dir, strace.path);
      await using world = await CrashWorld.open(workloads(4, 'j'), { HOLDFAST_EXECUTOR: doomed.path });
      doomed.plan(2);
      for (const workload of world.workloads) await world.register(workload, 'none');
      await doomedExecutorsRound(world, new Chance(7), doomed, until(performance.now() + BLOWS_MS));
      doomed.pardon();
      assert.deepEqual(await audit(world), []);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
