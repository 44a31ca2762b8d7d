/**
 * Owns the CLI's HTTP: one request at a time over the unix socket or TCP, answers as JSON or as a stream, and every
 * failure as a CliError that says what to do. Nothing but node:http, because every command starts with it.
 */
import { request, type IncomingMessage } from 'node:http';
import { WARNING_HEADER, type ErrorBody } from '../api/wire.js';
import { errnoOf, ERROR_CODES, type ErrorCode } from '../base/errors.js';
import { describeAddress, type Address } from './address.js';
import { CliError, EXIT, exitCodeOf } from './exit.js';
import { describeTlsFailure, type TlsFiles } from './tls.js';

/** The daemon answers from memory and a local database: if it is silent for so long, it is stuck. */
const ANSWER_MS = 30_000;
/** No answer but a stream is longer; a runaway one must not fill our memory. */
const MOST_ANSWER_BYTES = 256 * 1024 * 1024;

/** Ways in which no connection comes about over a network. */
const UNREACHED: ReadonlyMap<string, string> = new Map([
  ['ENOTFOUND', 'there is no host of this name'],
  ['EAI_AGAIN', 'the name of the host cannot be looked up now'],
  ['EHOSTUNREACH', 'the host cannot be reached'],
  ['ENETUNREACH', 'the network cannot be reached'],
  ['ETIMEDOUT', 'the host does not answer'],
]);

/** How a client shows who it is. */
export interface Credentials {
  readonly token?: string | undefined;
  readonly tls?: TlsFiles;
}

export type Params = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Asked {
  readonly method?: 'GET' | 'PUT' | 'DELETE';
  readonly query?: Params;
  /** Sent as JSON. */
  readonly body?: unknown;
}

/** An answer with the store's index at the time (X-Nomad-Index); 0 when it has none. */
export interface Indexed<T> {
  readonly value: T;
  readonly index: number;
}

/** Speaks to one daemon. Holds no connection between calls. */
export class ApiClient {
  readonly address: Address;
  readonly #token: string | undefined;
  readonly tls: TlsFiles;
  readonly #onWarning: (text: string) => void;
  #warning: string | undefined;

  /** @param onWarning told once of what the daemon warns of */
  constructor(
    address: Address,
    { token, tls = {} }: Credentials,
    onWarning: (text: string) => void = () => undefined,
  ) {
    this.address = address;
    this.#onWarning = onWarning;
    this.#token = token === '' ? undefined : token;
    this.tls = tls;
  }

  /** @throws CliError */
  async get<T>(path: string, query: Params = {}): Promise<T> {
    return (await this.ask<T>(path, { query })).value;
  }

  /** @throws CliError */
  async ask<T>(path: string, asked: Asked = {}): Promise<Indexed<T>> {
    const answer = await this.#send(path, asked, undefined);
    const text = await this.#readAll(answer);
    // The daemon's word, in the shapes of api/wire.ts: this is where it enters.
    const value = this.#parse(text) as T;
    return { value, index: Number(answer.headers['x-nomad-index'] ?? 0) };
  }

  /** The body of an endless answer, as it comes. Aborting ends it without an error. @throws CliError */
  async *stream(path: string, query: Params, signal: AbortSignal): AsyncGenerator<Buffer, void, void> {
    try {
      const answer = await this.#send(path, { query }, signal);
      for await (const data of answer) if (Buffer.isBuffer(data)) yield data;
    } catch (error) {
      if (signal.aborted) return;
      throw error instanceof CliError ? error : this.#unreachable(error);
    }
  }

