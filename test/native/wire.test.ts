/** The socket: several clients, and what malformed bytes cannot do. */
import assert from 'node:assert/strict';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import { isAlive } from '../../src/base/host.js';
import { encodeFrame, FRAME, FRAME_TAG, PROTOCOL_VERSION, REPLY_BIT } from '../../src/executor/protocol.js';
import { intField, readInt, readString, stringField } from '../../src/executor/tlv.js';
import { until } from '../helpers/until.js';
import { Client, errnoOfReply, Run } from './harness.js';
import { Held } from './hold.js';

const MAX_CLIENTS = 8;
const EBUSY = 16;
const EOPNOTSUPP = 95;

describe('socket', () => {
  it('says hello to its own agent and to no other', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const client = await run.client();
    const hello = await client.hello(run.runId);
    assert.ok(hello !== undefined);
    assert.equal(readString(hello.fields, FRAME_TAG.runId), run.runId);
    assert.equal(readInt(hello.fields, FRAME_TAG.protocol), PROTOCOL_VERSION);
    assert.equal(readInt(hello.fields, FRAME_TAG.executorPid), run.executor.pid);
    assert.equal(readInt(hello.fields, FRAME_TAG.executorStart), run.executor.startTicks);
    const other = await run.client();
    assert.equal((await other.hello('another-run'))?.type, 0xffff);
    await until('the connection is closed', () => other.closed);
    assert.equal((await client.hello(run.runId))?.type, FRAME.hello | REPLY_BIT);
  });

  it('G1: answers all WAITs, once the record is there', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const clients = [await run.client(), await run.client()];
    const waits = clients.map((client) => client.send(FRAME.wait));
    const [first] = clients;
    assert.ok(first !== undefined);
    assert.equal(errnoOfReply(await first.ask(FRAME.wait)), EBUSY);
    await run.stop(15, 1000);
    for (const [i, client] of clients.entries()) {
      assert.equal((await client.reply(waits[i] ?? 0))?.type, FRAME.wait | REPLY_BIT);
      assert.ok(readFileSync(join(run.dir, 'exit')).length > 0);
    }
  });

  it('serves eight, and the ninth when one has left', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const clients: Client[] = [];
    for (let i = 0; i < MAX_CLIENTS; i++) {
      const client = await run.client();
      await client.ask(FRAME.status);
      clients.push(client);
    }
    const ninth = await run.client();
    assert.equal(await ninth.reply(ninth.send(FRAME.status)), undefined);
    clients[3]?.close();
    await until('a place is free', async () => {
      const client = await run.client();
      return (await client.reply(client.send(FRAME.status))) !== undefined;
    });
  });

  it('G14: ignores fields it does not know, and says so of requests', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const client = await run.client();
    const unknown = [stringField(999, 'x'), intField(1000, 1)];
    assert.equal((await client.ask(FRAME.status, unknown)).type, FRAME.status | REPLY_BIT);
    assert.equal(errnoOfReply(await client.ask(77)), EOPNOTSUPP);
  });

  it('takes frames in pieces and several at once', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const client = await run.client();
    const frames = [7, 8, 9].map((request) => encodeFrame({ type: FRAME.status, request, fields: [] }));
    const filler = encodeFrame({
      type: FRAME.status,
      request: 10,
      fields: [stringField(99, 'x'.repeat(65_000))],
    });
    const bytes = Buffer.concat([...frames, filler]);
    for (let at = 0; at < 30; at++) {
      client.socket.write(bytes.subarray(at, at + 1));
      await new Promise((resolve) => setImmediate(resolve));
    }
    client.socket.write(bytes.subarray(30));
    for (const request of [7, 8, 9, 10]) assert.ok((await client.reply(request)) !== undefined);
  });

  it('malformed bytes cost their sender the connection and disturb nobody', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const witness = await run.client();
    const field = (tag: number, length: number): number[] => [tag, 0, 0, 0, length & 0xff, length >> 8, 0, 0];
    const malformed = [
      Buffer.from([3, 0, 0, 0, 1, 1, 1]),
      Buffer.from([1, 0, 1, 0]),
      Buffer.from([255, 255, 255, 255]),
      Buffer.from([8, 0, 0, 0, 4, 0, 1, 0, 1, 2, 3, 4]),
      Buffer.from([12, 0, 0, 0, 4, 0, 1, 0, ...field(7, 9)]),
      Buffer.from([13, 0, 0, 0, 4, 0, 1, 0, ...field(7, 1), 9]),
      encodeFrame({
        type: FRAME.signal,
        request: 1,
        fields: [intField(FRAME_TAG.signal, 9), intField(8, -1)],
      }),
    ];
    for (const bytes of malformed) {
      const client = await run.client();
      client.socket.write(bytes);
      await until('it is disconnected', () => client.closed, { everyMs: 2 });
    }
    assert.equal((await witness.statusText())['state'], 'running');
  });

  it('random bytes do not disturb it', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const type = fc.constantFrom(0, 1, 2, 6, 7, 8, 0x7fff, 0xffff);
    const body = fc.uint8Array({ maxLength: 300 });
    const framed = fc.tuple(type, body).map(([kind, bytes]) => {
      const head = Buffer.alloc(8);
      head.writeUInt32LE(bytes.length + 4, 0);
      head.writeUInt16LE(kind, 4);
      return Buffer.concat([head, bytes]);
    });
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 2000 }), framed), async (bytes) => {
        const client = await run.client();
        client.socket.end(bytes);
        await until('it is disconnected', () => client.closed, { everyMs: 1 });
      }),
      { numRuns: 150 },
    );
    assert.ok(isAlive(run.executor) && isAlive(run.workload));
    assert.equal((await (await run.client()).statusText())['state'], 'running');
  });

  it('a client that reads nothing cannot hold it up', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const deaf = await run.client();
    deaf.socket.pause();
    const ask = encodeFrame({ type: FRAME.status, request: 1, fields: [] });
    deaf.socket.write(Buffer.concat(Array.from({ length: 5000 }, () => ask)));
    assert.equal((await (await run.client()).statusText())['state'], 'running');
    await run.stop(0, 0);
    assert.equal(await run.outcome(), 'signaled 9');
  });

  it('can be reached through a run directory that is too long for a socket address', async () => {
    await using outer = new Run();
    const deep = join(outer.root, 'd'.repeat(150));
    mkdirSync(deep);
    await using run = await new Run({ sh: 'sleep 1000' }, deep).started();
    const fd = openSync(run.dir, 'r');
    try {
      const client = await Client.connect(`/proc/self/fd/${fd}/sock`);
      assert.equal((await client.hello(run.runId))?.type, FRAME.hello | REPLY_BIT);
      client.close();
    } finally {
      closeSync(fd);
    }
  });
});

