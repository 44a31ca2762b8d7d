/** Owns the feed over a websocket: the pace of the reader, and that it has nothing to say. What it is told: feed.ts. */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { orAborted } from '../base/abort.js';
import { AgentError } from '../base/errors.js';
import type { Feed } from './feed.js';
import { framesOf } from './feed-text.js';
import type { Call } from './route.js';

/** Readers have nothing to say: what comes in is a mistake, and kept small. */
export const LONGEST_FEED_MESSAGE_BYTES = 4096;
/** Written but not yet taken by the kernel: beyond it we wait for the reader, and events wait in its queue. */
const HIGH_WATER_BYTES = 256 * 1024;

export interface Reader {
  readonly peer: WebSocket;
  readonly socket: Duplex;
}

/** Tells one reader until it leaves. @throws AgentError bad_request, too_many */
export async function serveFeed(feed: Feed, { query, signal }: Call, reader: Reader): Promise<void> {
  const ended = new AbortController();
  const end = (): void => {
    ended.abort(signal.reason);
  };
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  reader.peer.on('message', () => {
    ended.abort(new AgentError('bad_request', 'the feed takes no messages'));
  });
  for await (const batch of feed.open(query, ended.signal)) {
    await write(reader, framesOf(batch), ended.signal);
  }
  if (ended.signal.reason instanceof AgentError) throw ended.signal.reason;
}

/**
 * Writes whole frames; resolves at once while the reader keeps pace, else when what was written has left us, or at
 * `signal`. Past the websocket library, which would make each reader's frames anew: it writes whole frames too, and one
 * after the other, so the two never mix within one.
 */
async function write({ peer, socket }: Reader, frames: Buffer, signal: AbortSignal): Promise<void> {
  if (peer.readyState !== peer.OPEN) return;
  if (socket.writableLength < HIGH_WATER_BYTES) {
    socket.write(frames);
    return;
  }
  // The callback also comes, with an error, when the socket closes first.
  const sent = new Promise<void>((resolve) => {
    socket.write(frames, () => {
      resolve();
    });
  });
  await orAborted(sent, [signal]);
}
