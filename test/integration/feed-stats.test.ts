/** The topic Stats: only for who names it, between events, without numbers of its own. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FeedEvent, FeedMessage } from '../../src/api/wire.js';
import type { UsageSample } from '../../src/stats/history.js';
import { startApi } from '../helpers/api-client.js';
import { putJob } from '../helpers/records.js';
import { until } from '../helpers/until.js';

function sample(task: string, cpuPercent: number): UsageSample {
  const usage = {
    atMs: 1000,
    cpuPercent,
    cpuTotalMs: 10,
    memoryBytes: 4096,
    memoryLimitBytes: undefined,
    processes: 1,
    memoryPeakBytes: undefined,
    throttledPeriods: undefined,
    throttledMs: undefined,
    oomKills: undefined,
    source: 'cgroup',
  } as const;
  return { allocId: 'alloc-1', jobId: 'web', task, usage };
}

function eventsOf(messages: readonly unknown[]): readonly FeedEvent[] {
  return (messages as readonly FeedMessage[]).flatMap((each) => ('Events' in each ? [...each.Events] : []));
}

describe('samples on the feed', { timeout: 60_000 }, () => {
  it('come to who names the topic, and to nobody else', async () => {
    await using api = await startApi();
    await api.store.commit([putJob({ id: 'web' })]);
    const named = api.feed('?topic=Stats:web&topic=Job');
    const other = api.feed('?topic=Stats:another');
    const all = api.feed('?topic=*');
    const plain = api.feed('');
    for (const reader of [named, other, all, plain])
      await until('it has begun', () => reader.said().length > 0, { lastSeen: () => reader.said() });
    const before = api.store.index();
    api.operations.sample([sample('main', 5)]);
    await until('a sample', () => eventsOf(named.said()).length === 1);
    assert.equal(api.store.index(), before, 'a sample is nothing that is stored');
    const [event] = eventsOf(named.said());
    assert.ok(event?.Topic === 'Stats');
    assert.deepEqual(
      [event.Key, event.FilterKeys, event.Index],
      ['alloc-1/main', ['alloc-1', 'web'], before],
    );
    assert.equal(event.Payload.Stats.Holdfast.CPUPercent, 5);
    await api.store.commit([putJob({ id: 'web', version: 1 })]);
    for (const reader of [named, all, plain]) {
      await until('the event after it', () => eventsOf(reader.said()).some(({ Topic }) => Topic === 'Job'));
    }
    const topics = (messages: readonly unknown[]): string[] => eventsOf(messages).map(({ Topic }) => Topic);
    assert.deepEqual(topics(named.said()), ['Stats', 'Job']);
    assert.deepEqual([topics(all.said()), topics(plain.said())], [['Job'], ['Job']]);
    assert.deepEqual(topics(other.said()), []);
    // Resuming after a sample loses nothing.
    const again = api.feed(`?topic=Job&index=${before}`);
    await until('the job', () => eventsOf(again.said()).length === 1);
    for (const reader of [named, other, all, plain, again]) reader.socket.close();
  });
});
