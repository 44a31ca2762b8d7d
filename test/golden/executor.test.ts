/**
 * Agent and executor of different releases: what one of an older release has written is read, and what is newer than
 * oneself is passed over. An executor outlives its agent, so that any two releases may meet.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readBootId } from '../../src/base/host.js';
import { packageRoot } from '../../src/base/package-root.js';
import { parseExitRecord, parseStatus } from '../../src/executor/exit-record.js';
import {
  decodeSpec,
  encodeFrame,
  FRAME,
  FRAME_TAG,
  FrameDecoder,
  type Frame,
} from '../../src/executor/protocol.js';
import { encodeFields, readString, stringField } from '../../src/executor/tlv.js';
import { until } from '../helpers/until.js';
import { executor, parseLines, processesOf, TOLD } from '../native/harness.js';

const GOLDEN = join(packageRoot(), 'test', 'golden', 'executor-v1');
const read = (name: string): Buffer => readFileSync(join(GOLDEN, name));
const readEnd = (name: string): Buffer =>
  readFileSync(join(packageRoot(), 'test', 'golden', 'executor-end', name));
const json = (name: string): unknown => JSON.parse(read(name).toString('utf8'));

/** What a newer release may add to any list of fields. */
const UNKNOWN = encodeFields([stringField(999, 'of a later release')]);

/** Runs the golden workload with the executor of now. @param more is added to the spec */
async function withGolden(more: Buffer, use: (dir: string) => Promise<void>): Promise<void> {
  const dir = join(mkdtempSync(join(tmpdir(), 'holdfast-golden-')), 'run');
  mkdirSync(dir, { mode: 0o700 });
  const spec = read('spec-plain');
  spec.write(readBootId(), spec.indexOf('00000000-0000-0000-0000-000000000000'), 'latin1');
  writeFileSync(join(dir, 'spec'), Buffer.concat([spec, more]));
  try {
    assert.deepEqual(await executor('run', dir), { status: TOLD.ok, stderr: '' });
    await use(dir);
  } finally {
    for (const pid of processesOf('golden-run-0001')) process.kill(pid, 'SIGKILL');
    await until('the run is over', () => readdirSync(dir).includes('exit'));
    rmSync(join(dir, '..'), { recursive: true });
  }
}

/** Offset of the last frame, which is the STOP. */
function lastFrame(bytes: Buffer): number {
  let last = 0;
  for (let at = 0; at < bytes.length; at += 4 + bytes.readUInt32LE(at)) last = at;
  return last;
}

