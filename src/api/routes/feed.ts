/** Owns the routes of the feed: as a websocket, and as lines over HTTP. */
import type { Feed } from '../feed.js';
import { LONGEST_FEED_MESSAGE_BYTES, serveFeed } from '../feed-socket.js';
import { linesOf, type FeedBatch } from '../feed-text.js';
import type { Route } from '../route.js';

const QUERY = ['topic', 'index', 'snapshot'];

export function feedRoutes(feed: Feed): readonly Route[] {
  return [
    {
      kind: 'socket',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/feed',
      summary: 'The feed as a websocket: one JSON object a message',
      query: QUERY,
      longestMessageBytes: LONGEST_FEED_MESSAGE_BYTES,
      serve: (call, peer, socket) => serveFeed(feed, call, { peer, socket }),
    },
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/event/stream',
      summary: 'The feed as lines: one JSON object each',
      query: QUERY,
      open: ({ query, signal }) => ({
        contentType: 'application/json',
        body: toLines(feed.open(query, signal)),
      }),
    },
  ];
}

async function* toLines(batches: AsyncGenerator<FeedBatch, void, void>): AsyncGenerator<Buffer, void, void> {
  for await (const batch of batches) yield linesOf(batch);
}
