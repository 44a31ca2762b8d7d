/** Answers that take their time: blocking queries and logs. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { asList, asObject, JOB, startApi } from '../helpers/api-client.js';

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
