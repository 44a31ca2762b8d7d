/**
 * A real agent with a running task takes whatever comes in over HTTP, websockets and job files: it refuses clearly, never
 * with a fault of its own, the task notices nothing, and memory stays where it was. `HOLDFAST_FUZZ_SECONDS` makes it long.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import WebSocket from 'ws';
import { jobSpecToWire } from '../../src/api/wire.js';
import { parseJobFile } from '../../src/jobspec/parse.js';
import { anyBody, anyHeaders, anyPart, anyValues, pathOf, routesIn, send } from '../helpers/fuzz.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

/** For each of the parts below. */
const PART_MS = (Number(process.env['HOLDFAST_FUZZ_SECONDS'] ?? 8) * 1000) / 4;
/** The heap of the agent may not grow beyond this: what keeps every request ends the agent. */
const HEAP_MIB = 96;
/** Resident memory in all: the heap, the program itself, and buffers. */
const MOST_KIB = 320 * 1024;
/** Close codes of docs/feed.md and docs/api.md that are no fault of the agent, and those of the protocol itself. */
const REFUSED = new Set([1000, 1002, 1003, 1007, 1008, 1009]);
const CORPUS = 'test/fixtures/jobspec/valid';

const COUNTER = 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done';
const STEADY = {
  ID: 'steady',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'g',
      Tasks: [{ Name: 'main', Driver: 'raw_exec', Config: { command: 'sh', args: ['-c', COUNTER] } }],
    },
  ],
};
/** What fuzzed writes may hit: nothing in it is a process. */
const VICTIM = {
  ID: 'victim',
  Type: 'service',
  TaskGroups: [{ Name: 'g', Tasks: [{ Name: 'main', Driver: 'mock_driver', Config: { run_for: '1000s' } }] }],
};

/** For as long as a part may take; ends in the middle of a run. */
const LONG = {
  numRuns: 1_000_000,
  interruptAfterTimeLimit: PART_MS,
  markInterruptAsFailure: false,
} as const;

/** Cuts, doubles and changes bytes of a text. */
const anyEdit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  cut: fc.nat(40),
  put: fc.oneof(
    fc.constant(''),
    fc.constantFrom(
      '{',
      '}',
      '"',
      '[',
      ']',
      '=',
      '\n',
      '${',
      '<<EOF\n',
      '\0',
      '- ',
      ': ',
      '*a',
      '99999999999',
    ),
    fc.string({ maxLength: 12 }),
  ),
});

function edit(text: string, edits: readonly { at: number; cut: number; put: string }[]): string {
  return edits.reduce((now, { at, cut, put }) => {
    const from = Math.floor(at * now.length);
    return now.slice(0, from) + put + now.slice(from + cut);
  }, text);
}

function rssKib(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib);
}

