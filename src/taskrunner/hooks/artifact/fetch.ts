/** Owns the fetching of one file: over HTTP or from this host, bounded in time and size, checked against its checksum. */
import { createHash } from 'node:crypto';
import { constants, createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../../base/clock.js';
import { AgentError } from '../../../base/errors.js';
import type { readChecksum } from '../../../jobspec/artifact-rules.js';
import type { ArtifactLimits } from './limits.js';

export interface FetchRequest {
  readonly source: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly checksum: ReturnType<typeof readChecksum>;
  /** A new file, in a directory of ours. */
  readonly into: string;
  readonly limits: ArtifactLimits;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Fetches a file. What is left at `into` after a failure is the caller's to remove.
 * @throws AgentError hook_failed with what went wrong and where; whatever depends on the other side is recoverable
 */
export async function fetchFile(request: FetchRequest): Promise<void> {
  const { source, checksum } = request;
  const hash = checksum === undefined ? undefined : createHash(checksum.kind);
  const isRemote = /^https?:/i.test(source);
  await (isRemote ? download(request, hash) : copy(request, hash));
  const found = hash?.digest('hex');
  if (checksum === undefined || found === checksum.hex) return;
  throw failed(`its ${checksum.kind} is ${found ?? ''}, wanted ${checksum.hex}`);
}

async function download(request: FetchRequest, hash: Hash): Promise<void> {
  const { limits, clock, signal } = request;
  const idle = new AbortController();
  const silent = failed(`the server sent nothing for ${limits.idleMs / 1000}s`);
  let timer = clock.setTimer(limits.idleMs, () => {
    idle.abort(silent);
  });
  const relay = (): void => {
    idle.abort(signal.reason);
  };
  signal.addEventListener('abort', relay);
  try {
    signal.throwIfAborted();
    const response = await follow(request, idle.signal);
    const body = Readable.from(response.body ?? []);
    await save(body, request, hash, idle.signal, () => {
      timer[Symbol.dispose]();
      timer = clock.setTimer(limits.idleMs, () => {
        idle.abort(silent);
      });
    });
  } catch (error) {
    if (idle.signal.aborted) throw idle.signal.reason;
    throw error instanceof AgentError ? error : failed(describeFetch(error));
  } finally {
    timer[Symbol.dispose]();
    signal.removeEventListener('abort', relay);
  }
}

type Hash = ReturnType<typeof createHash> | undefined;

/** Follows redirects to http and https only; headers of the job go to no other host than the one they were meant for. */
async function follow(request: FetchRequest, signal: AbortSignal): Promise<Response> {
  let url = new URL(request.source);
  const home = url.host;
  for (let hops = 0; hops <= request.limits.maxRedirects; hops++) {
    const headers = new Headers(url.host === home ? request.headers : {});
    const login = loginOf(url);
    if (login !== undefined && !headers.has('authorization')) headers.set('authorization', login);
    const response = await fetch(stripped(url), { headers, redirect: 'manual', signal });
    const location = response.headers.get('location');
    if (response.status < 300 || response.status > 399 || location === null) {
      if (response.ok) return response;
      await response.body?.cancel();
      throw failed(`the server answers ${response.status} ${response.statusText}`.trimEnd());
    }
    await response.body?.cancel();
    url = new URL(location, url);
    if (!/^https?:$/.test(url.protocol))
      throw failed(`it is redirected to ${url.protocol}, which is not followed`);
  }
  throw failed(`it is redirected more than ${request.limits.maxRedirects} times`);
}

function loginOf({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  const text = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(text).toString('base64')}`;
}

/** fetch takes no URL with a login. */
function stripped(url: URL): URL {
  const bare = new URL(url);
  bare.username = '';
  bare.password = '';
  return bare;
}

async function copy(request: FetchRequest, hash: Hash): Promise<void> {
  const path = request.source.startsWith('/') ? request.source : fileURLToPath(request.source);
  let handle;
  try {
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw failed(`cannot open ${path}`, error);
  }
  await using file = handle;
  if (!(await file.stat()).isFile()) throw failed(`${path} is not a regular file`);
  await save(file.createReadStream({ autoClose: false }), request, hash, request.signal, () => undefined);
}

async function save(
  from: Readable,
  { into, limits }: FetchRequest,
  hash: Hash,
  signal: AbortSignal,
  onPiece: () => void,
): Promise<void> {
  let bytes = 0;
  const count = new Transform({
    transform: (piece: Buffer, _, done) => {
      onPiece();
      bytes += piece.length;
      hash?.update(piece);
      if (bytes > limits.maxBytes) done(failed(`it is larger than ${limits.maxBytes} bytes`));
      else done(null, piece);
    },
  });
  await pipeline(from, count, createWriteStream(into, { flags: 'wx', mode: 0o600, flush: true }), { signal });
}

function failed(message: string, cause?: unknown): AgentError {
  const why = cause === undefined ? message : `${message}${describeCause(cause)}`;
  return new AgentError('hook_failed', why, { recoverable: true, cause });
}

function describeCause(error: unknown): string {
  return error instanceof Error ? `: ${error.message}` : '';
}

/** `fetch failed` says nothing: what it failed of stands in its cause. */
function describeFetch(error: unknown): string {
  if (!(error instanceof Error)) return 'the download broke off';
  const cause = error.cause instanceof Error && error.cause.message !== '' ? error.cause : error;
  return cause.message === 'terminated' ? 'the connection broke off' : cause.message;
}
