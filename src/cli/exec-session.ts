/**
 * Owns one session from the side of the caller: the websocket, this process's streams, and the terminal, which is put back
 * as it was whatever happens.
 */
import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { isatty } from 'node:tty';
import WebSocket, { type RawData } from 'ws';
import type { ExecInput, ExecOutput } from '../api/wire.js';
import { describeAddress } from './address.js';
import type { Cli } from './cli.js';
import { CliError, EXIT, exitCodeOf } from './exit.js';

export interface ExecWish {
  readonly allocId: string;
  readonly task: string;
  readonly command: readonly string[];
  /** On a terminal. */
  readonly tty: boolean;
  /** Hand our input on. */
  readonly interactive: boolean;
}

/** What a command is given to work with; tests of the whole CLI use the real ones. */
const { stdin, stdout, stderr } = process;

const BEAT_MS = 10_000;
/** The daemon beats every 10 s; after this it is taken for gone. */
const SILENCE_MS = 35_000;
/** Input on its way: beyond it we do not read on. */
const HIGH_WATER_BYTES = 64 * 1024;
/** After a session that was cut off: out of the alternate screen, cursor, paste mode and colours as usual. */
const CALM = '\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[0m\r\n';
/** Signals that would end us in the middle, with what a shell would say of it. */
const DEADLY = { SIGHUP: 129, SIGTERM: 143 } as const;

/** Runs the session to its end. @returns the exit code of the command. @throws CliError */
export async function runExec(cli: Cli, wish: ExecWish): Promise<number> {
  const socket = openSocket(cli, wish);
  const isRaw = wish.tty && wish.interactive && isatty(0);
  const calm = (): void => {
    if (isRaw) stdin.setRawMode(false);
  };
  const undo: (() => void)[] = [calm];
  let killedBy: number | undefined;
  const onExit = (): void => {
    calm();
  };
  process.once('exit', onExit);
  undo.push(() => process.off('exit', onExit));
  for (const [signal, code] of Object.entries(DEADLY)) {
    const die = (): void => {
      killedBy = code;
      socket.terminate();
    };
    process.once(signal, die);
    undo.push(() => process.off(signal, die));
  }
  try {
    const ended = await converse(cli, { wish, socket, isRaw, undo });
    if (killedBy !== undefined) return killedBy;
    if (ended.error !== undefined) {
      if (isRaw) stdout.write(CALM);
      throw ended.error;
    }
    return ended.code;
  } finally {
    for (const step of undo.reverse()) step();
    socket.terminate();
    // Reading it would keep us from ending.
    stdin.pause();
    if ('unref' in stdin) stdin.unref();
  }
}

interface Conversation {
  readonly wish: ExecWish;
  readonly socket: WebSocket;
  readonly isRaw: boolean;
  /** What has to be taken back at the end. */
  readonly undo: (() => void)[];
}

type Ended = { readonly error: CliError } | { readonly error?: undefined; readonly code: number };

function converse(cli: Cli, { wish, socket, isRaw, undo }: Conversation): Promise<Ended> {
  return new Promise((resolve) => {
    let result: number | undefined;
    let fault: CliError | undefined;
    let lastMonoMs = cli.clock.monoMs();
    let work = Promise.resolve();
    let queued = 0;
    socket.on('open', () => {
      if (wish.tty) sendSize(socket);
      if (isRaw) makeRaw();
      if (wish.interactive) undo.push(handOnInput(socket));
      else send(socket, { stdin: { close: true } });
      if (!wish.tty) return;
      const onResize = (): void => {
        sendSize(socket);
      };
      stdout.on('resize', onResize);
      undo.push(() => stdout.off('resize', onResize));
    });
    const beat = setIntervalOf(cli, BEAT_MS, () => {
      send(socket, {});
      if (cli.clock.monoMs() - lastMonoMs > SILENCE_MS) socket.terminate();
    });
    undo.push(() => {
      beat[Symbol.dispose]();
    });
    socket.on('message', (data) => {
      lastMonoMs = cli.clock.monoMs();
      const message = JSON.parse(textOf(data)) as ExecOutput;
      if (message.error !== undefined)
        fault = new CliError(exitCodeOf(message.error.Code), message.error.Message);
      if (message.result !== undefined) result = message.result.exit_code;
      // What is slow is our own output: then nothing more is taken from the daemon.
      queued += 1;
      if (queued > 1) socket.pause();
      work = work.then(async () => {
        if (message.stdout?.data !== undefined) await write(stdout, message.stdout.data);
        if (message.stderr?.data !== undefined) await write(stderr, message.stderr.data);
        queued -= 1;
        if (queued === 0) socket.resume();
      });
    });
    socket.on('error', (error) => {
      fault ??= refusalOf(cli, error.message);
    });
    socket.on('close', (code, reason) => {
      void work.then(() => {
        if (result === undefined) resolve({ error: fault ?? lostOf(cli, code, reason.toString()) });
        else resolve({ code: result });
      });
    });
  });
}

