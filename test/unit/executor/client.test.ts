/** An ExecutorClient against peers that answer nothing, nonsense, half a frame, or for somebody else. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { systemClock } from '../../../src/base/clock.js';
import { ExecutorClient } from '../../../src/executor/client.js';
import {
  encodeFrame,
  FRAME,
  FRAME_TAG,
  FrameDecoder,
  REPLY_BIT,
  type Frame,
} from '../../../src/executor/protocol.js';
import { intField, stringField } from '../../../src/executor/tlv.js';
import { until } from '../../helpers/until.js';

const HELLO = {
  type: FRAME.hello | REPLY_BIT,
  fields: [
    stringField(FRAME_TAG.runId, 'r1'),
    intField(FRAME_TAG.executorPid, 4711),
    intField(FRAME_TAG.executorStart, 5),
  ],
};

describe('the client of an executor', () => {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-client-'));
  let answer: (frame: Frame, socket: Socket) => void = () => undefined;
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    const decoder = new FrameDecoder();
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      for (const frame of decoder.push(chunk)) answer(frame, socket);
    });
  });
  const reply = (socket: Socket, frame: Frame, message: { type: number; fields: Frame['fields'] }): void => {
    socket.write(encodeFrame({ ...message, request: frame.request }));
  };
  const connect = () =>
    ExecutorClient.connect({ clock: systemClock, runDir: dir, runId: 'r1', replyWithinMs: 200 });
  /** Greets properly, then does as told. */
  const greeted = (then: (frame: Frame, socket: Socket) => void): Promise<ExecutorClient> => {
    answer = (frame, socket) => {
      if (frame.type === FRAME.hello) reply(socket, frame, HELLO);
      else then(frame, socket);
    };
    return connect();
  };
  const unreachable = { code: 'executor_unreachable', recoverable: true };

  before(() => new Promise<void>((resolve) => server.listen(join(dir, 'sock'), resolve)));
  after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    rmSync(dir, { recursive: true, force: true });
  });

  it('knows whom it speaks to', async () => {
    using client = await greeted(() => undefined);
    assert.deepEqual(client.executor, { pid: 4711, startTicks: 5 });
  });

  it('gives up on one that says nothing, closes, or says nonsense', async () => {
    const answers: (typeof answer)[] = [
      () => undefined,
      (_frame, socket) => socket.destroy(),
      (_frame, socket) => socket.write(Buffer.from([255, 255, 255, 255, 0])),
      (_frame, socket) => socket.end(Buffer.from([20, 0, 0, 0, 1, 128])),
      (frame, socket) => {
        reply(socket, frame, { type: FRAME.stop | REPLY_BIT, fields: [] });
      },
    ];
    for (answer of answers) await assert.rejects(connect(), unreachable);
  });

  it('does not speak to the executor of another run', async () => {
    answer = (frame, socket) => {
      reply(socket, frame, {
        ...HELLO,
        fields: [stringField(FRAME_TAG.runId, 'r2'), ...HELLO.fields.slice(1)],
      });
    };
    await assert.rejects(connect(), { code: 'executor_unreachable' });
  });

  it('waits for ever, answers in between, and says when the connection is lost', async () => {
    let waiting: [Frame, Socket] | undefined;
    using client = await greeted((frame, socket) => {
      if (frame.type === FRAME.wait) waiting = [frame, socket];
      else if (frame.type === FRAME.signal)
        reply(socket, frame, {
          type: FRAME.error | REPLY_BIT,
          fields: [intField(FRAME_TAG.errno, 3), stringField(FRAME_TAG.text, 'it has ended')],
        });
      else reply(socket, frame, { type: frame.type | REPLY_BIT, fields: [] });
    });
    const ended = client.wait();
    await client.stop({ signal: 15, graceMs: 10 });
    await assert.rejects(client.signal(10, 'leader'), { code: 'not_running' });
    assert.ok(waiting !== undefined);
    reply(waiting[1], waiting[0], { type: FRAME.wait | REPLY_BIT, fields: [] });
    await ended;
    const second = client.wait();
    await client.stop({ signal: 15, graceMs: 10 });
    waiting[1].destroy();
    await assert.rejects(second, unreachable);
    await assert.rejects(client.status(), unreachable);
    client.close();
  });

  it('leaves no descriptor behind, also with a path longer than an address', async () => {
    const deep = join(dir, 'x'.repeat(120));
    await assert.rejects(
      ExecutorClient.connect({ clock: systemClock, runDir: deep, runId: 'r1' }),
      unreachable,
    );
    const descriptors = (): number => readdirSync('/proc/self/fd').length;
    const before = descriptors();
    for (let times = 0; times < 5; times++) {
      const client = await greeted(() => undefined);
      client.close();
    }
    // The other ends close a moment later.
    await until(`no more than ${before} descriptors`, () => descriptors() <= before, {
      lastSeen: descriptors,
    });
  });
});
