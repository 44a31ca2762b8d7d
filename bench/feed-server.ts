/**
 * The process that the feed is measured in. `holdfast`: the real store on disk and the real API; tasks' events are
 * committed a few at a time, as many tasks make them. `floor`: a websocket server that sends the same bytes to everybody
 * and knows nothing. Prints where it listens, begins at a line on stdin, and prints how long it took to make them.
 */
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { WebSocketServer } from 'ws';
import { startApi } from '../test/helpers/api-client.js';
import { putAlloc, putJob, putTask } from '../test/helpers/records.js';

const [what = '', dir = '', countText = '0'] = process.argv.slice(2);
const count = Number(countText);
/** Tasks that have something to say at the same moment. */
const AT_ONCE = 50;
/** What an event of a task takes on the wire. */
const FLOOR_BYTES = 800;

if (what === 'holdfast') await serveHoldfast();
else serveFloor();

async function begun(): Promise<void> {
  await new Promise<void>((resolve) =>
    process.stdin.once('data', () => {
      resolve();
    }),
  );
}

async function serveHoldfast(): Promise<void> {
  mkdirSync(dir, { recursive: true });
  const api = await startApi({ dir, storeLimits: { feedRows: count * 2 } });
  const allocs = Array.from({ length: AT_ONCE }, (_, at) => `a${at}`);
  await api.store.commit([putJob(), ...allocs.flatMap((id) => [putAlloc({ id }), putTask({ allocId: id })])]);
  process.stdout.write(`${api.socketPath} ${api.store.index()}\n`);
  await begun();
  const last = api.store.index() + count;
  let seq = 0;
  while (api.store.index() < last) {
    seq += 1;
    await Promise.all(
      allocs.map((allocId) => {
        const event = { seq, atMs: Date.now(), event: { type: 'Driver', message: 'still at it' } } as const;
        return api.store.commit([{ kind: 'add_task_event', allocId, task: 'server', event }]);
      }),
    );
  }
}

function serveFloor(): void {
  const server = createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  const path = join(dir, 'floor.sock');
  server.listen(path, () => process.stdout.write(`${path} 0\n`));
  void begun().then(async () => {
    for (let index = 1; index <= count; index++) {
      const text = `{"Index":${index},"Events":[${JSON.stringify('x'.repeat(FLOOR_BYTES))}]}`;
      for (const socket of sockets.clients) socket.send(text);
      // As often as the store tells.
      if (index % AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  });
}
