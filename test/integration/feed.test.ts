/** The feed over real sockets: snapshot, resume, filters, slow readers, heartbeats, close codes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { WebSocket } from 'ws';
import { jobRecord, putAlloc, putJob, putTask } from '../helpers/records.js';
import { FakeClock } from '../helpers/fake-clock.js';
import { FeedClient, startApi, type ApiUnderTest } from '../helpers/api-client.js';
import { until } from '../helpers/until.js';
import type { FeedAllocation, FeedEvent, FeedJob, FeedMessage, FeedSnapshot } from '../../src/api/wire.js';
import type { Change } from '../../src/state/store.js';

/** What a client that follows the rules knows. */
class Mirror {
  jobs = new Map<string, FeedJob>();
  allocs = new Map<string, FeedAllocation>();
  index = 0;

  /** @returns false when it has to begin again with a snapshot */
  take(message: FeedMessage): boolean {
    if (!('Index' in message)) return true;
    if ('Lost' in message) return false;
    if ('Snapshot' in message) this.#replace(message.Snapshot);
    else {
      assert.ok(message.Index > this.index, `${message.Index} after ${this.index}: a repeat`);
      for (const event of message.Events) this.#apply(event);
    }
    this.index = message.Index;
    return true;
  }

  state(): unknown {
    const byId = (a: { ID: string }, b: { ID: string }): number => (a.ID < b.ID ? -1 : 1);
    return { jobs: [...this.jobs.values()].sort(byId), allocs: [...this.allocs.values()].sort(byId) };
  }

  #replace(snapshot: FeedSnapshot): void {
    this.jobs = new Map(snapshot.Jobs.map((job) => [job.ID, job]));
    this.allocs = new Map(snapshot.Allocations.map((alloc) => [alloc.ID, alloc]));
  }

  #apply(event: FeedEvent): void {
    if (event.Topic === 'Job') {
      if (event.Payload.Job === null) this.jobs.delete(event.Key);
      else this.jobs.set(event.Key, event.Payload.Job);
    } else if (event.Topic === 'Allocation') {
      if (event.Payload.Allocation === null) this.allocs.delete(event.Key);
      else this.allocs.set(event.Key, event.Payload.Allocation);
    }
  }
}

const parse = (text: string): FeedMessage => JSON.parse(text) as FeedMessage;

