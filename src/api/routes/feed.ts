/** Owns the routes of the feed: lines over HTTP; the websocket is served by feed-socket.ts. */
import type { Feed } from '../feed.js';
import { FEED_PATH } from '../feed-socket.js';
import type { Route } from '../route.js';

const QUERY = ['topic', 'index', 'snapshot'];

export function feedRoutes(feed: Feed): readonly Route[] {
  return [
    {
      kind: 'socket',
      methods: ['GET'],
      path: FEED_PATH,
      summary: 'The feed as a websocket: one JSON object a message',
      query: QUERY,
    },
    {
      kind: 'stream',
      methods: ['GET'],
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

async function* toLines(messages: AsyncGenerator<string, void, void>): AsyncGenerator<string, void, void> {
  for await (const message of messages) yield `${message}\n`;
}
