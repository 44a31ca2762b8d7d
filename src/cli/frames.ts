/** Owns the decoding of a log stream: JSON objects back to back, and the lines in them. Pure. */
import type { StreamFrame } from '../api/wire.js';
import { CliError, EXIT } from './exit.js';

/** A piece of a log. */
export interface LogPiece {
  /** Name of the rotated file, without directories. */
  readonly file: string;
  /** Place in that file after `data`. */
  readonly endBytes: number;
  readonly data: Buffer;
  /** What the daemon has to say about the place before it (files that were lost); '' = nothing. */
  readonly note: string;
}

/** No frame of the daemon is near this long. */
const LONGEST_FRAME = 4 * 1024 * 1024;

const STRING_MARK = /["\\]/g;

/** Cuts a stream of bytes into frames. */
export class FrameReader {
  readonly #decoder = new TextDecoder();
  #text = '';
  /** How far `#text` was looked at, and what was seen there. */
  #at = 0;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  /** Takes the next bytes; returns the pieces that are complete, heartbeats left out. @throws CliError */
  push(data: Uint8Array): LogPiece[] {
    this.#text += this.#decoder.decode(data, { stream: true });
    const pieces: LogPiece[] = [];
    for (; this.#at < this.#text.length; this.#at++) {
      if (this.#isInString && !this.#isEscaped) this.#skipText();
      if (this.#at === this.#text.length) break;
      if (!this.#endsAt(this.#text.charAt(this.#at))) continue;
      const piece = decodeFrame(this.#text.slice(0, this.#at + 1));
      if (piece !== undefined) pieces.push(piece);
      this.#text = this.#text.slice(this.#at + 1);
      this.#at = -1;
    }
    if (this.#text.length > LONGEST_FRAME) throw malformed();
    return pieces;
  }

  /** Within a string: goes to the next character that means something. Data is long and means nothing here. */
  #skipText(): void {
    STRING_MARK.lastIndex = this.#at;
    this.#at = STRING_MARK.exec(this.#text)?.index ?? this.#text.length;
  }

  /** Takes one character; true when an object ends with it. */
  #endsAt(character: string): boolean {
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (character === '\\') this.#isEscaped = true;
      else if (character === '"') this.#isInString = false;
      return false;
    }
    if (character === '"') this.#isInString = true;
    else if (character === '{') this.#depth += 1;
    else if (character === '}') {
      this.#depth -= 1;
      return this.#depth === 0;
    }
    return false;
  }
}

function decodeFrame(text: string): LogPiece | undefined {
  let frame: StreamFrame;
  try {
    // The daemon's word, in the shape of api/wire.ts.
    frame = JSON.parse(text) as StreamFrame;
  } catch {
    throw malformed();
  }
  const { Data, File = '', Offset = 0, FileEvent = '' } = frame;
  if (Data === undefined && FileEvent === '') return undefined;
  const file = File.slice(File.lastIndexOf('/') + 1);
  return { file, endBytes: Offset, data: Buffer.from(Data ?? '', 'base64'), note: FileEvent };
}

function malformed(): CliError {
  return new CliError(
    EXIT.failed,
    'the daemon sent a log that is no series of frames: is it a holdfast daemon?',
  );
}

const NEWLINE = 0x0a;
/** A line longer than this is given in pieces. */
const LONGEST_LINE_BYTES = 256 * 1024;

/** Cuts bytes into lines, without their ends. */
export class LineReader {
  #rest: Buffer = Buffer.alloc(0);

  push(data: Buffer): string[] {
    const lines: string[] = [];
    let text = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    for (;;) {
      const end = text.indexOf(NEWLINE);
      if (end === -1 && text.length < LONGEST_LINE_BYTES) break;
      const cut = end === -1 ? LONGEST_LINE_BYTES : end;
      lines.push(text.subarray(0, cut).toString());
      text = text.subarray(end === -1 ? cut : cut + 1);
    }
    this.#rest = Buffer.from(text);
    return lines;
  }

  /** The last line, when it had no end. */
  end(): string[] {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return rest.length === 0 ? [] : [rest.toString()];
  }
}