/** The state as the server has it now, by a snapshot of its own. */
async function stateOf(api: ApiUnderTest): Promise<unknown> {
  const reader = api.feed('?snapshot=true');
  const [snapshot] = await until('a snapshot', () => reader.said().length > 0 && reader.said());
  reader.socket.close();
  const mirror = new Mirror();
  mirror.take(snapshot as FeedMessage);
  return mirror.state();
}

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

  it('gives a sign of life every ten seconds, and cuts off a reader that gives none', async () => {
    const clock = new FakeClock();
    await using api = await startApi({ clock });
    const reader = api.feed('');
    await until('its timers are set', () => clock.pendingMs().includes(10_000));
    await clock.advance(10_000);
    await until('a heartbeat', () => reader.messages.length === 2);
    assert.deepEqual(reader.messages, [{ Index: 0, Events: [] }, {}]);
    await until('the next one is due', () => clock.pendingMs().includes(10_000));
    await clock.advance(10_000);
    await until('another', () => reader.messages.length === 3);
    // A peer that is there but mute: it upgrades and then never answers a ping.
    const mute = connect(api.socketPath);
    mute.write(UPGRADE);
    mute.on('error', () => undefined);
    await once(mute, 'data');
    const end = once(mute, 'close');
    mute.resume();
    let isOver = false;
    mute.once('close', () => (isOver = true));
    await until('it is cut off', async () => {
      await clock.advance(10_000);
      return isOver;
    });
    await end;
    assert.equal(reader.closed, undefined, 'one that answers stays');
  });

  it('closes with 1012 when the agent leaves', async () => {
    const api = await startApi();
    const reader = api.feed('?snapshot=true');
    await until('a snapshot', () => reader.said().length === 1);
    const lines = readLines(api, '/v1/event/stream?snapshot=true', Infinity);
    await api.server.close();
    await until('the close', () => reader.closed);
    assert.equal(reader.closed?.code, 1012);
    assert.equal((await lines).length <= 1, true);
    await api[Symbol.asyncDispose]();
  });

  it('closes with 1008 for a bad request and for a reader that talks', async () => {
    await using api = await startApi();
    for (const query of ['?topic=Weather', '?index=-1', '?index=99', '?snapshot=perhaps']) {
      const reader = api.feed(query);
      const closed = await until(`the close of ${query}`, () => reader.closed);
      assert.equal(closed.code, 1008, query);
      assert.notEqual(closed.reason, '');
    }
    const talker = api.feed('');
    await once(talker.socket, 'open');
    talker.socket.send('{"subscribe":"everything"}');
    assert.equal((await until('the close', () => talker.closed)).code, 1008);
    const loud = api.feed('');
    await once(loud.socket, 'open');
    loud.socket.send('x'.repeat(10_000));
    assert.equal((await until('the close', () => loud.closed)).code, 1009);
  });

  it('closes with 1013 when there are too many, and frees the place of one that left', async () => {
    await using api = await startApi({ feedLimits: { readers: 2 } });
    const [first, second] = [api.feed(''), api.feed('')];
    await Promise.all([once(first.socket, 'open'), once(second.socket, 'open')]);
    const third = api.feed('');
    assert.equal((await until('the close', () => third.closed)).code, 1013);
    assert.equal((await api.ask('/v1/event/stream')).status, 429);
    first.socket.terminate();
    await until('a place', async () => {
      const next = api.feed('?snapshot=true');
      await until('an answer', () => next.closed ?? next.said().length > 0);
      return next.closed === undefined;
    });
  });

  it('survives malformed frames and half-open upgrades', async () => {
    await using api = await startApi();
    const garbage = connect(api.socketPath);
    garbage.on('error', () => undefined);
    garbage.write(UPGRADE);
    await once(garbage, 'data');
    // An unmasked frame with reserved bits: no client may send that.
    garbage.write(Buffer.from([0xff, 0x05, 1, 2, 3, 4, 5]));
    garbage.resume();
    await once(garbage, 'close');
    const cut = connect(api.socketPath);
    cut.write(UPGRADE);
    cut.destroy();
    const wrong = new FeedClient(`ws+unix:${api.socketPath}:/v1/elsewhere`);
    await until('a refusal', () => wrong.closed);
    assert.equal((await api.ask('/v1/regions')).status, 200);
  });

  it('asks for the same rights over TCP as the rest', async () => {
    await using api = await startApi({ tcp: { host: '127.0.0.1', port: 0, token: 'secret' } });
    const url = `${(api.server.tcpUrl ?? '').replace('http', 'ws')}/v1/feed?snapshot=true`;
    const stranger = new FeedClient(url);
    assert.equal((await until('the close', () => stranger.closed)).code, 1008);
    const page = new FeedClient(url, {
      headers: { 'x-nomad-token': 'secret', origin: 'http://evil.example' },
    });
    assert.equal((await until('the close', () => page.closed)).code, 1008);
    const friend = new FeedClient(url, { headers: { 'x-nomad-token': 'secret' } });
    await until('a snapshot', () => friend.said().length === 1);
    friend.socket.close();
  });

  it('keeps a client that follows the rules at exactly the server’s state', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 40 }), async (steps) => {
        await using api = await startApi({
          storeLimits: { feedRows: 6, feedAgeMs: -1 },
          feedLimits: { recentRows: 3, rowsBehind: 5 },
        });
        const mirror = new Mirror();
        let reader: FeedClient | undefined;
        let taken = 0;
        /** Takes what comes until nothing is missing; begins again when it is told to. */
        const follow = async (): Promise<void> => {
          const target = api.store.index();
          while (mirror.index < target) {
            if (reader === undefined) taken = 0;
            reader ??= api.feed(mirror.index === 0 ? '?snapshot=true' : `?index=${mirror.index}`);
            const current = reader;
            await until('news', () => current.said().length > taken, {
              lastSeen: () => ({ closed: current.closed, at: mirror.index, target }),
            });
            const news = current.said().slice(taken);
            taken += news.length;
            if (news.every((message) => mirror.take(message as FeedMessage))) continue;
            mirror.index = 0;
            current.socket.terminate();
            reader = undefined;
          }
        };
        for (const step of steps) {
          if (step.kind === 'disconnect') {
            reader?.socket.terminate();
            reader = undefined;
          } else if (step.kind === 'follow') await follow();
          else await api.store.commit(step.changes);
        }
        await follow();
        assert.deepEqual(mirror.state(), await stateOf(api));
      }),
      { numRuns: 25 },
    );
  });

  it('is read by the ten lines of docs/feed.md', async () => {
    await using api = await startApi();
    const [, code = ''] = /```js\n([\s\S]*?)```/.exec(readFileSync('docs/feed.md', 'utf8')) ?? [];
    assert.ok(code.trim().split('\n').length <= 16, code);
    const known = new Map<string, unknown>();
    const put = (topic: string, key: string, value: unknown): void => {
      if (topic === 'TaskEvent') return;
      if (value === null) known.delete(key);
      else known.set(key, value);
    };
    const replaceAll = (jobs: FeedJob[], allocs: FeedAllocation[]): void => {
      known.clear();
      for (const one of [...jobs, ...allocs]) known.set(one.ID, one);
    };
    // The document gives a function that uses these names.
    const names = ['WebSocket', 'url', 'put', 'replaceAll', 'setTimeout'];
    // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the text under test is our own document
    const load = new Function(...names, `${code}\nreturn follow;`) as (...given: unknown[]) => Follow;
    const again: unknown[] = [];
    const later = (_follow: unknown, _delayMs: number, index: unknown): unknown => again.push(index);
    const url = `ws+unix:${api.socketPath}:/v1/feed`;
    const follow = load(WebSocket, url, put, replaceAll, later);
    await api.store.commit([putJob(), putAlloc(), putTask()]);
    const socket = follow();
    await until('the snapshot', () => known.has('web') && known.has('a1'));
    await api.store.commit([putJob({ id: 'db' }), { kind: 'delete_alloc', allocId: 'a1' }]);
    await until('the changes', () => known.has('db') && !known.has('a1'));
    socket.close();
    await until('it would come again', () => again.length === 1);
    assert.deepEqual(again, [api.store.index()]);
  });
});

