/** Owns the routes of the files of an alloc, as Nomad has them. How they are reached safely: logs/alloc-dir.ts. */
import { basename, join } from 'node:path';
import { AgentError } from '../../base/errors.js';
import { findBelow, listFound, openFound, refuseSecrets, type Found } from '../../logs/alloc-dir.js';
import { readFileStream, sniffContentType, type FilePiece } from '../../logs/file-stream.js';
import * as answers from '../answers.js';
import { untilAllocEnded } from '../alloc-ended.js';
import { fileToWire } from '../file-view.js';
import { withHeartbeat } from '../heartbeat.js';
import { findAlloc } from '../lookup.js';
import type { Query } from '../query.js';
import type { Call, Route, StreamAnswer } from '../route.js';
import type { Services } from '../services.js';
import type { AllocFileInfo, StreamFrame } from '../wire.js';

/** As Nomad's agents do. */
const HEARTBEAT_MS = 1_000;
const HEARTBEAT = '{}';

export function fileRoutes(services: Services): readonly Route[] {
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/fs/ls/:id',
      summary: 'Lists a directory of an alloc',
      answer: answers.FileList,
      query: ['path'],
      handle: (call) => list(services, call),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/fs/stat/:id',
      summary: 'Says what a file of an alloc is',
      answer: answers.FileInfo,
      query: ['path'],
      handle: (call) => stat(services, call),
    },
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/fs/cat/:id',
      summary: 'Reads a file of an alloc',
      query: ['path'],
      open: (call) => openPlain(services, call, { offsetBytes: 0 }),
    },
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/fs/readat/:id',
      summary: 'Reads a part of a file of an alloc',
      query: ['path', 'offset', 'limit'],
      open: (call) =>
        openPlain(services, call, {
          offsetBytes: required(call.query, 'offset'),
          limitBytes: required(call.query, 'limit'),
        }),
    },
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/fs/stream/:id',
      summary: 'Reads, and with follow goes on reading, a file of an alloc in frames',
      query: ['path', 'offset', 'origin', 'follow', 'plain'],
      open: (call) => openStream(services, call),
    },
  ];
}

async function find({ store, dataDir }: Services, { query, param }: Call): Promise<Found> {
  const { record } = findAlloc(store, param('id'));
  return await findBelow(join(dataDir, 'alloc', record.id), query.text('path') ?? '/');
}

async function list(services: Services, call: Call): Promise<readonly AllocFileInfo[]> {
  await using found = await find(services, call);
  return (await listFound(found)).map(({ name, stats }) => fileToWire(name, stats));
}

async function stat(services: Services, call: Call): Promise<AllocFileInfo> {
  await using found = await find(services, call);
  const name = found.trail.at(-1) ?? basename(call.query.text('path') ?? '');
  if (!found.stats.isFile()) return fileToWire(name === '' ? '/' : name, found.stats);
  refuseSecrets(found);
  await using handle = await openFound(found);
  return fileToWire(name, found.stats, await sniffContentType(handle));
}

function required(query: Query, name: string): number {
  const value = query.count(name);
  if (value === undefined) throw new AgentError('bad_request', `query parameter ${name}: must be given`);
  return value;
}

/** A file that may be read, held open until it is closed. @throws AgentError */
async function openFile(services: Services, call: Call) {
  await using found = await find(services, call);
  refuseSecrets(found);
  const handle = await openFound(found);
  try {
    const contentType = await sniffContentType(handle);
    return { handle, contentType, trail: found.trail.join('/'), path: `/proc/self/fd/${handle.fd}` };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function openPlain(
  services: Services,
  call: Call,
  part: { readonly offsetBytes: number; readonly limitBytes?: number },
): Promise<StreamAnswer> {
  const { handle, path, contentType } = await openFile(services, call);
  const pieces = readFileStream(handle, path, {
    from: { origin: 'start', offsetBytes: part.offsetBytes },
    ...(part.limitBytes === undefined ? {} : { limitBytes: part.limitBytes }),
    follow: false,
    clock: services.clock,
    signal: call.signal,
  });
  return {
    contentType,
    body: plainBytes(pieces),
    close: () => handle.close(),
  };
}

async function openStream(services: Services, call: Call): Promise<StreamAnswer> {
  const { query, signal } = call;
  const origin = query.text('origin') ?? '';
  if (origin !== '' && origin !== 'start' && origin !== 'end') {
    throw new AgentError('bad_request', 'query parameter origin: start or end');
  }
  const { record } = findAlloc(services.store, call.param('id'));
  const offsetBytes = query.count('offset') ?? 0;
  // Nomad's tools follow unless told otherwise.
  const follow = query.text('follow') === undefined || query.flag('follow');
  const plain = query.flag('plain');
  const { handle, path, trail } = await openFile(services, call);
  const pieces = readFileStream(handle, path, {
    from: { origin: origin === 'end' ? 'end' : 'start', offsetBytes },
    follow,
    clock: services.clock,
    signal,
    complete: untilAllocEnded(services.store, record.id, signal),
  });
  const close = (): Promise<void> => handle.close();
  if (plain) return { contentType: 'text/plain; charset=utf-8', body: plainBytes(pieces), close };
  const frames = encodeFrames(pieces, trail);
  return {
    contentType: 'application/json',
    body: follow
      ? withHeartbeat(frames, { beat: HEARTBEAT, everyMs: HEARTBEAT_MS, clock: services.clock })
      : frames,
    close,
  };
}

async function* plainBytes(
  pieces: AsyncGenerator<FilePiece, void, void>,
): AsyncGenerator<Buffer, void, void> {
  for await (const piece of pieces) if (piece.kind === 'data') yield piece.data;
}

/** JSON objects back to back. Offset is the place after the data, as in Nomad's frames. */
async function* encodeFrames(
  pieces: AsyncGenerator<FilePiece, void, void>,
  file: string,
): AsyncGenerator<string, void, void> {
  for await (const piece of pieces) {
    const frame: StreamFrame =
      piece.kind === 'data'
        ? { Offset: piece.offset + piece.data.length, Data: piece.data.toString('base64'), File: file }
        : { File: file, FileEvent: `file ${piece.kind}` };
    yield JSON.stringify(frame);
  }
}
