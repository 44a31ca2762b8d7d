/**
 * Made what is in executor-end/: what an agent and an executor of the release that brought END said to each other. Kept to
 * show how; not run again, since its output is what must stay readable. `node dist/test/golden/make-executor-end.js DIR`
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { encodeFrame, FRAME, FRAME_TAG } from '../../src/executor/protocol.js';
import { intField } from '../../src/executor/tlv.js';
import { Run } from '../native/harness.js';

const dir = process.argv[2] ?? '.';
const requests = [
  encodeFrame({ type: FRAME.end, request: 1, fields: [] }),
  encodeFrame({ type: FRAME.wait, request: 2, fields: [] }),
  encodeFrame({ type: FRAME.go, request: 3, fields: [] }),
  encodeFrame({
    type: FRAME.stop,
    request: 4,
    fields: [intField(FRAME_TAG.signal, 15), intField(FRAME_TAG.graceMs, 10_000)],
  }),
];

await using run = await new Run({
  gate: true,
  sh: 'trap "exit 7" TERM; echo ready; while :; do sleep 0.01; done',
}).started();
const replies: Buffer[] = [];
const socket = connect(join(run.dir, 'sock'));
const closed = new Promise((resolve) => socket.on('close', resolve));
socket.on('data', (chunk: Buffer) => replies.push(chunk));
socket.write(Buffer.concat(requests.slice(0, 3)));
await run.logged('ready');
socket.write(requests[3] ?? '');
await closed;
writeFileSync(join(dir, 'requests'), Buffer.concat(requests));
writeFileSync(join(dir, 'replies'), Buffer.concat(replies));
writeFileSync(join(dir, 'exit'), readFileSync(join(run.dir, 'exit')));