type Follow = (index?: number) => WebSocket;

const UPGRADE =
  'GET /v1/feed HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

type Step =
  | { readonly kind: 'commit'; readonly changes: readonly Change[] }
  | { readonly kind: 'follow' }
  | { readonly kind: 'disconnect' };

/** Things that happen to a small world: one job and one alloc come, change, and go. */
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Step>({ kind: 'follow' }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'disconnect' }) },
  {
    weight: 8,
    arbitrary: fc
      .tuple(fc.constantFrom('web', 'db'), fc.nat(3), fc.constantFrom('pending', 'running', 'failed'))
      .map(([id, turn, clientStatus]): Step => {
        const alloc = `${id}-alloc`;
        const changes: Change[] = [
          putJob({ id, stopped: turn === 1, submittedAtMs: 1_700_000_000_000 + turn }),
          putAlloc({ id: alloc, jobId: id, clientStatus }),
          putTask({ allocId: alloc, attempts: turn }),
        ];
        const gone: Change[] = [
          { kind: 'delete_alloc', allocId: alloc },
          { kind: 'delete_job', jobId: id },
        ];
        return { kind: 'commit', changes: turn === 3 ? [...changes, ...gone] : changes };
      }),
  },
);

/** Reads `count` lines of a stream, or all until it ends. */
function readLines(api: ApiUnderTest, path: string, count: number): Promise<FeedMessage[]> {
  return new Promise((resolve, reject) => {
    const call = get({ socketPath: api.socketPath, path, agent: false }, (reply) => {
      let text = '';
      const lines = (): FeedMessage[] => text.split('\n').slice(0, -1).map(parse);
      reply.on('data', (part: Buffer) => {
        text += part.toString();
        if (lines().length < count) return;
        resolve(lines().slice(0, count));
        call.destroy();
      });
      reply.once('end', () => {
        resolve(lines());
      });
      reply.once('error', () => undefined);
    });
    call.once('error', reject);
  });
}
