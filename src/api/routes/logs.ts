/** Owns the route of task logs: Nomad's frames, or plain bytes. Which bytes there are is the business of src/logs. */
import { join } from 'node:path';
import { AgentError } from '../../base/errors.js';
import { LogDirectory } from '../../logs/directory.js';
import { LOG_STREAMS, parseLogFileName, type LogOrigin, type LogStream } from '../../logs/files.js';
import { readLog, type LogChunk } from '../../logs/follow.js';

import { untilAllocEnded } from '../alloc-ended.js';
import { withHeartbeat } from '../heartbeat.js';
import { chooseTask, findAlloc } from '../lookup.js';
import type { Query } from '../query.js';
import type { Call, Route, StreamAnswer } from '../route.js';
import type { Services } from '../services.js';
import type { StreamFrame } from '../wire.js';

/** As Nomad's agents do. */
const HEARTBEAT_MS = 1_000;
const HEARTBEAT = '{}';
/** Where a task's files are, as Nomad's frames name them. */
const FRAME_DIR = 'alloc/logs';

export function logRoutes(services: Services): readonly Route[] {
  return [
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/fs/logs/:id',
      summary: 'Reads, and with follow goes on reading, what a task has written, across rotated files',
      query: ['task', 'type', 'follow', 'origin', 'offset', 'lines', 'since', 'file', 'plain'],
      open: (call) => openLogs(services, call),
    },
  ];
}

async function openLogs(services: Services, call: Call): Promise<StreamAnswer> {
  const { store, clock, dataDir } = services;
  const { query, signal } = call;
  const { record } = findAlloc(store, call.param('id'));
  const task = chooseTask(store, record, query.text('task') ?? '');
  const stream = chooseStream(query.text('type') ?? '');
  const from = chooseOrigin(query, task, stream);
  const follow = query.flag('follow');
  const plain = query.flag('plain');
  const root = join(dataDir, 'alloc', record.id);
  const logDir = join(root, 'alloc', 'logs');
  // Asked now, because what the stream finds later can only end it.
  await (await LogDirectory.open(logDir, root))[Symbol.asyncDispose]();
  const complete = untilAllocEnded(store, record.id, signal);
  const chunks = readLog({ logDir, root, task, stream }, { from, follow, clock, signal, complete });
  if (plain) return { contentType: 'text/plain; charset=utf-8', body: plainBytes(chunks) };
  const frames = encodeFrames(chunks);
  return {
    contentType: 'application/json',
    body: follow ? withHeartbeat(frames, { beat: HEARTBEAT, everyMs: HEARTBEAT_MS, clock }) : frames,
  };
}

function chooseStream(asked: string): LogStream {
  const stream = LOG_STREAMS.find((name) => name === (asked === '' ? 'stdout' : asked));
  if (stream !== undefined) return stream;
  throw new AgentError('bad_request', `query parameter type: ${LOG_STREAMS.join(' or ')}`);
}

/** Nomad's origin and offset; `lines`, `since` and `file` (with the offset in it) are ours. */
function chooseOrigin(query: Query, task: string, stream: LogStream): LogOrigin {
  const file = query.text('file');
  if (file !== undefined) {
    const fileNumber = parseLogFileName(file, task, stream);
    if (fileNumber === undefined) {
      throw new AgentError('bad_request', `query parameter file: no log of ${task}.${stream}`);
    }
    return { kind: 'position', at: { fileNumber, offsetBytes: query.count('offset') ?? 0 } };
  }
  const lines = query.count('lines');
  if (lines !== undefined) return { kind: 'lines', count: lines };
  const atMs = query.timeMs('since');
  if (atMs !== undefined) return { kind: 'since', atMs };
  const origin = query.text('origin') ?? '';
  if (origin !== '' && origin !== 'start' && origin !== 'end') {
    throw new AgentError('bad_request', 'query parameter origin: start or end');
  }
  return { kind: origin === 'end' ? 'end' : 'start', offsetBytes: query.count('offset') ?? 0 };
}

async function* plainBytes(chunks: AsyncGenerator<LogChunk, void, void>): AsyncGenerator<Buffer, void, void> {
  for await (const { data } of chunks) yield data;
}

/** JSON objects back to back. Offset is the place after the data, as in Nomad's frames. */
async function* encodeFrames(
  chunks: AsyncGenerator<LogChunk, void, void>,
): AsyncGenerator<string, void, void> {
  for await (const { file, offset, data, filesLost } of chunks) {
    const frame: StreamFrame = {
      Offset: offset + data.length,
      Data: data.toString('base64'),
      File: `${FRAME_DIR}/${file}`,
      ...(filesLost === 0 ? {} : { FileEvent: `${filesLost} files lost` }),
    };
    yield JSON.stringify(frame);
  }
}
