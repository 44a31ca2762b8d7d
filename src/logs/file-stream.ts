/** Owns reading of one file of an alloc, and following it while it grows, is emptied or goes away. */
import type { FileHandle } from 'node:fs/promises';
import type { Clock } from '../base/clock.js';
import { Changes } from './changes.js';
import type { WatchDirectory } from './directory.js';

/** Size of one read, and of Nomad's frames. */
export const CHUNK_BYTES = 64 * 1024;

export interface ReadFileOptions {
  /** Where to begin: so many bytes from the start, or back from the end. */
  readonly from: { readonly origin: 'start' | 'end'; readonly offsetBytes: number };
  /** Ends after so many bytes; undefined = at the end of the file as it was when reading began. */
  readonly limitBytes?: number;
  readonly follow: boolean;
  readonly clock: Clock;
  /** Ends the reading at once. */
  readonly signal: AbortSignal;
  /** Ends the following at the end of what is there. */
  readonly complete?: AbortSignal;
  readonly watch?: WatchDirectory;
}

export type FilePiece =
  | { readonly kind: 'data'; readonly offset: number; readonly data: Buffer }
  /** The file became shorter than what was read of it: reading begins anew. */
  | { readonly kind: 'truncated' }
  /** It has no name any more: nothing follows. */
  | { readonly kind: 'deleted' };

/** @param path leads to the open file, for a watch. Does not close the handle. */
export async function* readFileStream(
  handle: FileHandle,
  path: string,
  options: ReadFileOptions,
): AsyncGenerator<FilePiece, void, void> {
  const { from, follow, signal, complete } = options;
  const { size } = await handle.stat();
  let at = Math.min(size, from.origin === 'start' ? from.offsetBytes : Math.max(0, size - from.offsetBytes));
  const end = follow ? Infinity : Math.min(size, at + (options.limitBytes ?? Infinity));
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  using changes = new Changes(path, options);
  const isAborted = (): boolean => signal.aborted;
  while (!isAborted()) {
    // In this order: what changes after this line wakes the wait below.
    changes.reset();
    const isLast = complete?.aborted === true;
    while (at < end && !isAborted()) {
      const { bytesRead } = await handle.read(buffer, 0, Math.min(CHUNK_BYTES, end - at), at);
      if (bytesRead === 0) break;
      yield { kind: 'data', offset: at, data: Buffer.from(buffer.subarray(0, bytesRead)) };
      at += bytesRead;
    }
    if (!follow || isLast || isAborted()) return;
    const now = await handle.stat();
    if (now.size < at) {
      at = 0;
      yield { kind: 'truncated' };
      continue;
    }
    if (now.size > at) continue;
    if (now.nlink === 0) {
      yield { kind: 'deleted' };
      return;
    }
    await changes.wait();
  }
}

/** The first bytes of a file decide what it is served as: never as anything that a browser would run. */
export async function sniffContentType(handle: FileHandle): Promise<string> {
  const buffer = Buffer.alloc(512);
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
  const head = buffer.subarray(0, bytesRead);
  const isText = head.every((byte) => byte >= 0x20 || (byte >= 0x07 && byte <= 0x0d) || byte === 0x1b);
  return isText ? 'text/plain; charset=utf-8' : 'application/octet-stream';
}
