/**
 * Owns websockets, whatever they carry: the upgrade, who may, dead peers, close codes, and their end when the agent
 * leaves. What is said on one is the business of its route.
 */
import { addAbortListener } from 'node:events';
import { STATUS_CODES, type IncomingMessage, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type * as Ws from 'ws';
import type { WebSocket } from 'ws';
import { orAborted } from '../base/abort.js';
import { AgentError, describeError, type ErrorCode } from '../base/errors.js';
import type { Clock, Timer } from '../base/clock.js';
import { loadPackage } from '../base/lazy.js';
import type { Logger } from '../base/log.js';
import { callerOf, decideRefusal, type TcpGuard } from './guard.js';
import { Query } from './query.js';
import { pathPattern, readPathParam, type Route, type SocketRoute } from './route.js';

/** Close codes, by contract. */
const NORMAL = 1000;
const BAD_REQUEST = 1008;
const INTERNAL = 1011;
const LEAVING = 1012;
const TOO_MANY = 1013;

/** Faults of the caller; all others are ours. */
const CLOSE_CODES = new Map<ErrorCode, number>([
  ['agent_leaving', LEAVING],
  ['ambiguous', BAD_REQUEST],
  ['bad_request', BAD_REQUEST],
  ['not_found', BAD_REQUEST],
  ['not_permitted', BAD_REQUEST],
  ['not_running', BAD_REQUEST],
  ['too_many', TOO_MANY],
]);

/** A peer that answers none of two pings in a row is dead. */
const PING_EVERY_MS = 30_000;
/** A peer that does not answer the closing handshake by then is cut off. */
const CLOSE_GRACE_MS = 1_000;
/** Written but not yet taken by the kernel: beyond it we wait for the peer. */
const HIGH_WATER_BYTES = 256 * 1024;
/** A close frame holds 123 bytes of reason. */
const MOST_REASON_BYTES = 120;

export interface SocketsDeps {
  readonly routes: readonly Route[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborts when the agent is leaving. */
  readonly leaving: AbortSignal;
}

interface Served {
  readonly route: SocketRoute;
  readonly pattern: RegExp;
  readonly upgrader: Ws.WebSocketServer;
}

/** A websocket, and what it travels on. */
interface Connection {
  readonly peer: WebSocket;
  readonly socket: Duplex;
}

/** One upgrade. */
interface Asked {
  readonly url: string;
  readonly refusal: string | undefined;
  readonly caller: string;
}

/** Serves the websocket routes on HTTP servers. */
export class Sockets {
  readonly #deps: SocketsDeps;
  readonly #open = new Set<Promise<void>>();
  readonly #served: readonly Served[];

  constructor(deps: SocketsDeps) {
    this.#deps = deps;
    const { WebSocketServer } = loadPackage('ws') as typeof Ws;
    this.#served = deps.routes.flatMap((route) =>
      route.kind === 'socket'
        ? [
            {
              route,
              pattern: pathPattern(route.path),
              upgrader: new WebSocketServer({
                noServer: true,
                clientTracking: false,
                perMessageDeflate: false,
                maxPayload: route.longestMessageBytes,
              }),
            },
          ]
        : [],
    );
  }

  /** Takes the upgrades of `server`. @param guard gives undefined for the unix socket */
  attach(server: Server, guard: () => TcpGuard | undefined): void {
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const url = request.url ?? '';
      // A socket that breaks before the upgrade is done has nobody else to tell.
      socket.on('error', () => undefined);
      const path = url.replace(/\?.*$/, '');
      const found = this.#served.find(({ pattern }) => pattern.test(path));
      if (found === undefined) {
        refuseUpgrade(socket, 404);
        return;
      }
      const by = guard();
      const refusal = by === undefined ? undefined : decideRefusal(by, request.headers, found.route.scope);
      found.upgrader.handleUpgrade(request, socket, head, (peer) => {
        const served = this.#serve({ peer, socket }, found.route, {
          url,
          refusal,
          caller: callerOf(by, request.headers),
        }).finally(() => this.#open.delete(served));
        this.#open.add(served);
      });
    });
  }

  /** Resolves when every socket is closed; aborting `leaving` makes that happen. */
  async drained(): Promise<void> {
    await Promise.all(this.#open);
  }

  async #serve(
    { peer, socket }: Connection,
    route: SocketRoute,
    { url, refusal, caller }: Asked,
  ): Promise<void> {
    const gone = new AbortController();
    const closed = new Promise<void>((resolve) => {
      peer.once('close', () => {
        gone.abort();
        resolve();
      });
    });
    // A malformed frame closes the socket by itself, with the right code.
    peer.on('error', () => undefined);
    const leaving = addAbortListener(this.#deps.leaving, () => {
      gone.abort(new AgentError('agent_leaving', 'the agent is leaving: come back and resume'));
    });
    const pings = new Pings(peer, this.#deps.clock);
    let end: Farewell = { code: NORMAL, reason: '' };
    try {
      if (refusal !== undefined) throw new AgentError('not_permitted', refusal);
      const call = {
        query: new Query(url),
        body: undefined,
        caller,
        signal: gone.signal,
        param: (name: string) => readPathParam(route.path, url, name),
      };
      await route.serve(call, peer, socket);
      if (gone.signal.reason instanceof AgentError) throw gone.signal.reason;
    } catch (error) {
      end = { code: closeCodeOf(error), reason: describeError(error) };
      if (end.code === INTERNAL) {
        this.#deps.logger.error({ path: route.path, error: end.reason }, 'a websocket ended early');
      }
    }
    peer.close(end.code, cutToBytes(end.reason, MOST_REASON_BYTES));
    const cutOff = this.#deps.clock.setTimer(CLOSE_GRACE_MS, () => {
      peer.terminate();
    });
    await closed;
    for (const held of [cutOff, pings, leaving]) held[Symbol.dispose]();
  }
}

