/**
 * Owns one connection to a living executor: requests, replies, and the open WAIT. Asks and reports only; what a lost
 * connection means is recover.ts's to say.
 */
import { open } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { getSystemErrorName } from 'node:util';
import type { Clock, Timer } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { ProcessRef } from '../base/host.js';
import {
  parseExitRecord,
  parseStatus,
  type ExecutorStatus,
  type ExitRecord,
  type Read,
} from './exit-record.js';
import { encodeFrame, FRAME, FRAME_TAG, FrameDecoder, REPLY_BIT, type Frame } from './protocol.js';
import { intField, readInt, readString, stringField, type Field } from './tlv.js';

/** How long an executor may take to answer; it does nothing that takes long, so a slower one is stuck. */
export const REPLY_WITHIN_MS = 2_000;
/** sun_path holds 108 bytes; a longer path is reached through its directory. */
const LONGEST_SOCKET_PATH = 100;

interface Pending {
  readonly settle: (reply: Frame) => void;
  readonly fail: (error: AgentError) => void;
  readonly timer: Timer | undefined;
}

/** A greeted connection. Close it; an executor that dies closes it for you. */
export class ExecutorClient implements Disposable {
  readonly #clock: Clock;
  readonly #socket: Socket;
  readonly #decoder = new FrameDecoder();
  readonly #pending = new Map<number, Pending>();
  #executor: ProcessRef = { pid: 0, startTicks: 0 };
  #nextRequest = 1;
  #ended: AgentError | undefined;

  /**
   * Connects and makes sure that this is the executor of that run.
   * @param alsoAsk may ask more, which then goes along with the greeting
   * @throws AgentError executor_unreachable (recoverable)
   */
  static async connect(
    options: {
      readonly clock: Clock;
      readonly runDir: string;
      readonly runId: string;
      readonly replyWithinMs?: number;
    },
    alsoAsk: (client: ExecutorClient) => void = () => undefined,
  ): Promise<ExecutorClient> {
    const client = await openSocket(options.runDir, (socket) => new ExecutorClient(options.clock, socket));
    try {
      client.#socket.cork();
      const greeting = client.#ask(
        FRAME.hello,
        [stringField(FRAME_TAG.runId, options.runId)],
        options.replyWithinMs ?? REPLY_WITHIN_MS,
      );
      alsoAsk(client);
      client.#socket.uncork();
      const hello = await greeting;
      if (readString(hello, FRAME_TAG.runId) !== options.runId)
        throw new AgentError('executor_unreachable', 'the executor on this socket runs something else');
      client.#executor = {
        pid: readInt(hello, FRAME_TAG.executorPid),
        startTicks: readInt(hello, FRAME_TAG.executorStart),
      };
      return client;
    } catch (error) {
      client.close();
      throw error;
    }
  }

  /**
   * Connects, and asks for the status with the same write: one question and one answer for each task that is found again.
   * @throws AgentError executor_unreachable (recoverable)
   */
  static async connectAndAsk(
    options: Parameters<typeof ExecutorClient.connect>[0],
  ): Promise<{ readonly client: ExecutorClient; readonly status: Read<ExecutorStatus> | undefined }> {
    let asked: Promise<Read<ExecutorStatus> | undefined> = Promise.resolve(undefined);
    const client = await ExecutorClient.connect(options, (greeted) => {
      // It may go away now: what that means is seen when it is followed.
      asked = greeted.status().catch(() => undefined);
    });
    return { client, status: await asked };
  }

  private constructor(clock: Clock, socket: Socket) {
    this.#clock = clock;
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#onData(chunk);
    });
    socket.on('error', (error) => {
      this.#end(unreachable(describeError(error)));
    });
    socket.on('close', () => {
      this.#end(unreachable('the executor closed the connection'));
    });
  }

  /** The process that answered. */
  get executor(): ProcessRef {
    return this.#executor;
  }

  /** @throws AgentError executor_unreachable */
  async status(): Promise<Read<ExecutorStatus>> {
    return parseStatus(readString(await this.#ask(FRAME.status, []), FRAME_TAG.statusText));
  }

  /** Opens the gate. Again is harmless. */
  async go(): Promise<void> {
    await this.#ask(FRAME.go, []);
  }

  /** @throws AgentError not_running when the workload has ended; executor_unreachable */
  async signal(signal: number, target: 'leader' | 'tree'): Promise<void> {
    await this.#ask(FRAME.signal, [
      intField(FRAME_TAG.signal, signal),
      intField(FRAME_TAG.target, target === 'leader' ? 0 : 1),
    ]);
  }

  /** Hands the stop, its deadline included, to the executor. Resolves when it is accepted. */
  async stop(how: { readonly signal: number; readonly graceMs: number }): Promise<void> {
    await this.#ask(FRAME.stop, [
      intField(FRAME_TAG.signal, how.signal),
      intField(FRAME_TAG.graceMs, Math.max(0, Math.round(how.graceMs))),
    ]);
  }

  /**
   * Resolves with the record of the end as soon as that is known: it may not be durable yet. Whoever asks makes it durable
   * before anything follows from it. @throws AgentError executor_unreachable; executor_failed by an executor of a release
   * that does not know the question
   */
  async end(): Promise<Read<ExitRecord>> {
    const reply = await this.#ask(FRAME.end, [], 'for ever');
    return parseExitRecord(Buffer.from(readString(reply, FRAME_TAG.record)));
  }

  /** Resolves once the exit record is durable. @throws AgentError executor_unreachable when the connection ends first */
  async wait(): Promise<void> {
    await this.#ask(FRAME.wait, [], 'for ever');
  }

  /** Ends the connection; whatever is still asked is rejected. Twice is allowed. */
  close(): void {
    this.#end(unreachable('the connection was closed'));
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #ask(
    type: number,
    fields: readonly Field[],
    withinMs: number | 'for ever' = REPLY_WITHIN_MS,
  ): Promise<readonly Field[]> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) {
        reject(this.#ended);
        return;
      }
      const request = this.#nextRequest;
      this.#nextRequest = (this.#nextRequest % 0xffff) + 1;
      const finish = (act: () => void): void => {
        timer?.[Symbol.dispose]();
        this.#pending.delete(request);
        act();
      };
      const fail = (error: AgentError): void => {
        finish(() => {
          reject(error);
        });
      };
      const timer =
        withinMs === 'for ever'
          ? undefined
          : this.#clock.setTimer(withinMs, () => {
              fail(unreachable(`the executor did not answer within ${withinMs} ms`));
            });
      this.#pending.set(request, {
        timer,
        fail,
        settle: (reply) => {
          finish(() => {
            if (reply.type === (type | REPLY_BIT)) resolve(reply.fields);
            else reject(errorOf(reply));
          });
        },
      });
      this.#socket.write(encodeFrame({ type, request, fields }));
    });
  }

  #onData(chunk: Buffer): void {
    try {
      for (const frame of this.#decoder.push(chunk)) this.#pending.get(frame.request)?.settle(frame);
    } catch (cause) {
      this.#end(unreachable(describeError(cause)));
    }
  }

  #end(why: AgentError): void {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    this.#socket.destroy();
    for (const pending of [...this.#pending.values()]) pending.fail(why);
  }
}

