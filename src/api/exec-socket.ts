/**
 * Owns a session over a websocket: Nomad's messages both ways, the pace of both ends, and the one result. What a session
 * is: src/executor/session.ts.
 */
import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import { AgentError, describeError } from '../base/errors.js';
import type { Clock } from '../base/clock.js';
import { sessionFailure, shellCodeOf } from '../drivers/sessions.js';
import type { Session, SessionEnd, SessionStream, TerminalSize } from '../executor/session.js';
import { sendPaced } from './sockets.js';
import { chooseTask, findAlloc } from './lookup.js';
import type { Query } from './query.js';
import type { SocketCall } from './route.js';
import type { Services } from './services.js';
import type { ExecOutput } from './wire/exec.js';

/** A paste of a megabyte in one message; callers send what they read, which is less. */
export const LONGEST_EXEC_MESSAGE_BYTES = 2 * 1024 * 1024;
/** Sessions of callers at once, over all tasks: each is a process or two. */
const MOST_SESSIONS = 100;
const HEARTBEAT_MS = 10_000;
/** Input that the command has not taken: beyond it the caller is not read on. */
const MOST_PENDING_BYTES = 64 * 1024;
const MOST_ARGUMENTS = 1000;
const MOST_COMMAND_BYTES = 100_000;
const LARGEST_SIDE = 10_000;
const DEFAULT_SIZE: TerminalSize = { columns: 80, rows: 24 };

const side = z.int().min(1).max(LARGEST_SIDE);
const Input = z.looseObject({
  stdin: z.looseObject({ data: z.base64().nullish(), close: z.boolean().nullish() }).nullish(),
  tty_size: z.looseObject({ height: side, width: side }).nullish(),
});
const Command = z
  .array(z.string().refine((text) => !text.includes('\0'), 'no NUL byte'))
  .min(1)
  .max(MOST_ARGUMENTS);

let open = 0;

/** Serves one session until it is over or the caller has gone. @throws AgentError */
export async function serveExec(services: Services, call: SocketCall, peer: WebSocket): Promise<void> {
  try {
    if (open >= MOST_SESSIONS) {
      throw new AgentError('too_many', `${open} sessions are open already: try again later`);
    }
    open += 1;
    try {
      await serveOne(services, call, peer);
    } finally {
      open -= 1;
    }
  } catch (error) {
    if (error instanceof AgentError && !call.signal.aborted) {
      await send(peer, { error: { Code: error.code, Message: error.message } }, call.signal);
    }
    throw error;
  }
}

async function serveOne(services: Services, call: SocketCall, peer: WebSocket): Promise<void> {
  const { store, operations, logger, clock } = services;
  const { query, signal } = call;
  // From the first moment: what comes before the session stands is not lost.
  const input = new InputQueue(peer);
  const { record } = findAlloc(store, call.param('id'));
  const task = chooseTask(store, record, query.text('task') ?? '');
  const argv = parseCommand(query.text('command') ?? '');
  const isTerminal = query.flag('tty');
  const about = { alloc_id: record.id, task, command: argv, tty: isTerminal, by: call.caller };
  const session = await operations.openSession(
    record.id,
    task,
    {
      argv,
      terminal: isTerminal ? readSize(query) : undefined,
      onOutput: (stream, data) => send(peer, output(stream, { data: data.toString('base64') }), signal),
    },
    call.caller,
  );
  logger.info(about, 'a session has begun');
  const hangUp = (): void => {
    session.end();
  };
  signal.addEventListener('abort', hangUp, { once: true });
  if (signal.aborted) hangUp();
  input.drainInto(session, hangUp);
  const beat = new Heartbeat(clock, () => {
    void send(peer, {}, signal);
  });
  const end = await session.ended;
  beat[Symbol.dispose]();
  signal.removeEventListener('abort', hangUp);
  logger.info({ ...about, end }, 'a session has ended');
  if (signal.aborted) return;
  if (input.fault !== undefined) throw input.fault;
  await sendEnd(peer, { end, argv, isTerminal }, signal);
}