describe('a real agent, fuzzed', { timeout: 120_000 + 8 * PART_MS }, () => {
  let agent: RealAgent;
  let allocId = '';
  let victimId = '';
  let pid = 0;
  let warmKib = 0;

  const task = async () => {
    const [view] = await agent.untilTasks('steady', 'runs', (tasks) =>
      tasks.some(({ state }) => state.State === 'running'),
    );
    assert.ok(view);
    return view;
  };

  before(async () => {
    agent = await RealAgent.start({ env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` } });
    await agent.register(STEADY);
    await agent.register(VICTIM);
    const view = await task();
    allocId = view.allocId;
    pid = view.state.Holdfast.Pid ?? 0;
    assert.ok(pid > 0);
    const [victim] = await agent.untilTasks('victim', 'is there', (tasks) => tasks.length > 0);
    victimId = victim?.allocId ?? '';
  });
  after(async () => {
    await agent.close();
  });

  /** The task is the same process, it was not restarted, and no line of it is missing. */
  const undisturbed = async (): Promise<void> => {
    const { state } = await task();
    assert.equal(state.Holdfast.Pid, pid);
    assert.equal(state.Holdfast.Attempts, 1);
    const read = (): string[] => agent.output(allocId, 'main').trimEnd().split('\n');
    const seen = read().length;
    await until('it goes on writing', () => read().length > seen);
    for (const [at, line] of read().slice(0, -1).entries()) assert.equal(line, String(at));
    assert.ok(agent.isUp());
    assert.doesNotMatch(agent.log(), /failed inside the agent|a websocket ended early/);
  };

  it('requests', async () => {
    const routes = routesIn(await agent.get('/v1/openapi.json'));
    // A read may ask for the steady task; a write may not, because it would be obeyed.
    const readPart = fc.oneof(fc.constantFrom(allocId, allocId.slice(0, 8), 'steady', victimId), anyPart);
    const writePart = fc.oneof(fc.constantFrom('victim', victimId), anyPart);
    const anyTarget = fc.constantFrom(...routes).chain((route) =>
      fc.record({
        route: fc.constant(route),
        part: (route.method === 'GET' && !route.path.endsWith('gc') ? readPart : writePart).filter(
          (part) => route.method === 'GET' || !/\/node\//.test(route.path) || !/^[\da-f-]{4,}$/i.test(part),
        ),
      }),
    );
    const round = fc.asyncProperty(
      anyTarget,
      anyValues,
      anyHeaders,
      anyBody,
      async (target, values, headers, body) => {
        const { route, part } = target;
        const path = pathOf(route, part, values);
        const { status, text } = await send(agent.socket, { method: route.method, path, headers, body });
        const where = `${route.method} ${path.slice(0, 200)}: ${status} ${text.slice(0, 300)}`;
        assert.ok(status >= 200 && status < 500, where);
        if (status >= 400) assert.ok(text.trim() !== '', where);
      },
    );
    await fc.assert(round, { ...LONG, interruptAfterTimeLimit: Math.min(PART_MS, 3_000) });
    warmKib = rssKib(agent.pid);
    await fc.assert(round, LONG);
    await undisturbed();
  });

  it('job files', async () => {
    const files = readdirSync(CORPUS)
      .filter((name) => /\.(hcl|nomad|yaml|yml|json)$/.test(name))
      .map((name) => ({ name, text: readFileSync(join(CORPUS, name), 'utf8') }));
    const put = async (path: string, body: unknown): Promise<{ status: number; text: string }> =>
      await send(agent.socket, { method: 'PUT', path, headers: {}, body: JSON.stringify(body) });
    const expected = (status: number, text: string): void => {
      assert.ok(status === 200 || (status >= 400 && status < 500), `${status} ${text.slice(0, 500)}`);
    };
    const round = fc.asyncProperty(
      fc.constantFrom(...files),
      fc.array(anyEdit, { minLength: 1, maxLength: 6 }),
      async ({ name, text }, edits) => {
        const source = edit(text, edits);
        const read = parseJobFile(source, name);
        if (!read.ok) {
          assert.ok(read.faults.length > 0);
          for (const { message } of read.faults) assert.match(message, /^[^\n]+$/);
          return;
        }
        const job = jobSpecToWire(read.job);
        const checked = await put('/v1/validate/job', { Job: job });
        assert.equal(checked.status, 200, checked.text);
        const planned = await put(`/v1/job/${encodeURIComponent(job.ID)}/plan`, { Job: job, Diff: true });
        expected(planned.status, planned.text);
      },
    );
    await fc.assert(round, { ...LONG, interruptAfterTimeLimit: PART_MS / 2 });
    // The same to the agent itself, with values changed: what it takes is run (by a driver that starts nothing).
    const mocked = {
      ...VICTIM,
      ID: 'mocked',
      Type: 'batch',
      Meta: { a: 'b' },
      Priority: 50,
      Datacenters: ['*'],
    };
    const values = JSON.stringify(mocked).match(/"[^"]*"|\d+/g) ?? [];
    const registered = fc.asyncProperty(
      fc.constantFrom(...values.filter((value) => value !== '"mock_driver"')),
      fc.oneof(
        fc.json(),
        fc.constantFrom('null', '""', '-1', '1e99', '[]', '{}', '2', '"\\u0000"', '"../x"'),
      ),
      async (value, by) => {
        const body = JSON.stringify(mocked).replace(value, by);
        const { status, text } = await send(agent.socket, {
          method: 'PUT',
          path: '/v1/jobs',
          headers: {},
          body: `{"Job":${body}}`,
        });
        expected(status, text);
      },
    );
    await fc.assert(registered, { ...LONG, interruptAfterTimeLimit: PART_MS / 2 });
    await undisturbed();
  });

  it('websockets: messages', async () => {
    const exec = `/v1/client/allocation/${allocId}/exec?task=main&command=${encodeURIComponent('["cat"]')}`;
    const anyMessage = fc.oneof(
      fc.string(),
      fc.json(),
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      fc
        .record({ stdin: fc.jsonValue(), tty_size: fc.jsonValue() }, { requiredKeys: [] })
        .map((value) => JSON.stringify(value)),
      fc.base64String({ maxLength: 4000 }).map((data) => JSON.stringify({ stdin: { data } })),
    );
    const anyPath = fc.oneof(
      fc.constantFrom(exec, `${exec}&tty=true`, '/v1/feed?snapshot=true', '/v1/feed?index=0'),
      fc.string().map((text) => `/v1/feed?topic=${encodeURIComponent(Buffer.from(text).toString())}`),
      fc.string().map((text) => `${exec}${encodeURIComponent(Buffer.from(text).toString())}`),
    );
    const round = fc.asyncProperty(
      anyPath,
      fc.array(anyMessage, { maxLength: 6 }),
      fc.boolean(),
      async (path, messages, isAbrupt) => {
        const socket = new WebSocket(`ws://localhost${path}`, {
          createConnection: () => connect(agent.socket),
        });
        socket.on('error', () => undefined);
        const closed = once(socket, 'close') as Promise<[number, Buffer]>;
        await once(socket, 'open');
        for (const message of messages) if (socket.readyState === WebSocket.OPEN) socket.send(message);
        if (isAbrupt) socket.terminate();
        else if (path.startsWith('/v1/feed')) socket.close(1000);
        else socket.send(JSON.stringify({ stdin: { close: true } }));
        // What is typed on a terminal may stop it (Ctrl-S), or let Ctrl-D mean something else: that it does not end
        // cannot be waited for, so it is cut off.
        const isTerminal = path.includes('tty=true');
        let isCut = isAbrupt;
        const cut = setTimeout(
          () => {
            isCut = isTerminal;
            socket.terminate();
          },
          isTerminal ? 300 : 5_000,
        );
        const [code, reason] = await closed;
        clearTimeout(cut);
        // 1005: it answers a farewell that said none.
        assert.ok(isCut || code === 1005 || REFUSED.has(code), `${path}: ${code} ${reason.toString()}`);
      },
    );
    await fc.assert(round, LONG);
    await undisturbed();
  });

  it('websockets: bytes; and memory is where it was', async () => {
    const upgrade = (path: string): string =>
      `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;
    const exec = `/v1/client/allocation/${allocId}/exec?command=["cat"]`;
    const round = fc.asyncProperty(
      fc.constantFrom(undefined, '/v1/feed?snapshot=true', exec),
      fc.uint8Array({ minLength: 1, maxLength: 300 }),
      async (path, bytes) => {
        const socket = connect(agent.socket);
        socket.on('error', () => undefined);
        const closed = once(socket, 'close');
        if (path !== undefined) {
          socket.write(upgrade(path));
          await once(socket, 'data');
        }
        socket.resume();
        socket.write(bytes);
        socket.end();
        // A peer that says no more is left to the closing handshake: that nothing comes cannot be waited for.
        const cut = setTimeout(() => socket.destroy(), 200);
        await closed;
        clearTimeout(cut);
      },
    );
    await fc.assert(round, LONG);
    await undisturbed();
    const now = rssKib(agent.pid);
    assert.ok(now < MOST_KIB, `${warmKib} KiB when warm, ${now} KiB now`);
    process.stderr.write(`agent: ${warmKib} KiB when warm, ${now} KiB at the end\n`);
  });
});
