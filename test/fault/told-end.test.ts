/** What an agent makes of what it is told of the end before that is durable: the truth, a lie, nothing, or too early a silence. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { DriverHandle, TaskConfig } from '../../src/drivers/driver.js';
import { encodeFrame, FRAME, FRAME_TAG, FrameDecoder, REPLY_BIT } from '../../src/executor/protocol.js';
import { intField, stringField, type Field } from '../../src/executor/tlv.js';
import { DriverWorld } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';

const { SIGTERM } = constants.signals;
const EOPNOTSUPP = 95;

const world = await DriverWorld.open();

/** Stands between agent and executor: END never comes through, and is answered as `answer` says. */
class Between implements Disposable {
  /** How often the end was asked for. */
  asked = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(runDir: string, answer: ((request: number) => Buffer) | undefined) {
    const real = join(runDir, 'sock.real');
    renameSync(join(runDir, 'sock'), real);
    this.#server = createServer((agent) => {
      const executor = connect(real);
      const decoder = new FrameDecoder();
      for (const socket of [agent, executor]) {
        this.#sockets.add(socket);
        socket.on('error', () => undefined);
      }
      agent.on('data', (chunk: Buffer) => {
        for (const frame of decoder.push(chunk)) {
          if (frame.type !== FRAME.end) {
            executor.write(encodeFrame(frame));
            continue;
          }
          this.asked += 1;
          if (answer !== undefined) agent.write(answer(frame.request));
        }
      });
      executor.on('data', (chunk: Buffer) => agent.write(chunk));
      executor.on('close', () => agent.end());
      agent.on('close', () => executor.end());
    }).listen(join(runDir, 'sock'));
  }

  [Symbol.dispose](): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

const refuses = (request: number): Buffer =>
  encodeFrame({
    type: FRAME.error | REPLY_BIT,
    request,
    fields: [intField(FRAME_TAG.errno, EOPNOTSUPP), stringField(FRAME_TAG.text, 'Operation not supported')],
  });
const says =
  (...fields: readonly Field[]) =>
  (request: number): Buffer =>
    encodeFrame({ type: FRAME.end | REPLY_BIT, request, fields });

interface Subject {
  readonly config: TaskConfig;
  readonly handle: DriverHandle;
  readonly runDir: string;
}

async function start(script: string): Promise<Subject> {
  const config = await world.shell(script);
  const handle = world.keep(await world.driver().start(config, world.emit));
  await world.says(config, /ready/);
  return { config, handle, runDir: join(world.deps.runsDir, config.runId.slice(0, 2), config.runId) };
}

/** The same, as the next agent finds it. */
async function again({ config, handle, runDir }: Subject): Promise<Subject> {
  handle.detach();
  const recovered = await world.driver().recover(world.record(config, handle), world.emit);
  assert.equal(recovered.kind, 'running');
  return { config, handle: world.keep(recovered.handle), runDir };
}

const TRUTH = { kind: 'exited', code: 7, oomKilled: false };
const OBEYS = 'trap "exit 7" TERM; echo ready; while :; do sleep 0.02; done';

describe('the end as it is told before it is durable', { timeout: 120_000 }, () => {
  after(() => world.close());

  for (const [name, answer] of [
    ['an executor of a release that does not know the question', refuses],
    ['one that never answers it', undefined],
    ['one that answers with nothing', says()],
    [
      'one that answers with what is no record',
      says(stringField(FRAME_TAG.record, 'result=exited\ncode=0\n')),
    ],
  ] as const) {
    it(`G14: ${name}: its record is waited for, and tells the end`, async () => {
      const first = await start(OBEYS);
      using between = new Between(first.runDir, answer);
      const { handle, runDir } = await again(first);
      await handle.stop({ signal: SIGTERM, graceMs: 20_000 });
      assert.deepEqual((await handle.wait()).result, TRUTH);
      assert.equal(between.asked, 1);
      assert.ok(existsSync(join(runDir, 'exit')));
      await handle.release();
    });
  }

  it('G1: is told while the record cannot be made durable, and what is released then is gone for good', async () => {
    const { handle, runDir } = await start(OBEYS);
    const tmp = join(runDir, 'exit.tmp');
    await until('room for the record is reserved', () => existsSync(tmp), { everyMs: 2 });
    rmSync(tmp);
    mkdirSync(tmp);
    await handle.stop({ signal: SIGTERM, graceMs: 20_000 });
    assert.deepEqual((await handle.wait()).result, TRUTH);
    assert.ok(!existsSync(join(runDir, 'exit')));
    // Whoever was told has stored it by now; the executor is on its way, and leaves nothing behind either.
    await handle.release();
    await until('its executor has left', () => world.processes().length === 0);
    assert.ok(!existsSync(runDir));
  });

  it('G1: an agent that dies after it was told finds the record', async () => {
    const { config, handle, runDir } = await start(OBEYS);
    const tmp = join(runDir, 'exit.tmp');
    await until('room for the record is reserved', () => existsSync(tmp), { everyMs: 2 });
    rmSync(tmp);
    mkdirSync(tmp);
    await handle.stop({ signal: SIGTERM, graceMs: 20_000 });
    const { result } = await handle.wait();
    handle.detach();
    rmdirSync(tmp);
    await until('it is durable', () => existsSync(join(runDir, 'exit')));
    const recovered = await world.driver().recover(world.record(config, handle), world.emit);
    assert.equal(recovered.kind, 'ended');
    assert.deepEqual(recovered.report.result, result);
    await recovered.release();
    assert.ok(!existsSync(runDir));
  });
});