async function sendEnd(
  peer: WebSocket,
  session: { readonly end: SessionEnd; readonly argv: readonly string[]; readonly isTerminal: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { end, argv, isTerminal } = session;
  const result = resultOf(end);
  if (result === undefined) {
    if (end.kind === 'failed' || end.kind === 'lost') throw sessionFailure(end, argv);
    throw new AgentError('not_running', 'the task has ended, and the session with it');
  }
  if (end.kind === 'failed') {
    const text = `${sessionFailure(end, argv).message}\n`;
    const data = Buffer.from(text).toString('base64');
    await send(peer, output(isTerminal ? 'stdout' : 'stderr', { data }), signal);
  }
  await send(peer, { stdout: { close: true } }, signal);
  if (!isTerminal) await send(peer, { stderr: { close: true } }, signal);
  await send(peer, { exited: true, result }, signal);
}

/** Undefined = the command has no result. */
function resultOf(end: SessionEnd): ExecOutput['result'] {
  switch (end.kind) {
    case 'exited':
      return { exit_code: end.code };
    case 'signaled':
      return end.taskEnded ? undefined : { exit_code: 128 + end.signal, signal: end.signal };
    case 'failed': {
      const code = shellCodeOf(end);
      return code === undefined ? undefined : { exit_code: code };
    }
    case 'lost':
      return undefined;
  }
}

/** @throws AgentError bad_request */
function parseCommand(text: string): readonly string[] {
  const wanted = 'query parameter command: a JSON list of strings, as ["sh","-c","ls"]';
  if (text.length > MOST_COMMAND_BYTES) throw new AgentError('bad_request', 'the command is too long');
  try {
    const parsed = Command.safeParse(JSON.parse(text));
    if (parsed.success && parsed.data[0] !== '') return parsed.data;
  } catch (cause) {
    throw new AgentError('bad_request', wanted, { cause });
  }
  throw new AgentError('bad_request', wanted);
}

/** The size to begin with; Nomad's tools tell it afterwards. */
function readSize(query: Query): TerminalSize {
  const columns = side.safeParse(query.count('width')).data ?? DEFAULT_SIZE.columns;
  return { columns, rows: side.safeParse(query.count('height')).data ?? DEFAULT_SIZE.rows };
}

function output(stream: SessionStream, piece: { readonly data: string }): ExecOutput {
  return stream === 'stdout' ? { stdout: piece } : { stderr: piece };
}

async function send(peer: WebSocket, message: ExecOutput, signal: AbortSignal): Promise<void> {
  await sendPaced(peer, JSON.stringify(message), signal);
}

/** What the caller has sent and the command has not taken; holds the caller up when that is too much. */
class InputQueue {
  readonly #peer: WebSocket;
  readonly #waiting: RawData[] = [];
  #session: Session | undefined;
  #onFault: () => void = () => undefined;
  #pendingBytes = 0;
  #isWorking = false;
  fault: AgentError | undefined;

  constructor(peer: WebSocket) {
    this.#peer = peer;
    peer.on('message', (data) => {
      this.#waiting.push(data);
      this.#pendingBytes += sizeOf(data);
      if (this.#pendingBytes > MOST_PENDING_BYTES) peer.pause();
      void this.#work();
    });
  }

  drainInto(session: Session, onFault: () => void): void {
    this.#session = session;
    this.#onFault = onFault;
    void this.#work();
  }

  async #work(): Promise<void> {
    const session = this.#session;
    if (session === undefined || this.#isWorking) return;
    this.#isWorking = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (this.fault === undefined) await this.#take(session, next);
      this.#pendingBytes -= sizeOf(next);
      if (this.#pendingBytes <= MOST_PENDING_BYTES && this.#peer.isPaused) this.#peer.resume();
    }
    this.#isWorking = false;
  }

  async #take(session: Session, message: RawData): Promise<void> {
    try {
      const { stdin, tty_size: size } = Input.parse(JSON.parse(textOf(message)));
      if (size !== null && size !== undefined) session.resize({ columns: size.width, rows: size.height });
      const data = stdin?.data ?? '';
      if (data !== '') await session.write(Buffer.from(data, 'base64'));
      if (stdin?.close === true) session.closeInput();
    } catch (cause) {
      const why = cause instanceof z.ZodError ? z.prettifyError(cause) : describeError(cause);
      this.fault = new AgentError('bad_request', `a message of the session: ${why}`, { cause });
      this.#onFault();
    }
  }
}

function sizeOf(data: RawData): number {
  return Array.isArray(data) ? data.reduce((sum, { length }) => sum + length, 0) : data.byteLength;
}

function textOf(data: RawData): string {
  if (Array.isArray(data)) return Buffer.concat(data).toString('utf8');
  return Buffer.from(data as Uint8Array).toString('utf8');
}

/** A sign of life, whatever else is said. */
class Heartbeat implements Disposable {
  readonly #clock: Clock;
  #timer: Disposable;

  constructor(clock: Clock, beat: () => void) {
    this.#clock = clock;
    this.#timer = this.#arm(beat);
  }

  #arm(beat: () => void): Disposable {
    return this.#clock.setTimer(HEARTBEAT_MS, () => {
      beat();
      this.#timer = this.#arm(beat);
    });
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }
}
