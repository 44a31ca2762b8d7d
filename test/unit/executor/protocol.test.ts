import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { AgentError } from '../../../src/base/errors.js';
import {
  decodeSpec,
  encodeFrame,
  encodeSpec,
  FRAME,
  FRAME_TAG,
  FrameDecoder,
  MAX_FRAME_BYTES,
  withJoinProcs,
  type ExecutorSpec,
  type Frame,
} from '../../../src/executor/protocol.js';
import { encodeFields, intField, readInt, readString, stringField } from '../../../src/executor/tlv.js';

const text = fc.string({ unit: 'grapheme' }).filter((value) => !value.includes('\0'));
const envName = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,12}$/);
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(value, { nil: undefined });

const specs: fc.Arbitrary<ExecutorSpec> = fc.record(
  {
    runId: text,
    bootId: text,
    title: text,
    path: text,
    argv: fc.array(text),
    env: fc.dictionary(envName, text, { noNullPrototype: true }),
    cwd: text,
    user: optional(text),
    log: optional(
      fc.record(
        { dir: text, name: text, maxFiles: fc.nat(), maxBytes: fc.maxSafeNat() },
        { noNullPrototype: true },
      ),
    ),
    cgroup: optional(text),
    joinProcs: fc.array(text),
    selfProcs: fc.array(text),
    gate: fc.boolean(),
    leftovers: fc.constantFrom('kill' as const, 'keep' as const),
    leftoversMs: fc.maxSafeNat(),
    memoryHits: text,
    oomScoreAdj: fc.integer({ min: -1000, max: 1000 }),
    memoryEvents: optional(text),
    memoryPeak: optional(text),
    terminal: fc.record(
      { columns: fc.integer({ min: 1, max: 65_535 }), rows: fc.integer({ min: 1, max: 65_535 }) },
      { noNullPrototype: true },
    ),
  },
  { noNullPrototype: true },
);

const frames: fc.Arbitrary<Frame> = fc.record(
  {
    type: fc.integer({ min: 0, max: 0xffff }),
    request: fc.integer({ min: 0, max: 0xffff }),
    fields: fc.array(
      fc.record(
        {
          tag: fc.integer({ min: 0, max: 0xffff }),
          value: fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
        },
        { noNullPrototype: true },
      ),
      { maxLength: 8 },
    ),
  },
  { noNullPrototype: true },
);

function onlyProtocolErrors(act: () => unknown): void {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof AgentError, String(error));
    assert.equal(error.code, 'protocol_error');
  }
}

const SAMPLE: ExecutorSpec = {
  runId: 'r',
  bootId: 'b',
  title: 't',
  path: '/bin/true',
  argv: ['true'],
  env: { A: 'x=y' },
  cwd: '/',
  user: undefined,
  log: undefined,
  cgroup: undefined,
  joinProcs: [],
  selfProcs: [],
  gate: false,
  leftovers: 'kill',
  oomScoreAdj: 0,
  memoryEvents: undefined,
  memoryPeak: undefined,
};

