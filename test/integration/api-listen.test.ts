/** Where the API listens: the unix socket's path and mode, TCP and its guard. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { claimSocketPath } from '../../src/api/unix-socket.js';
import { startApi } from '../helpers/api-client.js';
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
    await using api = await startApi({ tcp: { host: HOST, port: 0, token: 'secret' } });
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

  it('is never open to the network', async () => {
    await assert.rejects(startApi({ tcp: { host: '0.0.0.0', port: 0, token: undefined } }), {
      code: 'not_permitted',
    });
    await using api = await startApi({ tcp: { host: HOST, port: 0, token: undefined } });
    const port = Number(new URL(api.server.tcpUrl ?? '').port);
    assert.equal((await api.ask('/v1/regions', { port })).status, 200);
    await until('the same on the unix socket', async () => (await api.ask('/v1/regions')).status === 200);
  });
});
