/** Owns what a route is: the one description from which it is served, listed in openapi.json and checked in tests. */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { z } from 'zod';
import { AgentError } from '../base/errors.js';
import type { Scope } from '../base/tokens.js';
import type { Query } from './query.js';
import type { WatchKey } from './index-watch.js';
import type { ListOrder } from './page.js';

export type Method = 'GET' | 'PUT' | 'POST' | 'DELETE';

/** Nomad takes PUT and POST for one another. */
export const WRITE: readonly Method[] = ['PUT', 'POST'];

/** One request, as a route sees it. */
export interface Call {
  readonly query: Query;
  readonly body: unknown;
  /** Aborts when the caller went away or the agent is leaving. */
  readonly signal: AbortSignal;
  /** A part of the path. */
  readonly param: (name: string) => string;
}

/** One upgrade to a websocket. */
export interface SocketCall extends Call {
  /** Who asks, for records: the name of a token, or by which way they came. */
  readonly caller: string;
}

interface RouteBase {
  readonly methods: readonly Method[];
  /** What a token must be good for over TCP. */
  readonly scope: Scope;
  /** `:name` stands for one part. */
  readonly path: string;
  /** One line for people, in openapi.json and docs/api.md. */
  readonly summary: string;
  /** Names of the query parameters that it understands, besides those of all routes. */
  readonly query?: readonly string[];
}

/** Answers with one JSON value. */
export interface JsonRoute extends RouteBase {
  readonly kind: 'json';
  /** Makes `?index=` block until what the key stands for has changed. @throws AgentError as `handle` does */
  readonly watch?: (call: Call) => WatchKey;
  /** @throws AgentError */
  readonly handle: (call: Call) => unknown;
  /** The answer is a list that can be filtered and paged; ordered so when it is. */
  readonly list?: ListOrder;
  /** What its body must be: `handle` checks it with `parseBody`. */
  readonly body?: z.ZodType;
  /** What it answers, one of answers/: for openapi.json, and for the suite that holds every answer against it. */
  readonly answer: z.ZodType;
  /** Status of an answer that is no error; default 200. */
  readonly status?: () => number;
}

/** Answers with bytes for as long as there are any. Ends early when `call.signal` aborts. */
export interface StreamRoute extends RouteBase {
  readonly kind: 'stream';
  /** @throws AgentError while nothing was sent yet; what the body throws later only ends the stream */
  readonly open: (call: Call) => Promise<StreamAnswer> | StreamAnswer;
}

export interface StreamAnswer {
  readonly contentType: string;
  readonly body: AsyncGenerator<Buffer | string, void, void>;
  /** Lets go of what the body reads from. Called once, also when the body was never begun. */
  readonly close?: () => Promise<void>;
}

/** Answered by a websocket: pings, dead peers, refusals and the closing handshake are the business of sockets.ts. */
export interface SocketRoute extends RouteBase {
  readonly kind: 'socket';
  /** The longest message that a caller may send; a longer one ends the connection with 1009. */
  readonly longestMessageBytes: number;
  /**
   * Serves one caller. When it resolves the socket is closed with 1000; what it throws becomes a close code and its
   * reason. `socket` is what the frames travel on: whole frames may be written to it past `peer`. `call.signal` aborts when the caller went away, or with an AgentError when it must end (the agent leaves).
   */
  readonly serve: (call: SocketCall, peer: WebSocket, socket: Duplex) => Promise<void>;
}

export type Route = JsonRoute | StreamRoute | SocketRoute;

/** `/v1/job/:id` → a pattern of whole paths. */
export function pathPattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/:\w+/g, '[^/]+')}/?$`);
}

/** The part of a path that stands at `:name`, decoded. @throws AgentError bad_request, internal */
export function readPathParam(route: string, url: string, name: string): string {
  const at = route.split('/').indexOf(`:${name}`);
  const part = url.replace(/\?.*$/, '').split('/')[at];
  if (at < 0 || part === undefined) throw new AgentError('internal', `the route has no part :${name}`);
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new AgentError('bad_request', 'the path has a % that begins no character', { cause });
  }
}