interface Farewell {
  readonly code: number;
  readonly reason: string;
}

/** Pings a peer for as long as it lives and cuts it off when it no longer answers. */
class Pings implements Disposable {
  readonly #peer: WebSocket;
  readonly #clock: Clock;
  #timer: Timer;
  #unanswered = 0;

  constructor(peer: WebSocket, clock: Clock) {
    this.#peer = peer;
    this.#clock = clock;
    this.#timer = this.#arm();
    peer.on('pong', () => {
      this.#unanswered = 0;
    });
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #arm(): Timer {
    return this.#clock.setTimer(PING_EVERY_MS, () => {
      // While we do not read, its answers cannot come: a peer that has gone is noticed by what is sent to it.
      if (this.#peer.isPaused) this.#unanswered = 0;
      if (this.#unanswered >= 2) {
        this.#peer.terminate();
        return;
      }
      this.#unanswered += 1;
      if (this.#peer.readyState === this.#peer.OPEN) this.#peer.ping();
      this.#timer = this.#arm();
    });
  }
}

/** Sends; resolves at once while the peer keeps pace, else when what was sent has left us, or at `signal`. */
export async function sendPaced(peer: WebSocket, text: string, signal: AbortSignal): Promise<void> {
  if (peer.bufferedAmount < HIGH_WATER_BYTES) {
    peer.send(text, () => undefined);
    return;
  }
  // The callback also comes, with an error, when the socket closes first.
  const sent = new Promise<void>((resolve) => {
    peer.send(text, () => {
      resolve();
    });
  });
  await orAborted(sent, [signal]);
}

function closeCodeOf(error: unknown): number {
  return (error instanceof AgentError ? CLOSE_CODES.get(error.code) : undefined) ?? INTERNAL;
}

function refuseUpgrade(socket: Duplex, status: number): void {
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
  );
}

/** The longest beginning of at most this many bytes that cuts no character. */
function cutToBytes(text: string, bytes: number): string {
  let cut = text.slice(0, bytes);
  while (Buffer.byteLength(cut) > bytes) cut = cut.slice(0, -1);
  return cut.replace(/[\uD800-\uDBFF]$/, '');
}
