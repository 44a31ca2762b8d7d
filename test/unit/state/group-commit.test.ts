/** Grouping over a disk that refuses: what is given back, what is kept, in which order and how much of it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { isRecoverable } from '../../../src/base/errors.js';
import { silentLogger } from '../../../src/base/log.js';
import { GroupCommit, type Written } from '../../../src/state/group-commit.js';
import type { Change } from '../../../src/state/store.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { addEvent, putAlloc, putTask } from '../../helpers/records.js';

/** A disk that takes or refuses transactions, and remembers what it took. */
class Disk {
  full = false;
  readonly transactions: (readonly Change[])[][] = [];
  tries = 0;

  write(commits: readonly (readonly Change[])[]): readonly Written[] {
    this.tries += 1;
    if (this.full) throw new Error('database or disk is full');
    this.transactions.push([...commits]);
    return commits.map(() => ({ kind: 'stored', rows: [] }));
  }

  /** Numbers of the events it took, in order. */
  seqs(): number[] {
    const changes = this.transactions.flat(2);
    return changes.flatMap((change) => (change.kind === 'add_task_event' ? [change.event.seq] : []));
  }
}

function setUp(keptLimit = 1000) {
  const disk = new Disk();
  const clock = new FakeClock();
  const group = new GroupCommit({
    clock,
    logger: silentLogger,
    write: (commits) => disk.write(commits),
    onRows: () => undefined,
    keptLimit,
  });
  return { disk, clock, group };
}

const keep = { whenRefused: 'keep' } as const;

describe('GroupCommit on a full disk', () => {
  it('gives an intent back and keeps a fact, and says so', async () => {
    const { disk, group, clock } = setUp();
    disk.full = true;
    const intent = group.commit([addEvent(1)]);
    const fact = group.commit([addEvent(2)], keep);
    await assert.rejects(intent, isRecoverable);
    assert.equal(await fact, 'kept');
    assert.equal(group.keptChanges(), 1);
    assert.deepEqual(group.trouble(), {
      sinceMs: clock.wallMs(),
      error: 'database or disk is full',
      keptChanges: 1,
      eventsDropped: 0,
    });
  });

  it('writes what it kept before anything later, also when the later one comes first to the disk', async () => {
    const { disk, group } = setUp();
    disk.full = true;
    for (const seq of [1, 2, 3]) await group.commit([addEvent(seq)], keep);
    disk.full = false;
    assert.equal(await group.commit([addEvent(4)]), 'stored');
    assert.deepEqual(disk.seqs(), [1, 2, 3, 4]);
    assert.equal(group.keptChanges(), 0);
    assert.equal(group.trouble(), undefined);
  });

  it('tries again by itself, less and less often, and at once often again after it worked', async () => {
    const { disk, clock, group } = setUp();
    disk.full = true;
    await group.commit([addEvent(1)], keep);
    const waits: (number | undefined)[] = [];
    for (let n = 0; n < 7; n++) {
      waits.push(clock.pendingMs()[0]);
      await clock.advance(clock.pendingMs()[0] ?? 0);
    }
    assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    disk.full = false;
    await clock.advance(30_000);
    assert.deepEqual(disk.seqs(), [1]);
    assert.deepEqual(clock.pendingMs(), []);
    disk.full = true;
    await group.commit([addEvent(2)], keep);
    assert.deepEqual(clock.pendingMs(), [1000]);
  });

  it('forgets what a later put replaces before it forgets an event', async () => {
    const { disk, group } = setUp(10);
    disk.full = true;
    await group.commit([putAlloc(), putTask({ restarts: 0 }), addEvent(1)], keep);
    for (let restarts = 1; restarts <= 40; restarts++) await group.commit([putTask({ restarts })], keep);
    assert.ok(group.keptChanges() <= 10);
    assert.equal(group.trouble()?.eventsDropped, 0);
    disk.full = false;
    await group.commit([]);
    const written = disk.transactions.flat(2);
    const kinds = written.map((change) => change.kind);
    assert.equal(kinds[0], 'put_alloc', 'what others need keeps its place');
    const tasks = written.flatMap((change) => (change.kind === 'put_task' ? [change.task.restarts] : []));
    assert.equal(tasks.at(-1), 40);
    assert.deepEqual(disk.seqs(), [1]);
  });

  it('does not merge puts over the end of their owner', async () => {
    const { disk, group } = setUp(6);
    disk.full = true;
    await group.commit([putAlloc(), putTask({ restarts: 1 })], keep);
    await group.commit([{ kind: 'delete_alloc', allocId: 'a1' }, putAlloc(), putTask({ restarts: 2 })], keep);
    for (let restarts = 3; restarts <= 6; restarts++) await group.commit([putTask({ restarts })], keep);
    disk.full = false;
    await group.commit([]);
    const told = disk.transactions
      .flat(2)
      .map((change) => (change.kind === 'put_task' ? change.task.restarts : change.kind));
    assert.deepEqual(told.slice(0, 4), ['put_alloc', 1, 'delete_alloc', 'put_alloc']);
    assert.equal(told.at(-1), 6);
  });

  it('drops the oldest events and counts them when nothing else is left to drop', async () => {
    const { disk, group } = setUp(32);
    disk.full = true;
    for (let seq = 1; seq <= 100; seq++) assert.equal(await group.commit([addEvent(seq)], keep), 'kept');
    const dropped = group.trouble()?.eventsDropped ?? 0;
    assert.equal(group.keptChanges() + dropped, 100);
    disk.full = false;
    await group.commit([]);
    const kept = Array.from({ length: 100 - dropped }, (_, n) => dropped + n + 1);
    assert.deepEqual(disk.seqs(), kept);
  });

  it('gives a fact back when durable facts alone fill the queue', async () => {
    const { disk, group } = setUp(3);
    disk.full = true;
    for (const id of ['a1', 'a2', 'a3']) await group.commit([putAlloc({ id })], keep);
    await assert.rejects(group.commit([putAlloc({ id: 'a4' })], keep), isRecoverable);
    assert.equal(group.keptChanges(), 3);
  });

  it('writes at closing what the disk takes by then', async () => {
    const { disk, clock, group } = setUp();
    disk.full = true;
    await group.commit([addEvent(1)], keep);
    disk.full = false;
    const last = group.commit([addEvent(2)]);
    group.close();
    assert.equal(await last, 'stored');
    assert.deepEqual(disk.seqs(), [1, 2]);
    assert.deepEqual(clock.pendingMs(), []);
  });

  it('stores every kept fact once and in order, however the disk comes and goes', async () => {
    const step = fc.record({
      full: fc.boolean(),
      keep: fc.boolean(),
      urgent: fc.boolean(),
      passMs: fc.nat(3000),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { disk, clock, group } = setUp();
        const durable: number[] = [];
        const outcomes: Promise<unknown>[] = [];
        for (const [n, { full, keep: keeps, urgent, passMs }] of steps.entries()) {
          disk.full = full;
          const commit = group.commit([addEvent(n + 1)], { whenRefused: keeps ? 'keep' : 'reject', urgent });
          outcomes.push(
            commit.then(
              () => durable.push(n + 1),
              () => undefined,
            ),
          );
          await clock.advance(passMs);
        }
        disk.full = false;
        await clock.advance(40_000);
        await Promise.all(outcomes);
        assert.deepEqual(
          disk.seqs(),
          [...durable].sort((a, b) => a - b),
        );
        assert.equal(group.keptChanges(), 0);
      }),
      { numRuns: 60 },
    );
  });
});
