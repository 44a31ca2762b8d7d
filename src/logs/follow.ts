/**
 * Owns the reading of one stream of a task's log across its rotated files, and following it while it grows. Every
 * byte is given once, in order, also when files are rotated or the oldest are removed meanwhile. Memory is bounded by
 * one chunk, descriptors by MOST_HELD_FILES; the reader is never in the way of the writer.
 */
import type { Clock } from '../base/clock.js';
import { Changes } from './changes.js';
import { LogDirectory, type OpenLogFile, type WatchDirectory } from './directory.js';
import { endOf, type LogFile, type LogOrigin, type LogPosition, type LogStream } from './files.js';
import { findPosition } from './position.js';

/** Which text to read. */
export interface LogSource {
  /** `<data>/alloc/<id>/alloc/logs`. */
  readonly logDir: string;
  /** A directory of ours above it: what lies between belongs to tasks. Default: logDir itself. */
  readonly root?: string;
  readonly task: string;
  readonly stream: LogStream;
}

export interface ReadLogOptions {
  readonly from: LogOrigin;
  /** False = up to the end as it was when reading began. */
  readonly follow: boolean;
  readonly clock: Clock;
  /** Ends the reading at once (the reader has left). */
  readonly signal?: AbortSignal;
  /** Ends the following at the end of what is there (the task is over, nothing more will come). */
  readonly complete?: AbortSignal;
  readonly watch?: WatchDirectory;
}

/** A piece of the text. */
export interface LogChunk {
  /** Name of the file it comes from. */
  readonly file: string;
  /** Offset in that file of the first byte of `data`. */
  readonly offset: number;
  /** At most CHUNK_BYTES; never empty. */
  readonly data: Buffer;
  /** Files between the chunk before and this one that were removed before they could be read. 0 = no gap. */
  readonly filesLost: number;
}

/** Size of one read. Large enough to make the cost of a look at the directory small. */
export const CHUNK_BYTES = 64 * 1024;
/**
 * Files opened ahead of the one being read, so that their bytes are not lost when they are removed. Each may hold back
 * the disk space of a removed file for as long as a slow reader needs, hence a bound (Nomad's default keeps 10).
 */
const MOST_HELD_FILES = 16;

const EMPTY = Buffer.alloc(0);

interface HeldFile extends LogFile {
  readonly open: OpenLogFile;
}

/**
 * Reads, and with `follow` goes on reading, one stream of a task. Ends when `signal` aborts, when the directory is
 * removed, and without `follow` at the end.
 * @throws AgentError not_found when there is no log directory
 */
export async function* readLog(
  source: LogSource,
  options: ReadLogOptions,
): AsyncGenerator<LogChunk, void, void> {
  await using directory = await LogDirectory.open(source.logDir, source.root);
  const found = await directory.find(source.task, source.stream);
  const begin = await findPosition(directory, found, options.from);
  await using cursor = new Cursor(directory, source, begin, options.from.kind === 'position');
  using changes = new Changes(directory.path, options);
  const end = options.follow ? undefined : endOf(found);
  const aborted = (): boolean => options.signal?.aborted === true;

  while (!aborted()) {
    // The order matters: what changes after this line wakes the wait below, what changed before it is seen by look().
    changes.reset();
    const isLast = options.complete?.aborted === true;
    const isGone = await directory.isRemoved();
    await cursor.look();
    let isAtEnd = false;
    while (!isAtEnd && !aborted()) {
      const next = await cursor.read(end);
      if (next === 'end') isAtEnd = true;
      else {
        if (next !== undefined) yield next;
        await cursor.look();
      }
    }
    if (!options.follow || isLast || isGone) return;
    await changes.wait();
  }
}

/** The place of a reader: the file it reads, and the newer ones it holds open. */
class Cursor implements AsyncDisposable {
  readonly #directory: LogDirectory;
  readonly #source: LogSource;
  /** Where reading begins; its file may be gone by the time it is looked for. */
  readonly #begin: LogPosition;
  /** The file being read and the newer ones, oldest first. */
  readonly #held: HeldFile[] = [];
  readonly #scratch = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  #newestHeld: number;
  #offsetBytes = 0;
  /** Number of the file that the last chunk came from. */
  #lastRead: number | undefined;

  /** @param isResumed `begin` was reached by reading: what is missing from there on is lost */
  constructor(directory: LogDirectory, source: LogSource, begin: LogPosition, isResumed: boolean) {
    this.#directory = directory;
    this.#source = source;
    this.#begin = begin;
    this.#newestHeld = begin.fileNumber - 1;
    this.#lastRead = isResumed ? begin.fileNumber - 1 : undefined;
  }

  /** Opens the files that are new since the last look. */
  async look(): Promise<void> {
    const files = await this.#directory.list(this.#source.task, this.#source.stream);
    for (const file of files) {
      if (file.number <= this.#newestHeld) continue;
      if (this.#held.length === MOST_HELD_FILES) break;
      const open = await this.#directory.openLog(file);
      if (open === undefined) continue;
      this.#held.push({ ...file, open });
      this.#newestHeld = file.number;
      if (file.number === this.#begin.fileNumber) this.#offsetBytes = this.#begin.offsetBytes;
    }
  }

  /**
   * Reads on, but not beyond `end`.
   * @returns undefined when a file was finished and the next one is to be read, 'end' when there is no more now
   */
  async read(end: LogPosition | undefined): Promise<LogChunk | 'end' | undefined> {
    const current = this.#held[0];
    if (current === undefined || (end !== undefined && current.number > end.fileNumber)) return 'end';
    const isLast = end !== undefined && current.number === end.fileNumber;
    const wantedBytes = isLast ? Math.min(CHUNK_BYTES, end.offsetBytes - this.#offsetBytes) : CHUNK_BYTES;
    const data = wantedBytes > 0 ? await this.#readCurrent(current, wantedBytes) : EMPTY;
    if (data.length > 0) {
      const chunk = {
        file: current.name,
        offset: this.#offsetBytes,
        data,
        filesLost: this.#filesLost(current),
      };
      this.#offsetBytes += data.length;
      this.#lastRead = current.number;
      return chunk;
    }
    // A newer file is made only after the last byte of this one; it was seen before this read, so this file is done.
    if (isLast || this.#held.length === 1) return 'end';
    this.#held.shift();
    this.#offsetBytes = 0;
    await current.open[Symbol.asyncDispose]();
    return undefined;
  }

  async #readCurrent(current: HeldFile, wantedBytes: number): Promise<Buffer> {
    const bytesRead = await current.open.read(this.#scratch, wantedBytes, this.#offsetBytes);
    if (bytesRead > 0) return Buffer.from(this.#scratch.subarray(0, bytesRead));
    if (this.#held.length === 1 && (await current.open.look()).sizeBytes < this.#offsetBytes) {
      // Somebody emptied the file under us: what is in it now was never given.
      this.#offsetBytes = 0;
    }
    return EMPTY;
  }

  #filesLost(current: LogFile): number {
    return this.#lastRead === undefined ? 0 : Math.max(0, current.number - this.#lastRead - 1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#held.splice(0).map(({ open }) => open[Symbol.asyncDispose]()));
  }
}