function openSocket(cli: Cli, wish: ExecWish): WebSocket {
  const params = new URLSearchParams({
    task: wish.task,
    command: JSON.stringify(wish.command),
    tty: String(wish.tty),
  });
  const { width, height } = sizeOf();
  if (wish.tty) params.set('width', String(width));
  if (wish.tty) params.set('height', String(height));
  const { address } = cli.client;
  const base = address.kind === 'unix' ? 'ws://localhost' : describeAddress(address).replace(/^http/, 'ws');
  return new WebSocket(`${base}/v1/client/allocation/${wish.allocId}/exec?${params.toString()}`, {
    ...cli.client.tls,
    headers: cli.client.headers(),
    perMessageDeflate: false,
    ...(address.kind === 'unix' ? { createConnection: () => connect(address.path) } : {}),
  });
}

/** Node leaves the translation of line ends on, and full-screen programs need it off. Switching raw mode off undoes both. */
function makeRaw(): void {
  stdin.setRawMode(true);
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
}

/** Hands our input on, at the pace at which it is taken. @returns what ends that */
function handOnInput(socket: WebSocket): () => void {
  const onData = (data: Buffer): void => {
    if (socket.readyState !== WebSocket.OPEN) return;
    socket.send(JSON.stringify({ stdin: { data: data.toString('base64') } }), () => {
      if (socket.bufferedAmount <= HIGH_WATER_BYTES && stdin.isPaused()) stdin.resume();
    });
    if (socket.bufferedAmount > HIGH_WATER_BYTES) stdin.pause();
  };
  const onEnd = (): void => {
    send(socket, { stdin: { close: true } });
  };
  stdin.on('data', onData);
  stdin.once('end', onEnd);
  stdin.resume();
  return () => {
    stdin.off('data', onData);
    stdin.off('end', onEnd);
  };
}

function sendSize(socket: WebSocket): void {
  send(socket, { tty_size: sizeOf() });
}

function sizeOf(): { readonly height: number; readonly width: number } {
  return isatty(1) && stdout.rows > 0 && stdout.columns > 0
    ? { height: stdout.rows, width: stdout.columns }
    : { height: 24, width: 80 };
}

function send(socket: WebSocket, message: ExecInput): void {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message), () => undefined);
}

async function write(to: NodeJS.WriteStream, base64: string): Promise<void> {
  if (to.write(Buffer.from(base64, 'base64'))) return;
  await new Promise<void>((resolve) => to.once('drain', resolve));
}

function textOf(data: RawData): string {
  return (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Uint8Array)).toString('utf8');
}

function setIntervalOf(cli: Cli, everyMs: number, act: () => void): Disposable {
  let timer = cli.clock.setTimer(everyMs, function again() {
    act();
    timer = cli.clock.setTimer(everyMs, again);
  });
  return {
    [Symbol.dispose]: () => {
      timer[Symbol.dispose]();
    },
  };
}

function refusalOf(cli: Cli, message: string): CliError {
  const where = describeAddress(cli.client.address);
  if (/Unexpected server response: 40[13]/.test(message))
    return new CliError(
      EXIT.notPermitted,
      `the daemon at ${where} does not let you run commands: give a token with --token or HOLDFAST_TOKEN`,
    );
  return new CliError(EXIT.unreachable, `lost the daemon at ${where}: ${message}; tasks keep running`);
}

/** The connection ended, and nobody has said why. */
function lostOf(cli: Cli, code: number, reason: string): CliError {
  const where = describeAddress(cli.client.address);
  if (code === 1008 || code === 1011) return new CliError(EXIT.failed, `the daemon refuses: ${reason}`);
  const why = reason === '' ? `connection closed (${code})` : reason;
  return new CliError(
    EXIT.unreachable,
    `lost the daemon at ${where}: ${why}; the session has ended, tasks keep running`,
  );
}
