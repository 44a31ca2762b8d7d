/** Makes archives byte by byte, so that they can hold what no decent program would write. */
import { crc32 } from 'node:zlib';

export interface Entry {
  readonly path: string;
  readonly body?: string | Buffer;
  readonly dir?: boolean;
  /** Target of a symbolic link. */
  readonly link?: string;
  /** Target of a hard link. */
  readonly hard?: string;
  /** Type letter of tar. */
  readonly type?: string;
  readonly mode?: number;
}

export function tarOf(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const body = Buffer.from(entry.body ?? '');
    return [headerOf(entry, body.length), body, Buffer.alloc((512 - (body.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function headerOf(entry: Entry, size: number): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, length: number): void => {
    header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at);
  };
  const type =
    entry.type ??
    (entry.dir === true ? '5' : entry.link !== undefined ? '2' : entry.hard !== undefined ? '1' : '0');
  header.write(entry.path, 0, 100);
  octal(entry.mode ?? 0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  header.write('        ', 148);
  header.write(type, 156);
  header.write(entry.link ?? entry.hard ?? '', 157, 100);
  header.write('ustar\x0000', 257);
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return header;
}

export function zipOf(entries: readonly Entry[]): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const entry of entries) {
    const name = Buffer.from(entry.path);
    const body = Buffer.from(entry.link ?? entry.body ?? '');
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt32LE(crc32(body), 10);
    common.writeUInt32LE(body.length, 14);
    common.writeUInt32LE(body.length, 18);
    common.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, name, body]);
    const attributes = Buffer.alloc(14);
    attributes.writeUInt32LE((((entry.link === undefined ? 0o100000 : 0o120000) | 0o644) << 16) >>> 0, 6);
    attributes.writeUInt32LE(at, 10);
    directory.push(Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), common, attributes, name);
    locals.push(local);
    at += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...locals, central, Buffer.from('PK\x05\x06'), end]);
}