/** Waits until the golden workload is one that obeys a SIGTERM. */
async function isReady(dir: string): Promise<void> {
  await until('the workload handles SIGTERM', () => {
    const { pid, state } = parseLines(readFileSync(join(dir, 'status'), 'utf8'));
    if (state !== 'running') return false;
    const caught = /^SigCgt:\t([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid ?? ''}/status`, 'utf8'))?.[1];
    return (BigInt(`0x${caught ?? '0'}`) & (1n << 14n)) !== 0n;
  });
}

/** Sends the requests, and collects what comes back until the executor leaves. */
async function speak(dir: string, bytes: Buffer): Promise<readonly Frame[]> {
  const decoder = new FrameDecoder();
  const frames: Frame[] = [];
  await new Promise<void>((resolve, reject) => {
    const socket = connect(join(dir, 'sock'));
    socket.on('data', (chunk: Buffer) => frames.push(...decoder.push(chunk)));
    socket.on('error', reject);
    socket.on('close', () => {
      resolve();
    });
    const stop = lastFrame(bytes);
    socket.write(bytes.subarray(0, stop));
    isReady(dir).then(() => socket.write(bytes.subarray(stop)), reject);
  });
  return frames;
}

/** What was promised of a reply: its type, and the fields it has at least. */
const shapeOf = (frames: readonly Frame[]): unknown =>
  [...frames]
    .sort((a, b) => a.request - b.request)
    .map(({ type, request, fields }) => ({ type, request, tags: fields.map(({ tag }) => tag) }));

/** The same requests, each with a field more. */
function withUnknownFields(requests: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < requests.length;) {
    const length = requests.readUInt32LE(at);
    const frame = Buffer.concat([requests.subarray(at, at + 4 + length), UNKNOWN]);
    frame.writeUInt32LE(length + UNKNOWN.length, 0);
    parts.push(frame);
    at += 4 + length;
  }
  return Buffer.concat(parts);
}

describe('what release 0.1.0 wrote', () => {
  it('G14: its spec files are read by the agent, unknown fields or not', () => {
    const full = json('spec-full.json');
    const plain: unknown = JSON.parse(JSON.stringify(decodeSpec(read('spec-full'))));
    assert.deepEqual(plain, full);
    assert.deepEqual(decodeSpec(Buffer.concat([read('spec-full'), UNKNOWN])), decodeSpec(read('spec-full')));
  });

  for (const [name, change, more] of [
    ['as it was', (bytes: Buffer) => bytes, Buffer.alloc(0)],
    ['with fields of a later release', withUnknownFields, UNKNOWN],
  ] as const) {
    it(`G14: its spec and its requests, ${name}, are obeyed by the executor of now`, async () => {
      await withGolden(more, async (dir) => {
        const frames = await speak(dir, change(read('requests')));
        assert.deepEqual(shapeOf(frames), json('replies.json'));
        const exit = parseLines(readFileSync(join(dir, 'exit'), 'utf8'));
        assert.deepEqual([exit['result'], exit['code'], exit['stop_stage']], ['exited', '7', 'signal']);
      });
    });
  }

  it('G14: the replies, status and exit records of its executors are read by the agent of now', () => {
    const frames = new FrameDecoder().push(read('replies'));
    const status = frames.find(({ type }) => type === 0x8002);
    assert.ok(status !== undefined);
    for (const text of [readString(status.fields, 6), read('status').toString('utf8')]) {
      const found = parseStatus(text);
      assert.equal(found.kind, 'ok');
      assert.deepEqual(parseStatus(`${text}of_a_later_release=1\n`), found);
    }
    for (const name of readdirSync(GOLDEN).filter(
      (file) => file.startsWith('exit-') && !file.endsWith('.json'),
    )) {
      const record: unknown = JSON.parse(JSON.stringify(parseExitRecord(read(name))));
      assert.deepEqual(record, json(`${name}.json`), name);
    }
  });

  it('G14: a status with only what the first executors had to say is enough', () => {
    const least = [
      'holdfast_status',
      'run_id',
      'boot_id',
      'state',
      'executor_pid',
      'executor_start',
      'pid',
      'pid_start',
    ];
    const text = read('status')
      .toString('utf8')
      .split('\n')
      .filter((line) => least.includes(line.split('=')[0] ?? ''))
      .join('\n');
    assert.equal(parseStatus(`${text}\n`).kind, 'ok');
  });
});

describe('what the release that brought END wrote', () => {
  it('G14: its request is obeyed by the executor of now, and answered with the record and then with WAIT', async () => {
    await withGolden(Buffer.alloc(0), async (dir) => {
      const frames = await speak(dir, readEnd('requests'));
      assert.deepEqual(shapeOf(frames), [
        { type: 0x8007, request: 1, tags: [12] },
        { type: 0x8006, request: 2, tags: [] },
        { type: 0x8003, request: 3, tags: [] },
        { type: 0x8005, request: 4, tags: [] },
      ]);
      const order = frames.map(({ request }) => request);
      assert.ok(order.indexOf(1) < order.indexOf(2), 'it is told before it is durable');
      const end = frames.find(({ request }) => request === 1);
      assert.equal(readString(end?.fields ?? [], 12), readFileSync(join(dir, 'exit'), 'utf8'));
    });
  });

  it('G14: its reply is read by the agent of now, as the record that came after it', () => {
    const frames = new FrameDecoder().push(readEnd('replies'));
    const end = frames.find(({ type }) => type === 0x8007);
    assert.deepEqual([end?.request, end?.fields.map(({ tag }) => tag)], [1, [12]]);
    const record = parseExitRecord(Buffer.from(readString(end?.fields ?? [], 12)));
    assert.equal(record.kind, 'ok');
    assert.deepEqual(record, parseExitRecord(readEnd('exit')));
    assert.ok(record.value.kind === 'ended');
    assert.deepEqual(record.value.report.result, { kind: 'exited', code: 7, oomKilled: false });
  });

  it('G14: the agent of now asks as it did', () => {
    const [first] = new FrameDecoder().push(readEnd('requests'));
    assert.deepEqual(first, { type: FRAME.end, request: 1, fields: [] });
    assert.deepEqual(
      encodeFrame({ type: FRAME.end, request: 1, fields: [] }),
      readEnd('requests').subarray(0, 8),
    );
    assert.equal(FRAME_TAG.record, 12);
  });
});
