/** What the feed says, over real sockets: snapshot, resume, filters, what a slow reader lost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FeedEvent, FeedSnapshot } from '../../src/api/wire.js';
import { readLines, startApi, type FeedClient } from '../helpers/api-client.js';
import { jobRecord, putAlloc, putJob, putTask } from '../helpers/records.js';
import { until } from '../helpers/until.js';

const upTo = async (reader: FeedClient, index: number): Promise<void> => {
  await until(`index ${index}`, () => reader.index() >= index, { lastSeen: () => reader.messages.at(-1) });
};

describe('feed', () => {
  it('begins with a snapshot at its index and goes on from there', async () => {
    await using api = await startApi();
    await api.store.commit([putJob(), putAlloc(), putTask()]);
    const before = api.store.index();
    const reader = api.feed('?snapshot=true');
    await upTo(reader, before);
    const [first] = reader.messages;
    assert.equal(first?.['Index'], before);
    const snapshot = first['Snapshot'] as FeedSnapshot;
    assert.equal(snapshot.Node.Status, 'ready');
    assert.deepEqual(
      snapshot.Jobs.map(({ ID }) => ID),
      ['web'],
    );
    assert.equal(snapshot.Allocations[0]?.TaskStates['server']?.State, 'pending');
    await api.operations.startTask('a1', 'server');
    await upTo(reader, api.store.index());
    const indexes = reader.said().map(({ Index }) => Index);
    assert.deepEqual(
      indexes,
      Array.from({ length: api.store.index() - before + 1 }, (_, i) => before + i),
    );
    const events = reader.said().flatMap(({ Events }) => (Events ?? []) as FeedEvent[]);
    assert.ok(events.every((event) => event.Time > 1e18 && event.Index > before));
    const started = events.find(({ Topic }) => Topic === 'TaskEvent');
    assert.equal(started?.Key, 'a1/server');
    assert.deepEqual(started.FilterKeys, ['web', 'a1']);
  });

  it('tells that the host drains, and that it is over', async () => {
    await using api = await startApi();
    const reader = api.feed('?topic=Node:*&index=0');
    await api.operations.drain();
    await api.operations.endDrain({ keepIneligible: true });
    await upTo(reader, api.store.index());
    const events = reader.said().flatMap(({ Events }) => (Events ?? []) as FeedEvent[]);
    assert.deepEqual(
      events.map(({ Type, Payload }) => [
        Type,
        'Node' in Payload && [Payload.Node.Drain, Payload.Node.SchedulingEligibility],
      ]),
      [
        ['NodeSchedulingUpdated', [true, 'ineligible']],
        ['NodeSchedulingUpdated', [false, 'ineligible']],
      ],
    );
  });

  it('resumes after any index without gap or repeat, over both carriers', async () => {
    await using api = await startApi({ feedLimits: { recentRows: 4 } });
    for (let version = 0; version < 20; version++) await api.store.commit([putJob({ version })]);
    const newest = api.store.index();
    for (const from of [0, 1, 7, newest - 3, newest - 1]) {
      const reader = api.feed(`?index=${from}`);
      await upTo(reader, newest);
      reader.socket.close();
      assert.deepEqual(
        reader.said().map(({ Index }) => Index),
        Array.from({ length: newest - from }, (_, i) => from + 1 + i),
      );
    }
    const lines = await readLines(api, `/v1/event/stream?index=${newest - 2}`, 2);
    assert.deepEqual(
      lines.map((line) => ('Index' in line ? line.Index : 0)),
      [newest - 1, newest],
    );
  });

  it('without an index says where it begins and tells only what comes', async () => {
    await using api = await startApi();
    await api.store.commit([putJob()]);
    const reader = api.feed('');
    await until('the beginning', () => reader.said().length === 1);
    const begin = api.store.index();
    await api.store.commit([putJob({ version: 1 })]);
    await upTo(reader, api.store.index());
    assert.deepEqual(reader.said()[0], { Index: begin, Events: [] });
    assert.deepEqual(
      reader.said().map(({ Index }) => Index),
      [begin, begin + 1],
    );
  });

  it('can be joined with the index of any answer, also of an empty host', async () => {
    await using api = await startApi();
    const index = String((await api.ask('/v1/holdfast/events')).headers['x-nomad-index']);
    const reader = api.feed(`?index=${index}`);
    await until('it is open', () => reader.socket.readyState === reader.socket.OPEN);
    await api.store.commit([putJob()]);
    await upTo(reader, 1);
    assert.equal(reader.closed, undefined);
  });

  it('gives only the topics and keys that are asked for', async () => {
    await using api = await startApi();
    await api.store.commit([
      putJob(),
      putJob({ id: 'db' }),
      putAlloc(),
      putAlloc({ id: 'b1', jobId: 'db' }),
      putTask(),
    ]);
    const jobs = api.feed('?topic=Job:web&topic=TaskEvent&index=0');
    const ofDb = api.feed('?topic=Allocation:db&snapshot=true');
    const everything = api.feed('?topic=*&index=0');
    await until('the snapshot', () => ofDb.said().length === 1);
    const nomadish = api.feed('?topic=Deployment:*&topic=Job:*&index=0');
    await api.operations.addEvent('a1', 'server', { type: 'Driver', message: 'hello' });
    await api.store.commit([putAlloc({ id: 'b1', jobId: 'db', clientStatus: 'running' })]);
    await api.store.commit([putJob({ version: 1 })]);
    const newest = api.store.index();
    for (const reader of [jobs, everything, nomadish]) await upTo(reader, newest);
    const seen = (reader: FeedClient): string[] =>
      reader
        .said()
        .flatMap(({ Events }) => (Events ?? []) as FeedEvent[])
        .map(({ Topic, Key }) => `${Topic} ${Key}`);
    assert.deepEqual(seen(jobs), ['Job web', 'TaskEvent a1/server', 'Job web']);
    assert.equal(seen(everything).length, newest);
    assert.deepEqual(seen(nomadish), ['Job web', 'Job db', 'Job web']);
    await until('the change of b1', () => seen(ofDb).length === 1);
    assert.deepEqual(seen(ofDb), ['Allocation b1']);
    const snapshot = ofDb.said()[0]?.['Snapshot'] as FeedSnapshot;
    assert.deepEqual([snapshot.Jobs.length, snapshot.Allocations.map(({ ID }) => ID)], [0, ['b1']]);
  });

  it('says what was lost when the index is no longer held', async () => {
    await using api = await startApi({ storeLimits: { feedRows: 5, feedAgeMs: -1 } });
    for (let version = 0; version < 30; version++) await api.store.commit([putJob({ version })]);
    const { oldest, newest } = api.store.feedBounds();
    assert.ok(oldest > 10);
    for (const from of [0, 3, oldest - 3, oldest - 2]) {
      const reader = api.feed(`?index=${from}`);
      await upTo(reader, newest);
      const [first, second] = reader.said();
      assert.deepEqual(first, { Index: oldest - 1, Lost: { From: from + 1, To: oldest - 1 } });
      assert.equal(second?.['Index'], oldest);
    }
    const whole = api.feed(`?index=${oldest - 1}`);
    await upTo(whole, newest);
    assert.equal(whole.said()[0]?.['Index'], oldest);
    assert.ok('Events' in (whole.said()[0] ?? {}), 'nothing is lost that is held');
  });

  it('says which rows could not be read, in the middle and at the end', async () => {
    await using api = await startApi();
    for (let version = 0; version < 5; version++) await api.store.commit([putJob({ version })]);
    const newest = api.store.index();
    const readAll = api.store.readFeed.bind(api.store);
    api.store.readFeed = (after, limit) =>
      readAll(after, limit).filter(({ index }) => index !== 2 && index !== newest);
    const reader = api.feed('?index=0');
    await until('the end was named', () => reader.said().at(-1)?.['Index'] === newest);
    const lost = reader.said().flatMap((message) => ('Lost' in message ? [message['Lost']] : []));
    assert.deepEqual(lost, [
      { From: 2, To: 2 },
      { From: newest, To: newest },
    ]);
    assert.deepEqual(
      reader.said().map((message) => message['Index']),
      [1, 2, 3, 4, newest],
    );
  });

  it('tells a slow reader what it lost, and slows nobody', async () => {
    const limits = { recentRows: 8, rowsBehind: 50 };
    await using api = await startApi({ feedLimits: limits });
    const slow = api.feed('?snapshot=true');
    const quick = api.feed('?snapshot=true');
    await until('both have begun', () => slow.messages.length > 0 && quick.messages.length > 0);
    slow.socket.pause();
    const meta = { filler: 'x'.repeat(20_000) };
    const { spec } = jobRecord();
    for (let version = 0; version < 400; version++) {
      await api.store.commit([putJob({ version, spec: { ...spec, meta } })]);
    }
    const newest = api.store.index();
    await upTo(quick, newest);
    assert.equal(
      quick.said().some((message) => 'Lost' in message),
      false,
    );
    slow.socket.resume();
    await upTo(slow, newest);
    const lost = slow.said().filter((message) => 'Lost' in message);
    assert.ok(lost.length > 0, 'it was set to the present');
    // Whatever was not said was named as lost: nothing is missing silently.
    let at = 0;
    for (const message of slow.said()) {
      const index = Number(message['Index']);
      if ('Lost' in message) assert.deepEqual(message['Lost'], { From: at + 1, To: index });
      else if ('Events' in message) assert.equal(index, at + 1);
      at = index;
    }
    assert.equal(at, newest);
  });
});
