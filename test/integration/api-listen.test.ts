/** Where the API listens: the unix socket's path and mode, TCP and its guard. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { claimSocketPath } from '../../src/api/unix-socket.js';
import { knownToken, startApi } from '../helpers/api-client.js';
import { until } from '../helpers/until.js';

describe('unix socket', () => {
  it('is for owner and group, replaces a dead one, and respects a living one', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'hf-sock-'));
    try {
      const path = join(dir, 'a.sock');
      const claim = await claimSocketPath(path);
      const dead = createServer().listen(claim.bindPath);
      await once(dead, 'listening');
      claim.publish();
      assert.equal(statSync(path).mode & 0o777, 0o660);
      await assert.rejects(claimSocketPath(path), { code: 'already_running' });
      dead.close();
      await once(dead, 'close');
      assert.ok(existsSync(path), 'a stale socket is left for the next to find');
      const next = await claimSocketPath(path);
      const living = createServer().listen(next.bindPath);
      await once(living, 'listening');
      next.publish();
      claim.release();
      assert.ok(existsSync(path), 'one that lost the place does not remove it');
      living.close();
      await once(living, 'close');
      next.release();
      assert.equal(existsSync(path), false);
      writeFileSync(path, 'precious');
      await assert.rejects(claimSocketPath(path), { code: 'bad_request' });
      await assert.rejects(claimSocketPath(join(dir, 'x'.repeat(120))), { code: 'bad_request' });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

describe('tcp', () => {
  const HOST = '127.0.0.1';

  it('asks for a token, a known host and no foreign origin', async () => {
    await using api = await startApi({ tcp: { host: HOST, tokens: [knownToken('secret')] } });
    const port = Number(new URL(api.server.tcpUrl ?? '').port);
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await api.ask('/v1/regions', { port, headers })).status;
    assert.equal(await status({}), 403);
    assert.equal(await status({ 'x-nomad-token': 'secreT' }), 403);
    assert.equal(await status({ 'x-nomad-token': 'secret' }), 200);
    assert.equal(await status({ authorization: 'Bearer secret' }), 200);
    assert.equal(await status({ 'x-nomad-token': 'secret', host: 'evil.example' }), 403);
    assert.equal(await status({ 'x-nomad-token': 'secret', origin: 'http://evil.example' }), 403);
    assert.equal(await status({ 'x-nomad-token': 'secret', origin: `http://${HOST}:${port}` }), 200);
    assert.equal((await api.ask('/v1/nothing', { port })).status, 403);
  });

  it('lets a token do what its scope covers, from the next request on when it changes', async () => {
    const tokens = [knownToken('reads', 'read'), knownToken('operates', 'operate')];
    await using api = await startApi({ tcp: { host: HOST, tokens } });
    const port = Number(new URL(api.server.tcpUrl ?? '').port);
    const ask = (token: string, method: string, path: string) =>
      api.ask(path, { port, method, headers: { 'x-nomad-token': token } });
    assert.equal((await ask('reads', 'GET', '/v1/jobs')).status, 200);
    const refused = await ask('reads', 'DELETE', '/v1/job/web');
    assert.equal(refused.status, 403);
    assert.match(refused.text, /the-read-one may read, this needs operate/);
    assert.equal((await ask('operates', 'DELETE', '/v1/job/web')).status, 404);
    api.server.changeAccess({ tokens: [knownToken('new')], names: [], tls: undefined });
    assert.equal((await ask('reads', 'GET', '/v1/jobs')).status, 403);
    assert.equal((await ask('new', 'GET', '/v1/jobs')).status, 200);
    assert.throws(
      () => {
        api.server.changeAccess({ tokens: [], names: [], tls: undefined });
      },
      { code: 'not_permitted' },
    );
    assert.equal((await ask('new', 'GET', '/v1/jobs')).status, 200);
  });

  it('is never open to the network, and on loopback only when asked', async () => {
    for (const host of ['0.0.0.0', HOST]) {
      await assert.rejects(startApi({ tcp: { host } }), { code: 'not_permitted' });
    }
    await assert.rejects(startApi({ tcp: { host: '0.0.0.0', allowOpen: true } }), { code: 'not_permitted' });
    await using api = await startApi({ tcp: { host: HOST, allowOpen: true } });
    const port = Number(new URL(api.server.tcpUrl ?? '').port);
    assert.equal((await api.ask('/v1/regions', { port })).status, 200);
    await until('the same on the unix socket', async () => (await api.ask('/v1/regions')).status === 200);
  });
});