describe('spec', () => {
  it('comes back as it was', () => {
    fc.assert(
      fc.property(specs, (spec) => {
        assert.deepEqual(decodeSpec(encodeSpec(spec)), spec);
      }),
    );
  });

  it('is given other files to join by, and keeps all else, also what is not known', () => {
    const unknown = encodeFields([stringField(9999, 'of a later release')]);
    fc.assert(
      fc.property(specs, fc.array(text), (spec, joinProcs) => {
        const bytes = withJoinProcs(Buffer.concat([encodeSpec(spec), unknown]), joinProcs);
        assert.deepEqual(decodeSpec(bytes), { ...spec, joinProcs });
        assert.ok(bytes.includes(unknown));
      }),
    );
  });

  it('has the layout that native/README.md promises', () => {
    const bytes = encodeSpec(SAMPLE);
    assert.equal(bytes.subarray(0, 8).toString(), 'HFSPEC01');
    assert.deepEqual([...bytes.subarray(8, 17)], [1, 0, 0, 0, 1, 0, 0, 0, 'r'.charCodeAt(0)]);
    const gate = bytes.indexOf(Buffer.from([16, 0, 0, 0, 8, 0, 0, 0]));
    assert.deepEqual([...bytes.subarray(gate + 8, gate + 16)], [0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it('is never half believed: cut off or damaged it gives protocol_error or a spec, nothing else', () => {
    fc.assert(
      fc.property(specs, fc.nat(), fc.nat(), fc.integer({ min: 0, max: 255 }), (spec, cut, at, byte) => {
        const bytes = encodeSpec(spec);
        onlyProtocolErrors(() => decodeSpec(bytes.subarray(0, cut % bytes.length)));
        bytes[at % bytes.length] = byte;
        onlyProtocolErrors(() => decodeSpec(bytes));
      }),
    );
  });

  it('refuses what no program can be given', () => {
    const refused = { name: 'AgentError', code: 'start_failed' };
    assert.throws(() => encodeSpec({ ...SAMPLE, argv: ['a\0b'] }), refused);
    assert.throws(() => encodeSpec({ ...SAMPLE, env: { A: 'a\0b' } }), refused);
    assert.throws(() => encodeSpec({ ...SAMPLE, argv: ['x'.repeat(5 * 1024 * 1024)] }), refused);
  });
});

describe('frames', () => {
  it('come back whole, in order, however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.array(frames, { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 40 })),
        (sent, cuts) => {
          const bytes = Buffer.concat(sent.map(encodeFrame));
          const decoder = new FrameDecoder();
          const got: Frame[] = [];
          let at = 0;
          for (const cut of cuts) {
            got.push(...decoder.push(bytes.subarray(at, at + cut)));
            at += cut;
          }
          got.push(...decoder.push(bytes.subarray(at)));
          assert.deepEqual(got, sent);
        },
      ),
    );
  });

  it('of any garbage give frames or protocol_error', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 })), (chunks) => {
        const decoder = new FrameDecoder();
        onlyProtocolErrors(() => {
          for (const chunk of chunks) decoder.push(chunk);
        });
      }),
    );
  });

  it('are refused by their length word, before anything is held', () => {
    for (const length of [0, 3, MAX_FRAME_BYTES + 1, 0xffffffff]) {
      const head = Buffer.alloc(4);
      head.writeUInt32LE(length);
      assert.throws(() => new FrameDecoder().push(head), { code: 'protocol_error' }, String(length));
    }
    const tooLong = { type: 1, request: 1, fields: [{ tag: 1, value: Buffer.alloc(MAX_FRAME_BYTES) }] };
    assert.throws(() => encodeFrame(tooLong), { code: 'protocol_error' });
  });

  it('carry text and numbers, and say when one is missing or malformed', () => {
    const [frame] = new FrameDecoder().push(
      encodeFrame({
        type: FRAME.stop,
        request: 7,
        fields: [
          intField(FRAME_TAG.signal, 15),
          intField(FRAME_TAG.graceMs, -1),
          stringField(FRAME_TAG.text, 'ü'),
        ],
      }),
    );
    assert.ok(frame);
    assert.equal(readInt(frame.fields, FRAME_TAG.signal), 15);
    assert.equal(readInt(frame.fields, FRAME_TAG.graceMs), -1);
    assert.equal(readString(frame.fields, FRAME_TAG.text), 'ü');
    assert.throws(() => readInt(frame.fields, FRAME_TAG.errno), { code: 'protocol_error' });
    assert.throws(() => readInt(frame.fields, FRAME_TAG.text), { code: 'protocol_error' });
    const huge = { tag: 1, value: Buffer.from('ffffffffffffff7f', 'hex') };
    assert.throws(() => readInt([huge], 1), { code: 'protocol_error' });
  });
});
