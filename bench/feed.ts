/**
 * Owns the measure of the feed: fifty readers take all that comes, one that sleeps and one that comes and goes beside
 * them. Each checks that it gets every index once: a gap or a repeat ends the bench.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { makeDir, type Bench, type Row } from './measures.js';

const SERVER = fileURLToPath(new URL('./feed-server.js', import.meta.url));
const READERS = 50;
/** How long the one that comes and goes stays each time. */
const VISIT_MS = 50;
/** Longer than any run takes. */
const PATIENCE_MS = 120_000;

export async function measureFeed({ agent, sizes }: Bench): Promise<readonly Row[]> {
  const dir = makeDir(agent.dir, 'feed');
  const holdfast = await rateOf('holdfast', join(dir, 'data'), sizes.feedEvents);
  const floor = await rateOf('floor', dir, sizes.feedEvents);
  return [
    {
      what: `feed, ${READERS} readers`,
      holdfast,
      floor,
      unit: '/s',
      against: 'ws: the same bytes to all, nothing kept',
      isRate: true,
    },
  ];
}

/** Events a second, each of them to every reader. */
async function rateOf(what: 'holdfast' | 'floor', dir: string, count: number): Promise<number> {
  const server = spawn(process.execPath, [SERVER, what, dir, String(count)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const deadline = setTimeout(() => server.kill('SIGKILL'), PATIENCE_MS);
  try {
    const [path, first] = await readPlace(server);
    const last = first + count;
    const open = (): FeedReader => new FeedReader(path, first, last);
    const readers = Array.from({ length: READERS }, open);
    const [sleeper, visitor] = what === 'holdfast' ? [open(), open()] : [];
    await Promise.all(readers.map((reader) => reader.opened));
    await sleeper?.opened;
    sleeper?.pause();
    const visits = visitor?.comeAndGo();
    const from = performance.now();
    server.stdin.write('go\n');
    await Promise.all(readers.map((reader) => reader.done));
    const tookMs = performance.now() - from;
    sleeper?.resume();
    await Promise.all([sleeper?.done, visitor?.done]);
    await visits;
    return (count / tookMs) * 1000;
  } finally {
    clearTimeout(deadline);
    const ended = once(server, 'exit');
    server.kill('SIGKILL');
    await ended;
  }
}

async function readPlace(server: ChildProcess): Promise<[path: string, index: number]> {
  if (server.stdout === null) throw new Error('no pipe');
  for await (const line of createInterface({ input: server.stdout })) {
    const [path = '', index = ''] = line.split(' ');
    return [path, Number(index)];
  }
  throw new Error('the server of the feed did not begin');
}

/** The least that can read a feed: finds each message's index and parses nothing else. */
class FeedReader {
  readonly done: Promise<void>;
  readonly #path: string;
  readonly #last: number;
  #index: number;
  #socket: Socket;
  #rest: Buffer = Buffer.alloc(0);
  #isOpen = false;
  #maySleep = false;
  #onDone: () => void = () => undefined;
  #onFault: (error: Error) => void = () => undefined;
  opened: Promise<void>;
  #onOpen: () => void = () => undefined;

  constructor(path: string, index: number, last: number) {
    this.#path = path;
    this.#index = index;
    this.#last = last;
    this.done = new Promise((resolve, reject) => {
      this.#onDone = resolve;
      this.#onFault = reject;
    });
    this.opened = new Promise((resolve) => (this.#onOpen = resolve));
    this.#socket = this.#connect();
  }

  pause(): void {
    this.#maySleep = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Leaves and comes back after the last index it has seen, until it has seen them all. */
  async comeAndGo(): Promise<void> {
    while (this.#index < this.#last) {
      await new Promise((resolve) => setTimeout(resolve, VISIT_MS));
      if (this.#index >= this.#last) break;
      this.#socket.removeAllListeners('data');
      this.#socket.destroy();
      this.#isOpen = false;
      this.#rest = Buffer.alloc(0);
      this.opened = new Promise((resolve) => (this.#onOpen = resolve));
      this.#socket = this.#connect();
      await this.opened;
    }
  }

  #connect(): Socket {
    const socket = connect(this.#path);
    socket.on('error', this.#onFault);
    socket.write(
      `GET /v1/feed?index=${this.#index} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );
    socket.on('data', (data: Buffer) => {
      try {
        this.#take(data);
      } catch (error) {
        this.#onFault(error instanceof Error ? error : new Error(String(error)));
      }
    });
    return socket;
  }

  #take(data: Buffer): void {
    let rest = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    if (!this.#isOpen) {
      const end = rest.indexOf('\r\n\r\n');
      if (end < 0) {
        this.#rest = rest;
        return;
      }
      this.#isOpen = true;
      this.#onOpen();
      rest = rest.subarray(end + 4);
    }
    for (;;) {
      const [head, length] = readHead(rest);
      if (head === 0 || rest.length < head + length) break;
      if (rest[0] === 0x81) this.#note(rest.subarray(head, head + length));
      rest = rest.subarray(head + length);
    }
    this.#rest = rest;
  }

  #note(message: Buffer): void {
    const head = message.toString('latin1', 0, 80);
    const [, index, kind] = /^\{"Index":(\d+),"(Events|Lost)"/.exec(head) ?? [];
    if (index === undefined) return;
    // One that sleeps is told what it lost, to the row; nobody else loses any.
    const isTold =
      kind === 'Lost' && this.#maySleep && head.includes(`"From":${this.#index + 1},"To":${index}`);
    if (!isTold && Number(index) !== this.#index + 1) throw new Error(`after ${this.#index} comes ${head}`);
    this.#index = Number(index);
    if (this.#index === this.#last) {
      this.#socket.destroy();
      this.#onDone();
    }
  }
}

/** Bytes of a frame's head, 0 while it is not all there, and of what it carries. */
function readHead(data: Buffer): readonly [head: number, length: number] {
  if (data.length < 2) return [0, 0];
  const short = (data[1] ?? 0) & 0x7f;
  if (short < 126) return [2, short];
  if (short === 126) return data.length < 4 ? [0, 0] : [4, data.readUInt16BE(2)];
  return data.length < 10 ? [0, 0] : [10, Number(data.readBigUInt64BE(2))];
}
