/**
 * Owns messages of the feed as bytes: each is put into bytes once, and a batch that many readers take is put together
 * once for all of them. At fifty readers this is what the feed costs.
 */

const TEXT_FRAME = 0x81;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;

/** One message. */
export class FeedText {
  readonly text: string;
  #frame: Buffer | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** A whole websocket frame, as a server sends it. */
  get frame(): Buffer {
    this.#frame ??= encodeFrame(this.text);
    return this.#frame;
  }
}

/** Messages that go out together. */
export type FeedBatch = readonly FeedText[];

const frames = new WeakMap<FeedBatch, Buffer>();
const lines = new WeakMap<FeedBatch, Buffer>();

/** The batch as websocket frames. The same bytes for everybody: not to be changed. */
export function framesOf(batch: FeedBatch): Buffer {
  const [only] = batch;
  if (only !== undefined && batch.length === 1) return only.frame;
  return remember(frames, batch, () => Buffer.concat(batch.map(({ frame }) => frame)));
}

/** The batch as lines. The same bytes for everybody: not to be changed. */
export function linesOf(batch: FeedBatch): Buffer {
  return remember(lines, batch, () => Buffer.from(batch.map(({ text }) => `${text}\n`).join('')));
}

function remember(known: WeakMap<FeedBatch, Buffer>, batch: FeedBatch, encode: () => Buffer): Buffer {
  const made = known.get(batch) ?? encode();
  known.set(batch, made);
  return made;
}

/** A final text frame without a mask (RFC 6455 §5.2). */
function encodeFrame(text: string): Buffer {
  const length = Buffer.byteLength(text);
  const headBytes = length < LENGTH_IN_2_BYTES ? 2 : length < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafeSlow(headBytes + length);
  frame[0] = TEXT_FRAME;
  if (headBytes === 2) frame[1] = length;
  else if (headBytes === 4) {
    frame[1] = LENGTH_IN_2_BYTES;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = LENGTH_IN_8_BYTES;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  frame.write(text, headBytes);
  return frame;
}
