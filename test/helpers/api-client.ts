/** A real API server on a socket of its own over a store of its own, and a client that speaks to it as tools do. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { get, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import type { FeedLimits } from '../../src/api/feed.js';
import { createApiServer, type ApiServer, type TcpOptions } from '../../src/api/server.js';
import type { FeedMessage } from '../../src/api/wire.js';
import { systemClock, type Clock } from '../../src/base/clock.js';
import { silentLogger, type LogTap } from '../../src/base/log.js';
import { hashToken, type KnownToken, type Scope } from '../../src/base/tokens.js';
import { openMemoryStore } from '../../src/state/memory-store.js';
import type { StoreLimits } from '../../src/state/limits.js';
import { openSqliteStore } from '../../src/state/sqlite-store.js';
import type { StateStore } from '../../src/state/store.js';
import { FakeOperations } from './fake-operations.js';
import { BOOT } from './records.js';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as JSON. Throws when it is none. */
  json(): unknown;
}

export interface Ask {
  readonly method?: string;
  /** Sent as JSON, or as it is when it is text. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Instead of the unix socket. */
  readonly port?: number;
}

export interface ApiUnderTest extends AsyncDisposable {
  readonly store: StateStore;
  readonly operations: FakeOperations;
  readonly server: ApiServer;
  readonly dataDir: string;
  readonly socketPath: string;
  ask(path: string, ask?: Ask): Promise<Answer>;
  feed(query: string): FeedClient;
}

export interface ApiOptions {
  readonly clock?: Clock;
  /** Keep the store on disk in this directory, and leave it there when done. Default: in memory. */
  readonly dir?: string;
  readonly storeLimits?: Partial<StoreLimits>;
  readonly feedLimits?: Partial<FeedLimits>;
  readonly logTap?: LogTap;
  readonly tcp?: Partial<TcpOptions> & { readonly host: string };
}

const PLAIN_TCP = { port: 0, tokens: [], names: [], allowOpen: false, tls: undefined };

/** A token that may do everything, as the server knows it. */
export function knownToken(token: string, scope: Scope = 'exec'): KnownToken {
  return { name: `the-${scope}-one`, scope, sha256: hashToken(token) };
}

/** Starts one; disposing it closes the server and the store and removes the directory. */
export async function startApi(options: ApiOptions = {}): Promise<ApiUnderTest> {
  const dataDir = options.dir ?? mkdtempSync(join(tmpdir(), 'hf-api-'));
  const socketPath = join(dataDir, 'api.sock');
  const clock = options.clock ?? systemClock;
  const limits = options.storeLimits ?? {};
  const store =
    options.dir === undefined
      ? openMemoryStore({ clock, limits })
      : openSqliteStore({
          path: join(dataDir, 'state.db'),
          clock,
          logger: silentLogger,
          bootId: BOOT,
          limits,
        });
  const operations = new FakeOperations(store, clock);
  const feedLimits = options.feedLimits ?? {};
  const cleanUp = async (): Promise<void> => {
    await store.close();
    if (options.dir === undefined) rmSync(dataDir, { recursive: true, force: true });
  };
  const server = await createApiServer(
    {
      store,
      operations,
      clock,
      logger: silentLogger,
      dataDir,
      feedLimits,
      ...(options.logTap ? { logTap: options.logTap } : {}),
    },
    { socketPath, ...(options.tcp ? { tcp: { ...PLAIN_TCP, ...options.tcp } } : {}) },
  ).catch(async (error: unknown) => {
    await cleanUp();
    throw error;
  });
  return {
    store,
    operations,
    server,
    dataDir,
    socketPath,
    ask: (path, ask = {}) => send(ask.port === undefined ? { socketPath } : { port: ask.port }, path, ask),
    feed: (query) => new FeedClient(`ws+unix:${socketPath}:/v1/feed${query}`),
    [Symbol.asyncDispose]: async () => {
      await server.close();
      await cleanUp();
    },
  };
}

function send(to: { socketPath: string } | { port: number }, path: string, ask: Ask): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', headers = {}, body } = ask;
    const call = request({ ...to, host: '127.0.0.1', path, method, headers, agent: false }, (reply) => {
      const parts: Buffer[] = [];
      reply.on('data', (part: Buffer) => parts.push(part));
      reply.once('error', reject);
      reply.once('end', () => {
        const text = Buffer.concat(parts).toString();
        const json = (): unknown => JSON.parse(text);
        resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text, json });
      });
    });
    call.once('error', reject);
    if (body === undefined) call.end();
    else call.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
}

/** A reader of the websocket feed that keeps what it got. */
export class FeedClient {
  readonly socket: WebSocket;
  readonly messages: Record<string, unknown>[] = [];
  /** Set once the socket is closed. */
  closed: { readonly code: number; readonly reason: string } | undefined;

  constructor(url: string, options: { readonly headers?: Record<string, string> } = {}) {
    this.socket = new WebSocket(url, options);
    this.socket.on('message', (data: Buffer) => {
      const message: unknown = JSON.parse(data.toString('utf8'));
      this.messages.push({ ...(message as Record<string, unknown>) });
    });
    this.socket.on('error', () => undefined);
    this.socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
  }

  /** Messages that are no heartbeats. */
  said(): readonly Record<string, unknown>[] {
    return this.messages.filter((message) => 'Index' in message);
  }

  /** Index of the newest message; 0 before the first. */
  index(): number {
    const index = this.said().at(-1)?.['Index'];
    return typeof index === 'number' ? index : 0;
  }
}

/** Reads `count` lines of a stream, or all until it ends. */
export function readLines(
  api: { readonly socketPath: string },
  path: string,
  count: number,
): Promise<FeedMessage[]> {
  return new Promise((resolve, reject) => {
    const call = get({ socketPath: api.socketPath, path, agent: false }, (reply) => {
      let text = '';
      const lines = (): FeedMessage[] =>
        text
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line) as FeedMessage);
      reply.on('data', (part: Buffer) => {
        text += part.toString();
        if (lines().length < count) return;
        resolve(lines().slice(0, count));
        call.destroy();
      });
      reply.once('end', () => {
        resolve(lines());
      });
      reply.once('error', () => undefined);
    });
    call.once('error', reject);
  });
}

/** A job with two allocs of one task, as tools send it. */
export const JOB = {
  ID: 'web',
  Name: 'web',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'front',
      Count: 2,
      Tasks: [{ Name: 'server', Driver: 'raw_exec', Config: { command: '/bin/true' } }],
    },
  ],
};

export type Json = Record<string, unknown>;

/** Looks into an answer. */
export function asObject(value: unknown): Json {
  assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), JSON.stringify(value));
  return { ...value };
}

export function asList(value: unknown): readonly Json[] {
  assert.ok(Array.isArray(value), JSON.stringify(value));
  return value.map(asObject);
}
