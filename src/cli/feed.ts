/**
 * Owns reading of the status feed over its websocket. When the daemon goes away it reconnects and resumes after the
 * last index it has seen, so that a reader gets every event once, also across a restart of the daemon.
 */
import { connect } from 'node:net';
import WebSocket from 'ws';
import type { FeedMessage } from '../api/wire.js';
import { sleep } from '../base/clock.js';
import { describeAddress } from './address.js';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';

export interface FeedQuery {
  /** `Topic:key` each; none = all. */
  readonly topics: readonly string[];
  /** Events after this index. */
  readonly after: number;
}

/** A message that says something: no heartbeat. */
export type FeedNews = Extract<FeedMessage, { readonly Index: number }>;

/** The daemon beats every 10 s; after this it is taken for gone. */
const SILENCE_MS = 35_000;
const RETRY_MS = 500;
/** A daemon that is upgraded or restarted is back sooner. */
const GIVE_UP_MS = 60_000;
/** Messages held for a slow terminal before the connection is paused. */
const MOST_QUEUED = 1000;

const POLICY_VIOLATION = 1008;
const TRY_AGAIN_LATER = 1013;

/** How one connection ended. */
interface Ended {
  readonly code: number;
  readonly reason: string;
  readonly error: Error | undefined;
}

/**
 * Reads the feed until `signal` aborts.
 * @throws CliError unreachable when there is no daemon, notPermitted and usage when it refuses
 */
export async function* readFeed(
  cli: Cli,
  query: FeedQuery,
  signal: AbortSignal,
): AsyncGenerator<FeedNews, void, void> {
  let { after } = query;
  let goneSinceMs: number | undefined;
  let isConnectedOnce = false;
  const isOver = (): boolean => signal.aborted;
  while (!isOver()) {
    const socket = openSocket(cli, { ...query, after });
    const messages = new Messages(cli, socket, signal);
    try {
      for await (const message of messages.read()) {
        isConnectedOnce = true;
        goneSinceMs = undefined;
        if (!isNews(message)) continue;
        after = message.Index;
        yield message;
      }
    } finally {
      socket.terminate();
    }
    if (isOver()) return;
    const ended = messages.ended();
    refuse(cli, ended, isConnectedOnce || messages.wasOpen());
    isConnectedOnce ||= messages.wasOpen();
    const nowMs = cli.clock.monoMs();
    if (goneSinceMs === undefined)
      cli.output.note('holdfast: the daemon went away; waiting for it to come back');
    goneSinceMs ??= nowMs;
    if (nowMs - goneSinceMs > GIVE_UP_MS) throw lost(cli, ended);
    await sleep(cli.clock, RETRY_MS, signal);
  }
}

function isNews(message: FeedMessage): message is FeedNews {
  return 'Index' in message;
}

function openSocket(cli: Cli, query: FeedQuery): WebSocket {
  const params = new URLSearchParams();
  for (const topic of query.topics) params.append('topic', topic);
  params.set('index', String(query.after));
  const { address } = cli.client;
  const base = address.kind === 'unix' ? 'ws://localhost' : describeAddress(address).replace(/^http/, 'ws');
  return new WebSocket(`${base}/v1/feed?${params.toString()}`, {
    ...cli.client.tls,
    headers: cli.client.headers(),
    perMessageDeflate: false,
    ...(address.kind === 'unix' ? { createConnection: () => connect(address.path) } : {}),
  });
}

/** Ends the command when trying again cannot help. */
function refuse(cli: Cli, ended: Ended, wasConnected: boolean): void {
  if (ended.code === POLICY_VIOLATION) throw new CliError(EXIT.failed, `the daemon refuses: ${ended.reason}`);
  if (ended.code === TRY_AGAIN_LATER) {
    throw new CliError(
      EXIT.failed,
      `the daemon refuses: ${ended.reason || 'too many subscribers'}; try again later`,
    );
  }
  const status = /Unexpected server response: (\d+)/.exec(ended.error?.message ?? '')?.[1];
  if (status === '401' || status === '403') {
    throw new CliError(
      EXIT.notPermitted,
      `the daemon at ${describeAddress(cli.client.address)} does not let you read its feed: give a token with --token or HOLDFAST_TOKEN`,
    );
  }
  if (!wasConnected) throw lost(cli, ended);
}

function lost(cli: Cli, ended: Ended): CliError {
  const why = ended.error?.message ?? `connection closed (${ended.code})`;
  return new CliError(
    EXIT.unreachable,
    `lost the daemon at ${describeAddress(cli.client.address)}: ${why}; tasks keep running, see whether it runs`,
  );
}

/** The messages of one connection, in order. */
class Messages {
  readonly #cli: Cli;
  readonly #socket: WebSocket;
  readonly #signal: AbortSignal;
  readonly #queue: FeedMessage[] = [];
  #ended: Ended | undefined;
  #error: Error | undefined;
  #wasOpen = false;
  #wake: () => void = () => undefined;

  constructor(cli: Cli, socket: WebSocket, signal: AbortSignal) {
    this.#cli = cli;
    this.#socket = socket;
    this.#signal = signal;
    socket.on('open', () => {
      this.#wasOpen = true;
    });
    socket.on('message', (data) => {
      // The daemon's word, in the shape of api/wire.ts.
      this.#queue.push(JSON.parse(textOf(data)) as FeedMessage);
      if (this.#queue.length >= MOST_QUEUED) socket.pause();
      this.#wake();
    });
    socket.on('error', (error) => {
      this.#error = error;
    });
    socket.on('close', (code, reason) => {
      this.#ended = { code, reason: reason.toString(), error: this.#error };
      this.#wake();
    });
  }

  wasOpen(): boolean {
    return this.#wasOpen;
  }

  ended(): Ended {
    return this.#ended ?? { code: 1006, reason: '', error: this.#error };
  }

  /** Ends with the connection, with the signal, and when nothing came for too long. */
  async *read(): AsyncGenerator<FeedMessage, void, void> {
    for (;;) {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) yield next;
      if (this.#socket.isPaused) this.#socket.resume();
      if (this.#ended !== undefined || this.#signal.aborted) return;
      if (!(await this.#somethingCame())) return;
    }
  }

  async #somethingCame(): Promise<boolean> {
    let isSilent = false;
    await new Promise<void>((resolve) => {
      const timer = this.#cli.clock.setTimer(SILENCE_MS, () => {
        isSilent = true;
        done();
      });
      const done = (): void => {
        timer[Symbol.dispose]();
        this.#signal.removeEventListener('abort', done);
        this.#wake = () => undefined;
        resolve();
      };
      this.#wake = done;
      this.#signal.addEventListener('abort', done);
    });
    return !isSilent;
  }
}

function textOf(data: WebSocket.RawData): string {
  return Array.isArray(data) ? Buffer.concat(data).toString() : Buffer.from(data as Buffer).toString();
}
