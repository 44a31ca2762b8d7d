/**
 * Owns how routes are served over HTTP: headers, errors, blocking queries, streams. Knows no route by name.
 * A little over 300 lines: all of it is one thing, what stands between a socket and a route.
 */
import { addAbortListener } from 'node:events';
import { STATUS_CODES, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type * as Fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { AgentError, describeError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import { loadPackage } from '../base/lazy.js';
import type { Logger } from '../base/log.js';
import { SCOPES, type Scope } from '../base/tokens.js';
import type { StateStore } from '../state/store.js';
import { decideRefusal, type TcpGuard } from './guard.js';
import type { IndexWatch } from './index-watch.js';
import { cutPage } from './page.js';
import { Query } from './query.js';
import { pathPattern, type Call, type JsonRoute, type Route, type StreamRoute } from './route.js';
import { httpStatusOf, WARNING_HEADER, type ErrorBody } from './wire.js';

/** A job file with its templates is far smaller; Nomad refuses job sources above 1 MB. */
const MOST_BODY_BYTES = 2 * 1024 * 1024;
/** Job ids may be long; find-my-way's default of 100 is not enough. */
const LONGEST_PARAM = 1024;
/** Answers come from the store; what it cannot take now is not in them. */
const STALE_WARNING =
  'the disk refuses writes: what is shown stopped there, and what tasks do since is told later';
/** Nomad's default and its maximum. */
const DEFAULT_WAIT_MS = 5 * 60_000;
const LONGEST_WAIT_MS = 10 * 60_000;

export interface HttpDeps {
  readonly store: StateStore;
  readonly watch: IndexWatch;
  readonly logger: Logger;
  readonly routes: readonly Route[];
  /** Aborts when the agent is leaving: ends what waits and what streams. */
  readonly leaving: AbortSignal;
}

export interface ListenerOptions {
  /** Gives who may speak now; undefined for the unix socket. */
  readonly guard: () => TcpGuard | undefined;
  readonly createServer: (handler: RequestListener) => Server;
}

/** One listener's server, not listening yet. */
export function createHttpApp(deps: HttpDeps, { guard, createServer }: ListenerOptions): FastifyInstance {
  const { fastify } = loadPackage('fastify') as typeof Fastify;
  const app = fastify({
    // Nothing is checked or written by schemas of the framework: its compilers need not be loaded.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    bodyLimit: MOST_BODY_BYTES,
    serverFactory: createServer,
    routerOptions: { maxParamLength: LONGEST_PARAM, ignoreTrailingSlash: true },
    exposeHeadRoutes: false,
    clientErrorHandler: refuseConnection,
    // A path that no route is asked about: what would be answered otherwise holds the whole of it.
    frameworkErrors: (error, request, reply) =>
      void sendErrorBody(request, reply, statusOfParser(error) ?? 400, {
        Code: 'bad_request',
        Message:
          error.code === 'FST_ERR_MAX_PARAM_LENGTH'
            ? `an id in the path is too long: at most ${LONGEST_PARAM} characters`
            : 'the path has a % that begins no character',
      }),
  });
  // Nomad's tools send JSON without saying so.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) => {
    parseJson(String(text), done);
  });
  app.addHook('onRequest', (request, _reply, done) => {
    const by = guard();
    const refusal = by === undefined ? undefined : decideRefusal(by, request.headers, scopeOf(request));
    done(refusal === undefined ? undefined : new AgentError('not_permitted', refusal));
  });
  app.addHook('onSend', (_request, _reply, payload, done) => {
    failpoint('api.before_reply');
    done(null, payload);
  });
  app.setErrorHandler((error, request, reply) => sendError(deps.logger, request, reply, error));
  app.setNotFoundHandler((request, reply) => sendNotFound(deps, request, reply));
  for (const route of deps.routes) {
    app.route({
      method: [...route.methods],
      url: route.path,
      config: { scope: route.scope },
      handler: (request, reply) =>
        route.kind === 'socket'
          ? sendErrorBody(request, reply, 426, { Code: 'bad_request', Message: 'this path is a websocket' })
          : serve(deps, route, request, reply),
    });
  }
  return app;
}

/** Stands where a compiler of schemas would: no route has one. */
function noSchemas(): () => never {
  return () => {
    throw new AgentError('internal', 'a route has a schema, and nothing compiles it');
  };
}

/** What was no HTTP, or came too slowly: said in the plainest way, and the connection ends. */
function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  const [status, text] = CONNECTION_FAULTS.get(error.code ?? '') ?? [400, 'this is no HTTP request'];
  if (socket.writable && error.code !== 'ECONNRESET') {
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
  }
  socket.destroy(error);
}

const CONNECTION_FAULTS: ReadonlyMap<string, readonly [status: number, text: string]> = new Map([
  ['HPE_HEADER_OVERFLOW', [431, 'the header is too large: at most 16 KiB']],
  ['ERR_HTTP_REQUEST_TIMEOUT', [408, 'the request came too slowly: header within 10 s, all within 30 s']],
]);

/** What the route of a request asks for; a path that is none tells nothing, and asks for the least. */
function scopeOf({ routeOptions }: FastifyRequest): Scope {
  return RouteConfig.safeParse(routeOptions.config).data?.scope ?? 'read';
}

const RouteConfig = z.object({ scope: z.enum(SCOPES) });