/** @param take is called as soon as there is a connection: an end that comes right after it must find its listener */
async function openSocket<T>(runDir: string, take: (socket: Socket) => T): Promise<T> {
  const path = join(runDir, 'sock');
  try {
    if (Buffer.byteLength(path) <= LONGEST_SOCKET_PATH) return await connected(path, take);
    await using directory = await open(runDir, 'r');
    return await connected(`/proc/self/fd/${directory.fd}/sock`, take);
  } catch (cause) {
    throw unreachable(describeError(cause), cause);
  }
}

function connected<T>(path: string, take: (socket: Socket) => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(take(socket));
    });
  });
}

/** What an ERROR reply, or a reply of a wrong type, means. */
function errorOf(reply: Frame): AgentError {
  if (reply.type !== (FRAME.error | REPLY_BIT))
    return unreachable(`the executor answered with a frame of type ${reply.type}`);
  try {
    const name = getSystemErrorName(-readInt(reply.fields, FRAME_TAG.errno));
    const text = readString(reply.fields, FRAME_TAG.text);
    if (name === 'ESRCH') return new AgentError('not_running', `the task has ended: ${text}`);
    return new AgentError('executor_failed', `the executor refused: ${text} (${name})`);
  } catch (cause) {
    return unreachable(`the executor refused, and how is not readable: ${describeError(cause)}`);
  }
}

function unreachable(why: string, cause?: unknown): AgentError {
  return new AgentError('executor_unreachable', `cannot speak to the executor: ${why}`, {
    recoverable: true,
    ...(cause === undefined ? {} : { cause }),
  });
}
