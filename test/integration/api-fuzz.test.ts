/**
 * Whatever comes in over HTTP and websockets is answered with a clear refusal or taken; never a fault of ours, and the
 * API serves on. `HOLDFAST_FUZZ_RUNS` makes the run longer.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import { JOB, startApi } from '../helpers/api-client.js';
import { anyBody, anyHeaders, anyPart, anyValues, pathOf, routesIn, send } from '../helpers/fuzz.js';

const RUNS = Number(process.env['HOLDFAST_FUZZ_RUNS'] ?? 150);
/** What no run may add to the heap: far below what keeping each request would. */
const MOST_GROWTH_BYTES = 64 * 1024 * 1024;

describe('fuzzed', { timeout: 600_000 }, () => {
  it('requests are taken or refused, and memory does not grow', async () => {
    await using api = await startApi();
    await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const routes = routesIn((await api.ask('/v1/openapi.json')).json());
    const round = fc.asyncProperty(
      fc.constantFrom(...routes),
      anyPart,
      anyValues,
      anyHeaders,
      anyBody,
      async (route, part, values, headers, body) => {
        const path = pathOf(route, part, values);
        const { status, text } = await send(api.socketPath, { method: route.method, path, headers, body });
        const where = `${route.method} ${path.slice(0, 200)}: ${status} ${text.slice(0, 300)}`;
        assert.ok(status >= 200 && status < 500, where);
        if (status >= 400) assert.ok(text.trim() !== '', where);
      },
    );
    await fc.assert(round, { numRuns: RUNS });
    const before = process.memoryUsage().heapUsed;
    await fc.assert(round, { numRuns: RUNS });
    assert.ok(process.memoryUsage().heapUsed - before < MOST_GROWTH_BYTES);
    assert.equal((await api.ask('/v1/agent/health')).status, 200);
  });

  it('bytes on a connection or a websocket end it, and nothing else', async () => {
    await using api = await startApi();
    const reader = api.feed('?snapshot=true');
    const upgrade = Buffer.from(
      'GET /v1/feed HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.uint8Array({ minLength: 1, maxLength: 300 }),
        async (isUpgraded, bytes) => {
          const socket = connect(api.socketPath);
          socket.on('error', () => undefined);
          const closed = once(socket, 'close');
          socket.resume();
          if (isUpgraded) {
            socket.write(upgrade);
            await once(socket, 'data');
          }
          socket.end(bytes);
          // A peer that says no more is left to the closing handshake.
          const cut = setTimeout(() => socket.destroy(), 2_000);
          await closed;
          clearTimeout(cut);
        },
      ),
      { numRuns: Math.min(RUNS, 100) },
    );
    assert.equal(reader.closed, undefined, 'another reader notices nothing');
    assert.equal((await api.ask('/v1/agent/health')).status, 200);
    reader.socket.close();
  });
});
