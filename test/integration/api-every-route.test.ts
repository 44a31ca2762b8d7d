/**
 * The routes that answer no JSON, and what every route says when it refuses, with a real agent. Together with the contract
 * suite, which does the others, each route is asked here: the last test fails for one that is not.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { after, before, describe, it } from 'node:test';
import WebSocket from 'ws';
import { asObject } from '../helpers/api-client.js';
import { startContractWorld, type ContractWorld, type Operation } from '../helpers/contract-world.js';
import { until } from '../helpers/until.js';

const NOBODY = 'ffffffff-0000-4000-8000-000000000000';
/** As in Nomad, whose lists of a job that is not there are empty: allocs outlive their job. */
const TAKES_ANY_ID = new Set(['GET /v1/job/{id}/allocations', 'GET /v1/job/{id}/evaluations']);

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

const route = ({ method, path }: Operation): string => `${method} ${path}`;
/** A JSON answer, which the contract suite checks against its schema. */
const isJson = ({ answer }: Operation): boolean => answer !== undefined;

describe('every route, with a real agent', { timeout: 120_000 }, () => {
  let world: ContractWorld;
  const asked = new Set<string>();
  before(async () => {
    world = await startContractWorld();
  });
  after(async () => {
    await world[Symbol.asyncDispose]();
  });

  const open = async (
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body?: string,
  ): Promise<IncomingMessage> => {
    const call = request({ socketPath: world.agent.socket, method, path, headers });
    call.end(body);
    const [reply] = (await once(call, 'response')) as [IncomingMessage];
    return reply;
  };
  const ask = async (
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body?: string,
  ): Promise<Reply> => {
    const reply = await open(method, path, headers, body);
    let text = '';
    for await (const chunk of reply.setEncoding('utf8')) text += String(chunk);
    return { status: reply.statusCode ?? 0, type: String(reply.headers['content-type']), text };
  };
  /** Reads until it says what is expected; such a stream has no end of its own. */
  const hear = async (path: string, expected: RegExp): Promise<void> => {
    const reply = await open('GET', world.url(path) + (path.endsWith('/stream') ? '?snapshot=true' : ''));
    assert.equal(reply.statusCode, 200, path);
    let text = '';
    reply.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    await until(`${path} says it`, () => expected.test(text), { lastSeen: () => text });
    reply.destroy();
  };
  const socketAt = (path: string): WebSocket => new WebSocket(`ws+unix:${world.agent.socket}:${path}`);

  it('files, logs and metrics are text', async () => {
    const said: Readonly<Record<string, RegExp>> = {
      '/v1/client/fs/cat/{id}': /^up\n$/,
      '/v1/client/fs/readat/{id}': /^up\n$/,
      '/v1/client/fs/stream/{id}': /"Data":"dXAK"/,
      '/v1/metrics': /^holdfast_client_allocations_running [1-9]/m,
      '/v1/openapi.json': /^\{"openapi":"3/,
    };
    for (const [path, expected] of Object.entries(said)) {
      const { status, text } = await ask('GET', world.url(path));
      assert.equal(status, 200, `${path}: ${text}`);
      assert.match(text, expected, path);
      asked.add(`GET ${path}`);
    }
    const logs = '/v1/client/fs/logs/{id}';
    const { status, type, text } = await ask('GET', `${world.url(logs)}?task=main&type=stdout&plain=true`);
    assert.deepEqual([status, type.split(';')[0], text], [200, 'text/plain', 'up\n']);
    asked.add(`GET ${logs}`);
  });

  it('the log of the agent and the events go on', async () => {
    const heard = hear('/v1/agent/monitor', /\{\}|"Data"/);
    await world.agent.register({
      ID: 'heard',
      TaskGroups: [
        { Name: 'g', Count: 0, Tasks: [{ Name: 't', Driver: 'raw_exec', Config: { command: 'true' } }] },
      ],
    });
    await heard;
    asked.add('GET /v1/agent/monitor');
    await hear('/v1/event/stream', /"Snapshot":\{/);
    asked.add('GET /v1/event/stream');
  });

  it('the feed and exec are websockets, and say so to whom they are not', async () => {
    const feed = socketAt('/v1/feed?snapshot=true');
    const [first] = (await once(feed, 'message')) as [Buffer];
    assert.ok('Snapshot' in asObject(JSON.parse(first.toString())));
    feed.close();
    asked.add('GET /v1/feed');
    const exec = '/v1/client/allocation/{id}/exec';
    const session = socketAt(
      `${world.url(exec)}?task=main&command=${encodeURIComponent('["echo","hello"]')}`,
    );
    let frames = '';
    session.on('message', (data: Buffer) => (frames += data.toString()));
    await once(session, 'close');
    assert.match(frames, /"data":"aGVsbG8K"[^]*"exit_code":0/);
    asked.add(`GET ${exec}`);
    for (const path of ['/v1/feed', world.url(exec)]) {
      const { status, text } = await ask('GET', path);
      assert.equal(status, 426, path);
      assert.match(text, /websocket/i);
    }
  });

  it('has metrics of a task while it runs, and none when it is over', async () => {
    const { agent } = world;
    const scrape = async (): Promise<readonly string[]> =>
      (await ask('GET', '/v1/metrics?format=prometheus')).text
        .split('\n')
        .filter((line) => line.includes('job="meter"'));
    await agent.register({
      ID: 'meter',
      TaskGroups: [
        {
          Name: 'g',
          Tasks: [{ Name: 't', Driver: 'raw_exec', Config: { command: 'sleep', args: ['1000'] } }],
        },
      ],
    });
    const [task] = await agent.untilTasks('meter', 'runs', ([one]) => one?.state.State === 'running');
    const labels = `{namespace="default",alloc_id="${task?.allocId ?? ''}",job="meter",task_group="g",task="t"}`;
    const lines = await until('it is measured', async () => {
      const found = await scrape();
      return found.some((line) => line.startsWith('holdfast_client_allocs_memory_usage')) && found;
    });
    for (const name of ['cpu_seconds_total', 'memory_usage', 'restarts', 'processes']) {
      assert.ok(
        lines.some((line) => line.startsWith(`holdfast_client_allocs_${name}${labels} `)),
        `${name}\n${lines.join('\n')}`,
      );
    }
    await ask('DELETE', '/v1/job/meter?purge=true');
    await until('its series are gone', async () => (await scrape()).length === 0, { lastSeen: scrape });
  });

  it('refuses what is not there and what it cannot read, as text and as JSON', async () => {
    for (const operation of world.operations) {
      const { method, path } = operation;
      const refused = async (url: string, body: string | undefined, statuses: readonly number[]) => {
        const text = await ask(method, url, {}, body);
        assert.ok(statuses.includes(text.status), `${method} ${url}: ${text.status} ${text.text}`);
        assert.match(text.type, /^text\/plain/, `${method} ${url}`);
        assert.match(text.text, /^\S[^\n]*$/, `${method} ${url}: one line`);
        const json = await ask(method, url, { accept: 'application/json' }, body);
        assert.equal(json.status, text.status, `${method} ${url}`);
        const { Code, Message, ...rest } = asObject(JSON.parse(json.text));
        assert.deepEqual([Message, rest], [text.text, {}], `${method} ${url}`);
        assert.match(String(Code), /^[a-z_]+$/);
      };
      const isWrite = method === 'PUT' || method === 'POST';
      if (path.includes('{id}') && !TAKES_ANY_ID.has(route(operation))) {
        // What is missing or wrong besides may be said first.
        await refused(path.replace('{id}', NOBODY), isWrite ? '{}' : undefined, [400, 404, 426]);
      }
      if (isWrite) await refused(path.replace('{id}', NOBODY), '{"', [400]);
    }
  });

  it('is all that there is', () => {
    const left = world.operations.filter((each) => !isJson(each) && !asked.has(route(each))).map(route);
    assert.deepEqual(left, [], 'routes that are asked neither here nor in the contract suite');
  });
});
