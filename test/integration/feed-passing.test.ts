/** What is told on the feed and not kept. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Feed } from '../../src/api/feed.js';
import { linesOf } from '../../src/api/feed-text.js';
import { Query } from '../../src/api/query.js';
import { View } from '../../src/api/view.js';
import type { FeedMessage, TaskResourceUsage } from '../../src/api/wire.js';
import { systemClock } from '../../src/base/clock.js';
import { openMemoryStore } from '../../src/state/memory-store.js';
import { FakeOperations } from '../helpers/fake-operations.js';
import { putJob } from '../helpers/records.js';

const stats = (key: string, value: number) => ({
  Topic: 'Stats' as const,
  Type: 'TaskUsage' as const,
  Key: key,
  FilterKeys: ['web'],
  Namespace: 'default',
  Time: value,
  // What it says is nobody's business here.
  Payload: { Stats: value as unknown as TaskResourceUsage },
});

describe('what passes', () => {
  it('is told to who has named it, the newest of each key, and moves nobody', async () => {
    const store = openMemoryStore({ clock: systemClock });
    const operations = new FakeOperations(store, systemClock);
    using feed = new Feed({ store, clock: systemClock, view: new View(store, operations) });
    const leave = new AbortController();
    const open = (query: string) => feed.open(new Query(query), leave.signal);
    const named = open('/v1/feed?topic=Stats:a1&topic=Job&index=0');
    const other = open('/v1/feed?index=0');
    assert.equal(feed.isNamed('Stats'), true);
    await store.commit([putJob()]);
    const next = async (of: typeof named): Promise<FeedMessage[]> => {
      const { value } = await of.next();
      const text = linesOf(value ?? [])
        .toString()
        .trim();
      return text.split('\n').map((line) => JSON.parse(line) as FeedMessage);
    };
    for (let value = 1; value <= 3; value++) for (const key of ['a1', 'b1']) feed.tell(stats(key, value));
    const [job] = await next(named);
    assert.ok(job !== undefined && 'Events' in job && job.Events[0]?.Topic === 'Job');
    const passed = await next(named);
    assert.deepEqual(
      passed.flatMap((message) =>
        'Events' in message ? message.Events.map(({ Key, Payload, Index }) => [Key, Payload, Index]) : [],
      ),
      [['a1', { Stats: 3 }, 1]],
    );
    const waiting = next(named);
    feed.tell(stats('a1', 9));
    assert.equal((await waiting).length, 1, 'it wakes one who waits');
    assert.equal((await next(other)).length, 1);
    const silent = next(other);
    feed.tell(stats('a1', 10));
    await store.commit([putJob({ version: 1 })]);
    const [after] = await silent;
    assert.ok(after !== undefined && 'Events' in after && after.Events[0]?.Topic === 'Job', 'not asked for');
    leave.abort();
    assert.equal(feed.isNamed('Stats'), false);
    await store.close();
  });
});
