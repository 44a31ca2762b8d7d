/** Owns the feed over a websocket: the pace of the reader, and that it has nothing to say. What it is told: feed.ts. */
import type { WebSocket } from 'ws';
import { orAborted } from '../base/abort.js';
import { AgentError } from '../base/errors.js';
import type { Feed } from './feed.js';
import type { Call } from './route.js';

/** Readers have nothing to say: what comes in is a mistake, and kept small. */
export const LONGEST_FEED_MESSAGE_BYTES = 4096;
/** Written but not yet taken by the kernel: beyond it we wait for the reader, and events wait in its queue. */
const HIGH_WATER_BYTES = 256 * 1024;

/** Tells one reader until it leaves. @throws AgentError bad_request, too_many */
export async function serveFeed(feed: Feed, { query, signal }: Call, peer: WebSocket): Promise<void> {
  const ended = new AbortController();
  const end = (): void => {
    ended.abort(signal.reason);
  };
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  peer.on('message', () => {
    ended.abort(new AgentError('bad_request', 'the feed takes no messages'));
  });
  for await (const text of feed.open(query, ended.signal)) await sendPaced(peer, text, ended.signal);
  if (ended.signal.reason instanceof AgentError) throw ended.signal.reason;
}

/** Sends; resolves at once while the reader keeps pace, else when what was sent has left us, or at `signal`. */
export async function sendPaced(peer: WebSocket, text: string, signal: AbortSignal): Promise<void> {
  if (peer.bufferedAmount < HIGH_WATER_BYTES) {
    peer.send(text, () => undefined);
    return;
  }
  // The callback also comes, with an error, when the socket closes first.
  const sent = new Promise<void>((resolve) => {
    peer.send(text, () => {
      resolve();
    });
  });
  await orAborted(sent, [signal]);
}
