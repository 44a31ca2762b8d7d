/** How the feed carries what it says: heartbeats, dead and stalled readers, close codes, malformed frames, rights. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { FeedClient, knownToken, readLines, startApi } from '../helpers/api-client.js';
import { FakeClock } from '../helpers/fake-clock.js';
import { jobRecord, putJob } from '../helpers/records.js';
import { until } from '../helpers/until.js';

const UPGRADE =
  'GET /v1/feed HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

describe('feed sockets', () => {
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
    await using api = await startApi();
    const reader = api.feed('?snapshot=true');
    await until('a snapshot', () => reader.said().length === 1);
    const lines = readLines(api, '/v1/event/stream?snapshot=true', Infinity);
    await api.server.close();
    await until('the close', () => reader.closed);
    assert.equal(reader.closed?.code, 1012);
    assert.equal((await lines).length <= 1, true);
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
    await using api = await startApi({ tcp: { host: '127.0.0.1', tokens: [knownToken('secret', 'read')] } });
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

  it('gives the place of a reader of lines free when it leaves', async () => {
    await using api = await startApi({ feedLimits: { readers: 1 } });
    for (let round = 0; round < 3; round++) {
      const [first] = await until('a place', async () => {
        const lines = await readLines(api, '/v1/event/stream?snapshot=true', 1);
        return lines.length === 1 && lines;
      });
      assert.ok(first !== undefined && 'Snapshot' in first);
    }
  });

  it('serves many readers without a warning', async () => {
    const warnings: string[] = [];
    const note = (warning: Error): void => {
      warnings.push(warning.message);
    };
    process.on('warning', note);
    await using api = await startApi();
    const readers = Array.from({ length: 30 }, () => api.feed('?snapshot=true'));
    await until('all have begun', () => readers.every((reader) => reader.said().length === 1));
    await api.store.commit([putJob()]);
    await until('all are told', () => readers.every((reader) => reader.index() === 1));
    process.off('warning', note);
    assert.deepEqual(warnings, []);
  });

  it('does not wait for a reader that stalls when the agent leaves', async () => {
    await using api = await startApi();
    const { spec } = jobRecord();
    const meta = { filler: 'x'.repeat(50_000) };
    for (let version = 0; version < 200; version++) {
      await api.store.commit([putJob({ version, spec: { ...spec, meta } })]);
    }
    const socket = api.feed('?index=0');
    await once(socket.socket, 'open');
    socket.socket.pause();
    const lines = connect(api.socketPath);
    lines.on('error', () => undefined);
    lines.write('GET /v1/event/stream?index=0 HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(lines, 'data');
    lines.pause();
    await api.server.close();
    lines.destroy();
    socket.socket.terminate();
  });
});