  /** Headers that every request carries. */
  headers(): Record<string, string> {
    return {
      accept: 'application/json',
      ...(this.#token === undefined ? {} : { 'x-nomad-token': this.#token }),
    };
  }

  async #send(path: string, asked: Asked, signal: AbortSignal | undefined): Promise<IncomingMessage> {
    const body = asked.body === undefined ? undefined : JSON.stringify(asked.body);
    const isTls = this.address.kind === 'tcp' && this.address.tls;
    // Loaded only for whom it is: most talk over the socket, and TLS takes long to load.
    const open = isTls ? (await import('node:https')).request : request;
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = open(
        {
          ...(this.address.kind === 'unix'
            ? { socketPath: this.address.path, host: 'localhost' }
            : { host: this.address.host, port: this.address.port, ...this.tls }),
          agent: false,
          method: asked.method ?? 'GET',
          path: withQuery(path, asked.query ?? {}),
          headers: {
            ...this.headers(),
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          },
          timeout: ANSWER_MS,
          ...(signal === undefined ? {} : { signal }),
        },
        resolve,
      );
      sent.on('timeout', () => {
        sent.destroy(new Error(`no answer within ${ANSWER_MS / 1000} s`));
      });
      sent.on('error', reject);
      sent.end(body);
    }).catch((error: unknown) => {
      throw signal?.aborted === true ? error : this.#unreachable(error);
    });
    // A stream may be silent for long.
    if (signal !== undefined) answer.socket.setTimeout(0);
    this.#heed(answer.headers[WARNING_HEADER]);
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return answer;
    throw this.#refusal(status, await this.#readAll(answer));
  }

  #heed(warning: string | string[] | undefined): void {
    if (typeof warning !== 'string' || warning === this.#warning) return;
    this.#warning = warning;
    this.#onWarning(warning);
  }

  async #readAll(answer: IncomingMessage): Promise<string> {
    const parts: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const part of answer) {
        if (!Buffer.isBuffer(part)) continue;
        bytes += part.length;
        if (bytes > MOST_ANSWER_BYTES)
          throw new CliError(EXIT.failed, 'the answer of the daemon is too long');
        parts.push(part);
      }
    } catch (error) {
      throw error instanceof CliError ? error : this.#unreachable(error);
    }
    return Buffer.concat(parts).toString();
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new CliError(
        EXIT.failed,
        `${describeAddress(this.address)} does not answer in JSON: is it a holdfast daemon?`,
        { cause },
      );
    }
  }

  #refusal(status: number, text: string): CliError {
    const { Code, Message } = readErrorBody(text);
    const why = Message.trim() === '' ? `HTTP status ${status}` : Message.trim();
    if (Code !== undefined) return new CliError(exitCodeOf(Code), why + adviceFor(Code));
    if (status === 401 || status === 403) {
      return new CliError(EXIT.notPermitted, why + adviceFor('not_permitted'));
    }
    return new CliError(status === 404 ? EXIT.notFound : EXIT.failed, why);
  }

  #unreachable(error: unknown): CliError {
    const where = describeAddress(this.address);
    const start = 'start one with "holdfast agent", or name another with --address or HOLDFAST_ADDR';
    const errno = errnoOf(error);
    if (errno === 'EACCES' || errno === 'EPERM') {
      const advice = "run as the daemon's user, or as a member of the socket's group";
      return new CliError(EXIT.notPermitted, `${where} may not be used by you: ${advice}`, { cause: error });
    }
    if (errno === 'ENOENT') {
      return new CliError(EXIT.unreachable, `no daemon at ${where}: there is no such socket; ${start}`);
    }
    if (errno === 'ECONNREFUSED') {
      // A socket without a listener is what a daemon leaves that was killed: somebody may be worried now.
      const comfort = this.address.kind === 'unix' ? ' (a daemon that ends leaves its tasks running)' : '';
      return new CliError(
        EXIT.unreachable,
        `no daemon at ${where}: nobody listens there${comfort}; ${start}`,
      );
    }
    if (errno !== undefined && UNREACHED.has(errno)) {
      const why = UNREACHED.get(errno) ?? errno;
      return new CliError(EXIT.unreachable, `no daemon at ${where}: ${why}; ${start}`, { cause: error });
    }
    const why = error instanceof Error ? error.message : String(error);
    const tls = describeTlsFailure(errno, why);
    if (tls !== undefined) {
      return new CliError(EXIT.notPermitted, `no talk with the daemon at ${where}: ${tls}`, { cause: error });
    }
    return new CliError(
      EXIT.unreachable,
      `lost the daemon at ${where}: ${why}; tasks keep running, try again`,
      {
        cause: error,
      },
    );
  }
}

/** `/path?a=1&b`; undefined and false are left out. */
export function withQuery(path: string, query: Params): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== false) params.append(name, String(value));
  }
  return params.size === 0 ? path : `${path}?${params.toString()}`;
}

function adviceFor(code: ErrorCode): string {
  return code === 'not_permitted' ? '; give a token with --token or HOLDFAST_TOKEN' : '';
}

function readErrorBody(text: string): { Code: ErrorCode | undefined; Message: string } {
  try {
    const { Code, Message } = JSON.parse(text) as Partial<ErrorBody>;
    return { Code: ERROR_CODES.find((code) => code === Code), Message: Message ?? text };
  } catch {
    return { Code: undefined, Message: text };
  }
}
