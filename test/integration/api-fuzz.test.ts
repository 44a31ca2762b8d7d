/**
 * Whatever comes in over HTTP and websockets is answered with a clear refusal or taken; never a fault of ours, and the
 * API serves on. `HOLDFAST_FUZZ_RUNS` makes the run longer.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { asObject, JOB, startApi, type ApiUnderTest } from '../helpers/api-client.js';

const RUNS = Number(process.env['HOLDFAST_FUZZ_RUNS'] ?? 150);
/** These wait for something to happen. */
const BLOCKS = new Set(['index', 'wait', 'follow']);
/** What no run may add to the heap: far below what keeping each request would. */
const MOST_GROWTH_BYTES = 64 * 1024 * 1024;

interface Answered {
  readonly status: number;
  readonly text: string;
}

/** The status, and the body unless it has no end. */
function send(
  api: ApiUnderTest,
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string,
) {
  const length = method === 'GET' ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise<Answered>((resolve, reject) => {
    const call = request(
      { socketPath: api.socketPath, method, path, headers: { ...headers, ...length }, agent: false },
      (reply) => {
        const status = reply.statusCode ?? 0;
        let text = '';
        reply.on('data', (part: Buffer) => (text += part.toString()));
        reply.on('end', () => {
          resolve({ status, text });
        });
        reply.on('error', () => {
          resolve({ status, text });
        });
        if (/stream|monitor/.test(path)) setTimeout(() => call.destroy(), 5);
      },
    );
    call.on('error', (error: NodeJS.ErrnoException) => {
      // Cut off before it had sent everything: refused in the plainest way.
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve({ status: 400, text: error.code });
      else reject(error);
    });
    if (method === 'GET') call.end();
    else call.end(body);
  });
}

async function routesOf(
  api: ApiUnderTest,
): Promise<readonly { method: string; path: string; query: string[] }[]> {
  const { paths } = asObject((await api.ask('/v1/openapi.json')).json());
  return Object.entries(asObject(paths)).flatMap(([path, operations]) =>
    Object.entries(asObject(operations)).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      query: (asObject(operation)['parameters'] as { name: string; in: string }[])
        .filter((each) => each.in === 'query' && !BLOCKS.has(each.name))
        .map(({ name }) => name),
    })),
  );
}

/** JSON that looks a bit like what is expected. */
const anyBody = fc.oneof(
  fc.string(),
  fc.json(),
  fc
    .record(
      {
        Job: fc.oneof(
          fc.jsonValue(),
          fc.record(
            {
              ID: fc.oneof(fc.string(), fc.constant('web'), fc.jsonValue()),
              Type: fc.oneof(fc.constantFrom('service', 'batch', 'system'), fc.jsonValue()),
              TaskGroups: fc.oneof(fc.constant(JOB.TaskGroups), fc.jsonValue()),
              Datacenters: fc.jsonValue(),
            },
            { requiredKeys: [] },
          ),
        ),
        Signal: fc.jsonValue(),
        Task: fc.jsonValue(),
        TaskName: fc.jsonValue(),
        Prefix: fc.jsonValue(),
        EnforceIndex: fc.jsonValue(),
        JobModifyIndex: fc.jsonValue(),
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value)),
);

describe('fuzzed', { timeout: 600_000 }, () => {
  it('requests are taken or refused, and memory does not grow', async () => {
    await using api = await startApi();
    await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const routes = await routesOf(api);
    const anyPart = fc.oneof(
      fc.constantFrom('web', '0de00000', '..', '%2e%2e', '%', '%ff', 'a'.repeat(2000)),
      fc.string(),
    );
    const anyHeaders = fc.dictionary(
      fc.constantFrom(
        'accept',
        'content-type',
        'x-nomad-token',
        'origin',
        'transfer-encoding-x',
        'expect-x',
        'authorization',
      ),
      fc.string({ unit: 'grapheme-ascii' }).map((text) => text.replace(/[^\x20-\x7e]/g, '')),
    );
    const round = fc.asyncProperty(
      fc.constantFrom(...routes),
      anyPart,
      fc.array(fc.string(), { maxLength: 4 }),
      anyHeaders,
      anyBody,
      async (route, part, values, headers, body) => {
        const query = route.query
          .flatMap((name, at) =>
            values[at] === undefined ? [] : [`${name}=${encodeURIComponent(toWellFormed(values[at]))}`],
          )
          .join('&');
        const raw = /^[\x21-\x7e]*$/.test(part)
          ? part.replace(/[?#]/g, '')
          : encodeURIComponent(toWellFormed(part));
        const path = `${route.path.replace(/\{\w+\}/g, raw)}?${query}`;
        const { status, text } = await send(api, route.method, path, headers, body);
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

function toWellFormed(text: string): string {
  return Buffer.from(text).toString();
}