function parseJson(text: string, done: (error: Error | null, body?: unknown) => void): void {
  if (text.trim() === '') {
    done(null, undefined);
    return;
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (cause) {
    done(new AgentError('bad_request', `the body is not JSON: ${describeError(cause)}`, { cause }));
    return;
  }
  done(null, body);
}

async function serve(
  deps: HttpDeps,
  route: JsonRoute | StreamRoute,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const ended = endOf(reply, deps.leaving);
  const call: Call = {
    query: new Query(request.url),
    body: request.body,
    get signal() {
      return ended();
    },
    param: (name) => readParam(request.params, name),
  };
  return route.kind === 'json'
    ? await sendJson(deps, route, call, reply)
    : await sendStream(deps, route, call, reply);
}

/** Aborts when the caller went away or the agent is leaving. Made for who asks for it: most answers wait for nothing. */
function endOf(reply: FastifyReply, leaving: AbortSignal): () => AbortSignal {
  let ended: AbortController | undefined;
  return () => {
    if (ended !== undefined) return ended.signal;
    const controller = new AbortController();
    ended = controller;
    const end = (): void => {
      listener[Symbol.dispose]();
      controller.abort();
    };
    const listener = addAbortListener(leaving, end);
    if (reply.raw.closed) end();
    else reply.raw.once('close', end);
    return controller.signal;
  };
}

/** What find-my-way found in the path. */
const Params = z.record(z.string(), z.string());

function readParam(params: unknown, name: string): string {
  const value = Params.parse(params)[name];
  if (value === undefined) throw new AgentError('internal', `the route has no part :${name}`);
  return value;
}

async function sendJson(
  deps: HttpDeps,
  route: JsonRoute,
  call: Call,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const seen = call.query.count('index') ?? 0;
  const waitMs = Math.min(call.query.durationMs('wait') ?? DEFAULT_WAIT_MS, LONGEST_WAIT_MS);
  if (route.watch !== undefined && seen > 0) {
    await deps.watch.changedAfter(route.watch(call), seen, {
      waitMs: waitMs === 0 ? DEFAULT_WAIT_MS : waitMs,
      signal: call.signal,
    });
  }
  // Taken before the data is read: the data may be newer than the index says, never older.
  const index = deps.store.index();
  const answer = await route.handle(call);
  const page =
    route.list === undefined || !Array.isArray(answer) ? undefined : cutPage(answer, call.query, route.list);
  const value = page === undefined ? answer : page.items;
  const text = JSON.stringify(value ?? null, null, call.query.flag('pretty') ? 4 : 0);
  return await reply
    .code(route.status?.() ?? 200)
    .headers({
      'content-type': 'application/json',
      // 0 would mean "do not block" when it is sent back.
      'x-nomad-index': String(Math.max(1, index)),
      'x-nomad-knownleader': 'true',
      'x-nomad-lastcontact': '0',
      ...(page?.nextToken === undefined ? {} : { 'x-nomad-nexttoken': page.nextToken }),
      ...(deps.store.trouble() === undefined ? {} : { [WARNING_HEADER]: STALE_WARNING }),
    })
    .send(text);
}

async function sendStream(
  deps: HttpDeps,
  route: StreamRoute,
  call: Call,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { contentType, body, close } = await route.open(call);
  reply.hijack();
  // Headers go out now: the first byte may be a long time coming.
  reply.raw.writeHead(200, {
    'content-type': contentType,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
    'x-nomad-index': String(Math.max(1, deps.store.index())),
  });
  reply.raw.flushHeaders();
  try {
    await pipeline(Readable.from(body, { objectMode: false }), reply.raw);
  } catch (error) {
    if (!call.signal.aborted) {
      deps.logger.warn({ path: route.path, error: describeError(error) }, 'a stream ended early');
    }
  } finally {
    await close?.();
  }
  return reply;
}

function sendNotFound(deps: HttpDeps, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = request.url.replace(/\?.*$/, '');
  const methods = deps.routes.filter((route) => pathPattern(route.path).test(path)).flatMap((r) => r.methods);
  if (methods.length === 0) {
    return sendErrorBody(request, reply, 404, {
      Code: 'not_found',
      Message: `no such path: ${request.method} ${path.slice(0, 200)} (all paths: /v1/openapi.json)`,
    });
  }
  void reply.header('allow', methods.join(', '));
  return sendErrorBody(request, reply, 405, {
    Code: 'bad_request',
    Message: `${request.method} is not allowed here: use ${methods.join(' or ')}`,
  });
}

function sendError(
  logger: Logger,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): FastifyReply {
  if (error instanceof AgentError && error.code !== 'internal') {
    return sendErrorBody(request, reply, httpStatusOf(error.code), {
      Code: error.code,
      Message: error.message,
    });
  }
  const status = statusOfParser(error);
  if (status !== undefined) {
    return sendErrorBody(request, reply, status, { Code: 'bad_request', Message: describeError(error) });
  }
  logger.error(
    {
      method: request.method,
      path: request.url.replace(/\?.*$/, ''),
      error: error instanceof Error ? error.stack : error,
    },
    'a request failed inside the agent',
  );
  return sendErrorBody(request, reply, 500, { Code: 'internal', Message: describeError(error) });
}

/** The 4xx that fastify gives to a request it could not take: too large, cut off, malformed. */
function statusOfParser(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('statusCode' in error)) return undefined;
  const { statusCode } = error;
  return typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500 ? statusCode : undefined;
}

function sendErrorBody(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  body: ErrorBody,
): FastifyReply {
  const asJson = (request.headers.accept ?? '').includes('application/json');
  return reply
    .code(status)
    .type(asJson ? 'application/json' : 'text/plain; charset=utf-8')
    .send(asJson ? JSON.stringify(body) : body.Message);
}
