/** What a listener puts up with: large headers, slow callers, many callers. And which token may ask for which route. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createHttpApp } from '../../src/api/http.js';
import { IndexWatch } from '../../src/api/index-watch.js';
import { createListener, LISTENER_LIMITS } from '../../src/api/listener.js';
import { systemClock } from '../../src/base/clock.js';
import { silentLogger } from '../../src/base/log.js';
import { SCOPES, type Scope } from '../../src/base/tokens.js';
import { openMemoryStore } from '../../src/state/memory-store.js';
import { asObject, FeedClient, knownToken, startApi, type ApiUnderTest } from '../helpers/api-client.js';
import { operationsIn } from '../helpers/contract-world.js';

const HOST = '127.0.0.1';
const SHORT = { ...LISTENER_LIMITS, headerMs: 150, requestMs: 300, checkEveryMs: 30, connections: 3 };
const HEAD = 'Host: x\r\n';

describe('limits of a listener', { timeout: 60_000 }, () => {
  it('are those of docs/api.md', () => {
    const { headerBytes, headerMs, requestMs, connections } = LISTENER_LIMITS;
    const said = `a header of ${headerBytes / 1024} KiB within ${headerMs / 1000} s, a request within ${requestMs / 1000} s (408), ${connections} connections a listener`;
    assert.ok(readFileSync('docs/api.md', 'utf8').includes(said), said);
  });

  it('cut off what is too large, too slow, or one too many, and serve the others', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'hf-limit-'));
    const store = openMemoryStore({ clock: systemClock });
    using watch = new IndexWatch(store, systemClock);
    const leaving = new AbortController().signal;
    const app = createHttpApp(
      { store, watch, logger: silentLogger, routes: [], leaving },
      { guard: () => undefined, createServer: (handler) => createListener(handler, undefined, SHORT).server },
    );
    const path = join(dir, 'a.sock');
    await app.listen({ path });
    const open = async (): Promise<{ socket: Socket; said: () => string; closed: Promise<unknown> }> => {
      const socket = connect(path);
      let text = '';
      socket.on('data', (part: Buffer) => (text += part.toString()));
      socket.on('error', () => undefined);
      const closed = once(socket, 'close');
      await once(socket, 'connect');
      return { socket, said: () => text, closed };
    };
    try {
      const large = await open();
      large.socket.write(`GET /v1/x HTTP/1.1\r\n${HEAD}X-Large: ${'x'.repeat(17 * 1024)}\r\n\r\n`);
      await large.closed;
      assert.match(large.said(), /^HTTP\/1\.1 431 [^]*the header is too large: at most 16 KiB$/);

      const slowHeader = await open();
      slowHeader.socket.write(`GET /v1/x HTTP/1.1\r\n${HEAD}`);
      const slowBody = await open();
      slowBody.socket.write(`PUT /v1/x HTTP/1.1\r\n${HEAD}Content-Length: 10\r\n\r\n{`);
      await Promise.all([slowHeader.closed, slowBody.closed]);
      assert.match(slowHeader.said(), /^HTTP\/1\.1 408 [^]*too slowly/);
      assert.match(slowBody.said(), /^HTTP\/1\.1 40[48] /);

      const held = [await open(), await open(), await open()];
      const surplus = await open();
      await surplus.closed;
      assert.equal(surplus.said(), '');
      for (const { socket, closed } of held) {
        socket.destroy();
        await closed;
      }
      const next = await open();
      next.socket.write(`GET /v1/x HTTP/1.1\r\n${HEAD}Connection: close\r\n\r\n`);
      await next.closed;
      assert.match(next.said(), /^HTTP\/1\.1 404 /);
    } finally {
      await app.close();
      await store.close();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

/** Everything else is for `read`. GET and PUT of a path that has both with this scope. */
const NEEDS: Readonly<Record<Exclude<Scope, 'read'>, readonly RegExp[]>> = {
  operate: [
    /^(PUT|POST) \/v1\/jobs$/,
    /^DELETE \/v1\/job\/\{id\}$/,
    /^(PUT|POST) \/v1\/job\/\{id\}\/(dispatch|periodic\/force)$/,
    /^(PUT|POST) \/v1\/allocation\/\{id\}\/stop$/,
    /^(PUT|POST) \/v1\/client\/allocation\/\{id\}\/(restart|signal)$/,
    /^\w+ \/v1\/client\/(allocation\/\{id\}\/)?gc$/,
    /^(PUT|POST) \/v1\/system\/gc$/,
    /^(PUT|POST) \/v1\/deployment\/(fail|pause|promote|allocation-health)\/\{id\}$/,
    /^(PUT|POST) \/v1\/node\/\{id\}\/(drain|eligibility)$/,
    /^(PUT|POST) \/v1\/holdfast\/doctor$/,
  ],
  exec: [/^GET \/v1\/client\/allocation\/\{id\}\/exec$/],
};

describe('scopes of tokens', { timeout: 60_000 }, () => {
  let api: ApiUnderTest;
  let port: number;

  before(async () => {
    api = await startApi({ tcp: { host: HOST, tokens: SCOPES.map((scope) => knownToken(scope, scope)) } });
    port = Number(new URL(api.server.tcpUrl ?? '').port);
  });
  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  it('each route refuses every token below its own, and no token, and takes all others', async () => {
    const operations = operationsIn((await api.ask('/v1/openapi.json')).json());
    const used = new Set<RegExp>();
    for (const { method, path, scope, isSocket } of operations) {
      const route = `${method} ${path}`;
      const table = (['operate', 'exec'] as const).find((each) =>
        NEEDS[each].some((pattern) => pattern.test(route) && used.add(pattern)),
      );
      assert.equal(scope, table ?? 'read', route);
      const needed = SCOPES.indexOf(table ?? 'read');
      for (const [rank, given] of [undefined, ...SCOPES].entries()) {
        const headers: Record<string, string> = given === undefined ? {} : { 'x-nomad-token': given };
        const isRefused = rank - 1 < needed;
        const where = `${route} with ${given ?? 'no token'}`;
        const url = path.replace('{id}', 'none');
        if (isSocket) {
          const peer = new FeedClient(`ws://${HOST}:${port}${url}`, { headers });
          if (isRefused || path !== '/v1/feed') {
            await once(peer.socket, 'close');
            assert.equal(peer.closed?.code, 1008, where);
            assert.equal(/^Permission denied/.test(peer.closed.reason), isRefused, where);
          } else {
            await once(peer.socket, 'message');
            peer.socket.terminate();
          }
          continue;
        }
        // What never ends is asked for what is not there; and nothing is changed.
        const query =
          path === '/v1/event/stream' ? '?topic=None' : path === '/v1/agent/monitor' ? '?log_level=none' : '';
        const body = method === 'GET' || method === 'DELETE' ? undefined : '"none"';
        const asked = { port, method, headers: { ...headers, accept: 'application/json' }, body };
        const answer = await api.ask(url + query, asked);
        const { status, text } = answer;
        assert.equal(status === 403, isRefused, `${where}: ${status} ${text.slice(0, 200)}`);
        if (isRefused) {
          const { Code, Message } = asObject(answer.json());
          assert.equal(Code, 'not_permitted');
          assert.match(
            String(Message),
            given === undefined ? /a token is needed/ : new RegExp(`may ${given}, this needs ${scope}`),
          );
        }
      }
    }
    const patterns = Object.values(NEEDS).flat();
    assert.deepEqual(
      patterns.filter((pattern) => !used.has(pattern)),
      [],
      'of no route',
    );
  });
});
