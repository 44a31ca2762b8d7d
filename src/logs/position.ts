/** Owns the search for the place at which a reader begins. Reads backwards, in blocks, when lines are counted. */
import type { LogDirectory, OpenLogFile } from './directory.js';
import {
  endOf,
  fromEnd,
  fromStart,
  fromTime,
  LineTail,
  type FoundLogFile,
  type LogOrigin,
  type LogPosition,
} from './files.js';

/** Size of one backward read. */
const BLOCK_BYTES = 64 * 1024;

/** Turns an origin into a place, for the files as they were found. */
export async function findPosition(
  directory: LogDirectory,
  files: readonly FoundLogFile[],
  from: LogOrigin,
): Promise<LogPosition> {
  switch (from.kind) {
    case 'start':
      return fromStart(files, from.offsetBytes);
    case 'end':
      return fromEnd(files, from.offsetBytes);
    case 'since':
      return fromTime(files, from.atMs);
    case 'position':
      return from.at;
    case 'lines':
      return from.count === 0 ? endOf(files) : findLines(directory, files, from.count);
  }
}

async function findLines(
  directory: LogDirectory,
  files: readonly FoundLogFile[],
  count: number,
): Promise<LogPosition> {
  const tail = new LineTail(count);
  let oldest = endOf(files);
  for (const file of files.toReversed()) {
    await using open = await directory.openLog(file);
    // Removed since it was found: what is left begins after it.
    if (open === undefined) return oldest;
    const offsetBytes = await searchBackwards(open, file.sizeBytes, tail);
    if (offsetBytes !== undefined) return { fileNumber: file.number, offsetBytes };
    oldest = { fileNumber: file.number, offsetBytes: 0 };
  }
  return oldest;
}

/** @returns the offset in the file at which the wanted lines begin; undefined = in an older file */
async function searchBackwards(
  open: OpenLogFile,
  sizeBytes: number,
  tail: LineTail,
): Promise<number | undefined> {
  const buffer = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, sizeBytes));
  for (let endBytes = sizeBytes; endBytes > 0;) {
    const startBytes = Math.max(0, endBytes - BLOCK_BYTES);
    const bytesRead = await open.read(buffer, endBytes - startBytes, startBytes);
    const at = tail.takeBlock(buffer.subarray(0, bytesRead));
    if (at !== undefined) return startBytes + at;
    endBytes = startBytes;
  }
  return undefined;
}
