/** A disk that gives nothing back: whatever looks at the store by itself goes on looking, and the agent lives. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../src/base/errors.js';
import { silentLogger } from '../../src/base/log.js';
import { LogCompressor } from '../../src/agent/log-compressor.js';
import { openMemoryStore } from '../../src/state/memory-store.js';
import type { StateStore } from '../../src/state/store.js';
import { FakeClock } from '../helpers/fake-clock.js';
import { Rig } from '../helpers/rig.js';
import { aGroup, aJob } from '../helpers/specs.js';

const unreadable = (): never => {
  throw new AgentError('store_unavailable', 'the disk gives back nothing');
};

describe('a store that cannot be read', () => {
  it('is looked at again by the compressor of logs', async () => {
    const clock = new FakeClock();
    const store: StateStore = openMemoryStore({ clock });
    let looks = 0;
    store.listAllocs = () => {
      looks += 1;
      return unreadable();
    };
    await using compressor = new LogCompressor({ clock, logger: silentLogger, store, logDirOf: unreadable });
    compressor.start();
    await clock.settle();
    assert.equal(looks, 1);
    await clock.advance(10_000);
    assert.equal(looks, 2);
  });

  it('keeps no periodic job from its launch once it can be read', async () => {
    const rig = new Rig();
    const periodic = {
      enabled: true,
      crons: ['*/5 * * * *'],
      timeZone: 'UTC',
      prohibitOverlap: false,
    };
    await rig.agent.scheduler.register(aJob({ type: 'batch', periodic, groups: [aGroup()] }));
    const { records } = rig.disk;
    const read = records.listJobs.bind(records);
    records.listJobs = unreadable;
    await rig.pass(600_000);
    assert.equal(rig.disk.records.listAllocs().length, 0);
    records.listJobs = read;
    await rig.pass(60_000);
    assert.ok(rig.disk.records.listAllocs().length > 0);
  });
});
