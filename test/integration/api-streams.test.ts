/** Answers that take their time: blocking queries, logs and files. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { StreamFrame } from '../../src/api/wire.js';
import { asList, asObject, JOB, startApi, type Json } from '../helpers/api-client.js';
import { until } from '../helpers/until.js';

describe('blocking queries', () => {
  it('wait for a change of what they ask for, and for nothing else', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const allocs = own.store.listAllocs().map(({ record }) => record.id);
    const [mine = '', other = ''] = allocs;
    const seen = (await own.ask(`/v1/allocation/${mine}`)).headers['x-nomad-index'];
    assert.equal(seen, String(own.store.index()));
    let answered = false;
    const waiting = own.ask(`/v1/allocation/${mine}?index=${seen}&wait=60s`).then((reply) => {
      answered = true;
      return reply;
    });
    await own.operations.startTask(other, 'server');
    await own.operations.addEvent(other, 'server', { type: 'Driver', message: 'noise' });
    // A round trip on the same server: the waiting one had its chance.
    await own.ask('/v1/regions');
    assert.equal(answered, false);
    await own.operations.startTask(mine, 'server');
    const reply = await waiting;
    assert.equal(asObject(reply.json())['ClientStatus'], 'running');
    assert.ok(Number(reply.headers['x-nomad-index']) > Number(seen));
    assert.equal(reply.headers['x-nomad-knownleader'], 'true');
    assert.equal(reply.headers['x-nomad-lastcontact'], '0');
  });

  it('come back by themselves after the wait, and at once with an old index', async () => {
    await using api = await startApi();
    await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const index = String(api.store.index());
    assert.equal((await api.ask(`/v1/jobs?index=${index}&wait=20ms`)).headers['x-nomad-index'], index);
    assert.equal((await api.ask(`/v1/jobs?index=1&wait=10m`)).status, 200);
  });

  it('see the very first change of an empty store', async () => {
    await using own = await startApi();
    const { headers } = await own.ask('/v1/jobs');
    assert.equal(headers['x-nomad-index'], '1');
    const waiting = own.ask('/v1/jobs?index=1&wait=60s');
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    assert.equal(asList((await waiting).json()).length, 1);
  });

  it('end when the agent leaves, and leave nothing behind when the caller does', async () => {
    await using own = await startApi();
    const socket = connect(own.socketPath);
    socket.write('GET /v1/jobs?index=1&wait=10m HTTP/1.1\r\nHost: x\r\n\r\n');
    const waiting = own.ask('/v1/jobs?index=1&wait=10m');
    await own.ask('/v1/regions');
    socket.destroy();
    await own.server.close();
    assert.equal((await waiting).status, 200);
    assert.equal(existsSync(own.socketPath), false);
  });
});

describe('logs', () => {
  it('come plain, in frames, from either end, and live', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const id = String(own.store.listAllocs()[0]?.record.id);
    const logs = `/v1/client/fs/logs/${id}`;
    assert.equal((await own.ask(`${logs}?task=server`)).status, 404);
    const dir = join(own.dataDir, 'alloc', id, 'alloc', 'logs');
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, 'server.stdout.0'), 'one\ntwo\n');
    writeFileSync(join(dir, 'server.stdout.1'), 'three\n');
    assert.equal((await own.ask(`${logs}?type=stdout&plain=true`)).text, 'one\ntwo\nthree\n');
    assert.equal(
      (await own.ask(`${logs}?task=server&plain=true&origin=end&offset=8`)).text,
      'wo\nthree\n'.slice(1),
    );
    assert.equal((await own.ask(`${logs}?task=server&plain=true&lines=1`)).text, 'three\n');
    const frames = (await own.ask(`${logs}?task=server&type=stdout`)).text;
    assert.deepEqual(
      frames
        .split(/(?<=\})(?=\{)/)
        .map((frame) => asObject(JSON.parse(frame)))
        .map(({ Offset, File, Data }) => [Offset, File, Buffer.from(String(Data), 'base64').toString()]),
      [
        [8, 'alloc/logs/server.stdout.0', 'one\ntwo\n'],
        [6, 'alloc/logs/server.stdout.1', 'three\n'],
      ],
    );
    for (const bad of ['type=stdin', 'origin=middle', 'offset=-1', 'follow=maybe']) {
      assert.equal((await own.ask(`${logs}?task=server&${bad}`)).status, 400, bad);
    }
    assert.equal((await own.ask(`${logs}?task=nobody`)).status, 404);
    const following = own.ask(`${logs}?task=server&follow=true&plain=true`);
    await own.ask('/v1/regions');
    writeFileSync(join(dir, 'server.stdout.1'), 'four\n', { flag: 'a' });
    await own.ask('/v1/job/web', { method: 'DELETE' });
    assert.equal((await following).text, 'one\ntwo\nthree\nfour\n');
  });
});

describe('files of an alloc', () => {
  const split = (frames: string): Json[] =>
    frames
      .split(/(?<=\})(?=\{)/)
      .filter((frame) => frame !== '')
      .map((frame) => asObject(JSON.parse(frame)));

  it('are listed, told of, read in whole and in part, and followed', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const id = String(own.store.listAllocs()[0]?.record.id);
    const fs = (what: string, query: string) => own.ask(`/v1/client/fs/${what}/${id.slice(0, 8)}?${query}`);
    assert.equal((await fs('ls', 'path=/')).status, 404, 'before it has a directory');
    const local = join(own.dataDir, 'alloc', id, 'server', 'local');
    mkdirSync(join(local, 'sub'), { recursive: true });
    mkdirSync(join(local, '..', 'secrets'));
    writeFileSync(join(local, '..', 'secrets', 'key'), 'x');
    writeFileSync(join(local, 'page.html'), '<b>0123456789</b>', { mode: 0o640 });
    writeFileSync(join(local, 'blob'), Buffer.from([0, 1, 2, 255]));
    const files = asList((await fs('ls', 'path=server/local')).json());
    assert.deepEqual(
      files.map(({ Name, IsDir, Size, FileMode }) => [Name, IsDir, IsDir === true ? 0 : Size, FileMode]),
      [
        ['blob', false, 4, '-rw-r--r--'],
        ['page.html', false, 17, '-rw-r-----'],
        ['sub', true, 0, 'drwxr-xr-x'],
      ],
    );
    const told = asObject((await fs('stat', 'path=/server/local/page.html')).json());
    assert.deepEqual([told['Name'], told['ContentType']], ['page.html', 'text/plain; charset=utf-8']);
    assert.ok(!Number.isNaN(Date.parse(String(told['ModTime']))));
    assert.equal(asObject((await fs('stat', '')).json())['Name'], '/');
    const page = await fs('cat', 'path=server/local/page.html');
    assert.equal(page.text, '<b>0123456789</b>');
    assert.equal(page.headers['content-type'], 'text/plain; charset=utf-8', 'a browser runs nothing of it');
    assert.equal(page.headers['x-content-type-options'], 'nosniff');
    const blob = await fs('cat', 'path=server/local/blob');
    assert.equal(blob.headers['content-type'], 'application/octet-stream');
    assert.equal((await fs('readat', 'path=server/local/page.html&offset=3&limit=4')).text, '0123');
    assert.equal((await fs('readat', 'path=server/local/page.html&offset=99&limit=4')).text, '');
    const end = split(
      (await fs('stream', 'path=server/local/page.html&follow=false&origin=end&offset=6')).text,
    );
    assert.deepEqual(end, [
      { Offset: 17, Data: Buffer.from('89</b>').toString('base64'), File: 'server/local/page.html' },
    ]);
    for (const [what, query, status] of [
      ['ls', 'path=server/local/page.html', 400],
      ['cat', 'path=server/local', 400],
      ['cat', 'path=server/nothing', 404],
      ['cat', 'path=server/secrets/key', 403],
      ['stream', 'path=server/secrets/key', 403],
      ['cat', 'path=../../../etc/passwd', 403],
      ['readat', 'path=server/local/page.html&offset=1', 400],
      ['stream', 'path=server/local/page.html&origin=middle', 400],
    ] as const) {
      assert.equal((await fs(what, query)).status, status, `${what} ${query}`);
    }
  });

  it('are followed while they grow, are emptied and removed, and until their alloc has ended', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const id = String(own.store.listAllocs()[0]?.record.id);
    const dir = join(own.dataDir, 'alloc', id, 'server', 'local');
    mkdirSync(dir, { recursive: true });
    const path = join(dir, 'a.log');
    writeFileSync(path, 'one');
    let text = '';
    const call = get({
      socketPath: own.socketPath,
      path: `/v1/client/fs/stream/${id}?path=server/local/a.log`,
    });
    const [reply] = (await once(call, 'response')) as [IncomingMessage];
    reply.on('data', (part: Buffer) => (text += part.toString()));
    const said = (): string[] =>
      split(text)
        .map((frame) => frame as StreamFrame)
        .map(({ Data = '', FileEvent }) => FileEvent ?? Buffer.from(Data, 'base64').toString());
    const news = (): string[] => said().filter((each) => each !== '');
    await until('the beginning', () => news().length === 1);
    writeFileSync(path, 'two', { flag: 'a' });
    await until('what was added', () => news().length === 2);
    writeFileSync(path, '3');
    await until('that it was emptied', () => news().length === 4, { lastSeen: news });
    rmSync(path);
    await once(reply, 'end');
    assert.deepEqual(news(), ['one', 'two', 'file truncated', '3', 'file deleted']);
    writeFileSync(path, 'last');
    const following = own.ask(`/v1/client/fs/stream/${id}?path=server/local/a.log&plain=true`);
    await own.ask('/v1/regions');
    await own.ask('/v1/job/web', { method: 'DELETE' });
    assert.equal((await following).text, 'last');
  });
});