/** The record that a reply to END carries. */
async function recordIn(client: Client, request: number): Promise<string> {
  const reply = await client.reply(request);
  assert.equal(reply?.type, FRAME.end | REPLY_BIT);
  return readString(reply.fields, FRAME_TAG.record);
}

describe('END', () => {
  for (const [name, sh, stop] of [
    ['an exit', 'echo some; exit 7', false],
    ['a stop', 'echo ready; exec sleep 1000', true],
  ] as const) {
    it(`G1: ${name}: is answered with what the record has then, to all who ask`, async () => {
      await using run = await new Run({ gate: true, sh }).started();
      const clients = [await run.client(), await run.client(), await run.client()];
      const ends = clients.map((client) => client.send(FRAME.end));
      await clients[0]?.ask(FRAME.go);
      if (stop) {
        await run.logged('ready');
        await run.stop(15, 20_000);
      }
      const records = await Promise.all(clients.map((client, i) => recordIn(client, ends[i] ?? 0)));
      assert.match(records[0] ?? '', stop ? /^signal=15$/m : /^code=7$/m);
      await run.exit();
      const text = readFileSync(join(run.dir, 'exit'), 'utf8');
      assert.deepEqual(records, [text, text, text]);
    });
  }

  it('G5: a start that fails is answered likewise', async () => {
    await using run = await new Run({ gate: true, argv: [`/${'x'.repeat(3000)}`] }).started();
    const client = await run.client();
    const end = client.send(FRAME.end);
    await client.ask(FRAME.go);
    const record = await recordIn(client, end);
    assert.match(record, /^result=start_failed\n/m);
    await run.exit();
    assert.equal(record, readFileSync(join(run.dir, 'exit'), 'utf8'));
  });

  it('is open once a connection, beside WAIT', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    const client = await run.client();
    for (const type of [FRAME.end, FRAME.wait]) client.send(type);
    assert.equal(errnoOfReply(await client.ask(FRAME.end)), EBUSY);
    assert.equal(errnoOfReply(await client.ask(FRAME.wait)), EBUSY);
    // One that goes away takes its question with it, and who comes after it may ask.
    client.close();
    const next = await run.client();
    const again = next.send(FRAME.end);
    await next.ask(FRAME.status);
    await run.stop(0, 0);
    assert.match(await recordIn(next, again), /^signal=9$/m);
  });

  it('G1: is answered before the record can be made durable, and WAIT is not', async () => {
    await using run = await new Run({ sh: 'echo ready; exec sleep 1000' }).started();
    const tmp = join(run.dir, 'exit.tmp');
    await until('room for the record is reserved', () => existsSync(tmp), { everyMs: 2 });
    rmSync(tmp);
    mkdirSync(tmp);
    const client = await run.client();
    const [wait, end] = [client.send(FRAME.wait), client.send(FRAME.end)];
    let isDurable = false;
    const waited = client.reply(wait).then((reply) => {
      isDurable = true;
      return reply;
    });
    await run.stop(0, 0);
    const record = await recordIn(client, end);
    assert.match(record, /^signal=9$/m);
    // Whoever asks now is told too, at the next try.
    const late = await run.client();
    const second = await recordIn(late, late.send(FRAME.end));
    assert.deepEqual([isDurable, existsSync(join(run.dir, 'exit'))], [false, false]);
    rmdirSync(tmp);
    assert.equal((await waited)?.type, FRAME.wait | REPLY_BIT);
    const text = readFileSync(join(run.dir, 'exit'), 'utf8');
    assert.deepEqual([record, second], [text, text]);
  });

  it('is answered by an executor that has taken over', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    await run.killExecutor();
    await run.adopt();
    const client = await run.client();
    const end = client.send(FRAME.end);
    await client.ask(FRAME.status);
    await run.stop(15, 20_000);
    const record = await recordIn(client, end);
    assert.match(record, /^adopted=1$/m);
    await run.exit();
    assert.equal(record, readFileSync(join(run.dir, 'exit'), 'utf8'));
  });

  it('is not answered of a run that was given up: the connection ends', async () => {
    await using run = new Run({ sh: 'echo ran' });
    using held = new Held(run);
    await held.ready();
    const client = await run.client();
    const end = client.send(FRAME.end);
    await client.ask(FRAME.status);
    held.leave();
    assert.equal(await client.reply(end), undefined);
    assert.ok(!existsSync(join(run.dir, 'exit')));
  });

  it('a client that reads nothing holds nobody up', async () => {
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    const deaf = await run.client();
    deaf.socket.pause();
    const ask = encodeFrame({ type: FRAME.status, request: 9, fields: [] });
    const end = encodeFrame({ type: FRAME.end, request: 1, fields: [] });
    deaf.socket.write(Buffer.concat([end, ...Array.from({ length: 5000 }, () => ask)]));
    const client = await run.client();
    const asked = client.send(FRAME.end);
    await client.ask(FRAME.status);
    await run.stop(0, 0);
    assert.match(await recordIn(client, asked), /^signal=9$/m);
    assert.equal(await run.outcome(), 'signaled 9');
  });
});
