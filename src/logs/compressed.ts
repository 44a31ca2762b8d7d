/**
 * Owns gzip files of a log: making one of a rotated file, and making it plain again for a reader. A file is at every
 * moment there whole under at least one of its two names; both at once hold the same text.
 */
import { constants } from 'node:fs';
import { open, rename, unlink, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { errnoOf } from '../base/errors.js';
import { newUuid } from '../base/ids.js';

/** The length of the text, at the end of a gzip file, in 32 bits. */
const SIZE_FIELD_BYTES = 4;
/** Beyond it the length would not be told: such files stay as they are. */
const MOST_COMPRESSED_BYTES = 2 ** 32 - 1;
const CHUNK_BYTES = 64 * 1024;
/** Not in Node's list; the same on its platforms. A file without a name: nothing is left of it when we are killed. */
const O_TMPFILE = 0o20200000;
const TEMPORARY_SUFFIX = '.gz.tmp';

/** How long the text is. */
export async function readExpandedSize(handle: FileHandle): Promise<number> {
  const { size } = await handle.stat();
  const field = Buffer.alloc(SIZE_FIELD_BYTES);
  await handle.read(field, 0, SIZE_FIELD_BYTES, Math.max(0, size - SIZE_FIELD_BYTES));
  return field.readUInt32LE(0);
}

/**
 * The text as a file without a name, in `dir` or where temporary files are. Memory is bounded; the room on the disk is
 * that of one log file for each reader. Of a damaged file it is what can be read.
 */
export async function expandFile(handle: FileHandle, dir: string): Promise<FileHandle> {
  const text = await openNameless(dir);
  try {
    await pipeline(readChunks(handle), createGunzip(), writeTo(text));
  } catch (error) {
    // Cut off or not gzip: somebody wrote into our directory, ignoring.
    if (!isDamage(error)) {
      await text.close();
      throw error;
    }
  }
  return text;
}

function isDamage(error: unknown): boolean {
  return /^Z_/.test(errnoOf(error) ?? '');
}

async function openNameless(dir: string): Promise<FileHandle> {
  const mode = 0o600;
  for (const at of [dir, tmpdir()]) {
    try {
      return await open(at, O_TMPFILE | constants.O_RDWR, mode);
    } catch {
      // A file system that knows no such files, or a directory that is read-only or removed: the next place, ignoring.
    }
  }
  const path = join(tmpdir(), `holdfast-log-${newUuid()}`);
  const handle = await open(path, 'wx+', mode);
  await unlink(path);
  return handle;
}

/** The steps of a compression, in this order. Whatever is killed after one of them, the text is there once. */
export type CompressStep = 'written' | 'renamed' | 'removed';

/**
 * Puts `<name>.gz` in the place of a file that nobody writes to any more.
 * @param dir a path that leads to the directory held open; below it only plain names are used
 * @returns false when it is gone, or no file of ours
 */
export async function compressFile(
  dir: string,
  name: string,
  options: { readonly signal: AbortSignal; readonly onStep?: (step: CompressStep) => void },
): Promise<boolean> {
  const { signal, onStep = () => undefined } = options;
  const [plain, temporary, packed] = [name, name + TEMPORARY_SUFFIX, `${name}.gz`].map((at) => join(dir, at));
  if (plain === undefined || temporary === undefined || packed === undefined) return false;
  await using from = await openPlain(plain);
  const stats = await from?.stat();
  if (
    from === undefined ||
    stats?.isFile() !== true ||
    stats.nlink !== 1 ||
    stats.size > MOST_COMPRESSED_BYTES
  ) {
    return false;
  }
  // Left by an agent that was killed.
  await removed(temporary);
  await using to = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o644);
  try {
    await pipeline(readChunks(from), createGzip(), writeTo(to), { signal });
    // Readers ask when it was written to last (`--since`).
    // As the executor has made it, whatever our umask.
    await to.chmod(stats.mode & 0o777);
    await to.utimes(stats.atime, stats.mtime);
    await to.sync();
  } catch (error) {
    await removed(temporary);
    throw error;
  }
  onStep('written');
  await rename(temporary, packed);
  onStep('renamed');
  await syncDirectory(dir);
  // Removed meanwhile because it is too old: then so is this.
  if (!(await removed(plain))) await removed(packed);
  onStep('removed');
  return true;
}

async function* readChunks(handle: FileHandle): AsyncGenerator<Buffer, void, void> {
  for (let at = 0; ;) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

function writeTo(handle: FileHandle): (source: AsyncIterable<Buffer>) => Promise<void> {
  return async (source) => {
    for await (const chunk of source) await handle.writeFile(chunk);
  };
}

async function openPlain(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENXIO'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}

async function removed(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** The new name must last before the old one goes. */
async function syncDirectory(dir: string): Promise<void> {
  await using handle = await open(`${dir}/.`, constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync();
}
