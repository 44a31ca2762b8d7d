/**
 * Owns the encoding of single fields (tag, length, value; little endian), of which spec files and frames are made.
 * Decoding is bounded by the bytes given and throws nothing but protocol_error.
 */
import { AgentError } from '../base/errors.js';

export interface Field {
  readonly tag: number;
  readonly value: Buffer;
}

/** Bytes of a field before its value: u16 tag, u16 zero, u32 length. */
const FIELD_HEADER_BYTES = 8;
/** A field holding text. */
export function stringField(tag: number, text: string): Field {
  return { tag, value: Buffer.from(text, 'utf8') };
}

/** A field holding a whole number (8 bytes, signed). */
export function intField(tag: number, value: number): Field {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigInt64LE(BigInt(value));
  return { tag, value: bytes };
}

/** @throws AgentError protocol_error when the field is missing */
export function readString(fields: readonly Field[], tag: number): string {
  return findField(fields, tag).value.toString('utf8');
}

/** @throws AgentError protocol_error when the field is missing, no integer, or beyond what a number holds exactly */
export function readInt(fields: readonly Field[], tag: number): number {
  const { value } = findField(fields, tag);
  if (value.length !== 8) throw malformed(`field ${tag} has ${value.length} bytes, an integer has 8`);
  const number = Number(value.readBigInt64LE());
  if (!Number.isSafeInteger(number)) throw malformed(`field ${tag} is out of range`);
  return number;
}

/** The bytes of fields, one after the other. */
export function encodeFields(fields: readonly Field[]): Buffer {
  let length = 0;
  for (const { value } of fields) length += FIELD_HEADER_BYTES + value.length;
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (const { tag, value } of fields) {
    bytes.writeUInt32LE(tag, at);
    bytes.writeUInt32LE(value.length, at + 4);
    bytes.set(value, at + FIELD_HEADER_BYTES);
    at += FIELD_HEADER_BYTES + value.length;
  }
  return bytes;
}

/**
 * Fields with unknown tags are kept: whoever reads asks for the tags it knows.
 * @throws AgentError protocol_error when a field is cut off
 */
export function decodeFields(bytes: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  while (at < bytes.length) {
    if (bytes.length - at < FIELD_HEADER_BYTES) throw malformed('a field is cut off in its header');
    const length = bytes.readUInt32LE(at + 4);
    const start = at + FIELD_HEADER_BYTES;
    if (length > bytes.length - start) throw malformed('a field is longer than what holds it');
    // A copy: frames must not keep the whole receive buffer alive.
    fields.push({ tag: bytes.readUInt16LE(at), value: Buffer.from(bytes.subarray(start, start + length)) });
    at = start + length;
  }
  return fields;
}

function findField(fields: readonly Field[], tag: number): Field {
  const field = fields.find((candidate) => candidate.tag === tag);
  if (field === undefined) throw malformed(`field ${tag} is missing`);
  return field;
}

/** The error for bytes that break the protocol. */
export function malformed(what: string): AgentError {
  return new AgentError('protocol_error', `executor protocol: ${what}`);
}
