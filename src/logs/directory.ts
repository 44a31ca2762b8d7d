/**
 * Owns access to one log directory. A task can write to its log directory, so nothing in there is trusted: the
 * directory is held by descriptor, names are opened below it without following a symlink, and only regular files are
 * read. Never writes.
 */
import { constants, watch } from 'node:fs';
import { open, readdir, type FileHandle } from 'node:fs/promises';
import { AgentError, errnoOf } from '../base/errors.js';
import { findBelow } from './alloc-dir.js';
import { expandFile, readExpandedSize } from './compressed.js';
import {
  COMPRESSED_SUFFIX,
  hasGap,
  selectLogFiles,
  type FoundLogFile,
  type LogFile,
  type LogStream,
} from './files.js';

const OPEN_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** O_NONBLOCK: opening a FIFO that a task put in place of a file must not hang. */
const OPEN_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Refusals to open that mean "there is no such log file (any more)". */
const NOT_A_LOG = new Set(['ENOENT', 'ELOOP', 'ENXIO', 'EISDIR', 'ENODEV']);

/** Calls `onChange` when something in the directory changes. Undefined when the host has no watch to spare. */
export type WatchDirectory = (path: string, onChange: () => void) => Disposable | undefined;

/** fs.watch: a hint that can be lost or never come, so whoever uses it also looks from time to time. */
export const watchDirectory: WatchDirectory = (path, onChange) => {
  try {
    const watcher = watch(path, onChange);
    watcher.on('error', () => {
      watcher.close();
    });
    return {
      [Symbol.dispose]: () => {
        watcher.close();
      },
    };
  } catch {
    // Out of inotify watches, or the directory went away: the caller looks from time to time anyway, ignoring.
    return undefined;
  }
};

/** A log directory, held open. Whoever opens it closes it. */
export class LogDirectory implements AsyncDisposable {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /**
   * @param root a directory above it that is ours; below it no name is trusted to stay what it is
   * @throws AgentError not_found when there is no such directory (or a symlink in its place)
   */
  static async open(path: string, root = path): Promise<LogDirectory> {
    const missing = (cause: unknown): AgentError =>
      new AgentError('not_found', `no log directory at ${path}: the task has not been set up`, { cause });
    try {
      await using found = await findBelow(root, path.slice(root.length));
      if (!found.stats.isDirectory()) throw missing(undefined);
      return new LogDirectory(await open(`${found.path}/.`, OPEN_DIRECTORY));
    } catch (cause) {
      const isMissing = cause instanceof AgentError || errnoOf(cause) === 'ENOENT';
      throw isMissing ? missing(cause) : cause;
    }
  }

  /** A path that leads here for as long as the directory is held, whatever becomes of its name. */
  get path(): string {
    return `/proc/self/fd/${this.#handle.fd}`;
  }

  /** The files of one stream, oldest first. */
  async list(task: string, stream: LogStream): Promise<LogFile[]> {
    const files = selectLogFiles(await readdir(this.path), task, stream);
    // A name that changes while a large directory is read can be missed, before and after: then it is there by now.
    return hasGap(files) ? selectLogFiles(await readdir(this.path), task, stream) : files;
  }

  /** True once the directory was removed: nothing will ever be added to it. */
  async isRemoved(): Promise<boolean> {
    return (await this.#handle.stat()).nlink === 0;
  }

  /** As `list`, with sizes and times; files that are gone or no regular files are left out. */
  async find(task: string, stream: LogStream): Promise<FoundLogFile[]> {
    const found: FoundLogFile[] = [];
    for (const file of await this.list(task, stream)) {
      await using opened = await this.openLog(file);
      if (opened !== undefined) found.push({ ...file, ...(await opened.look()) });
    }
    return found;
  }

  /** Opens a log file, compressed or not; undefined when it is gone. The caller closes it. */
  async openLog({ name }: LogFile): Promise<OpenLogFile | undefined> {
    // In this order: it may be compressed at this moment, and is never the other way round.
    for (const suffix of ['', COMPRESSED_SUFFIX]) {
      const handle = await this.openFile(name + suffix);
      if (handle !== undefined) return new OpenLogFile(this.path, handle, suffix !== '');
    }
    return undefined;
  }

  /** Opens a regular file for reading; undefined when it is gone or is anything else. The caller closes it. */
  async openFile(name: string): Promise<FileHandle | undefined> {
    let handle: FileHandle;
    try {
      handle = await open(`${this.path}/${name}`, OPEN_FILE);
    } catch (error) {
      if (NOT_A_LOG.has(errnoOf(error) ?? '')) return undefined;
      throw error;
    }
    try {
      if ((await handle.stat()).isFile()) return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** A log file held open. What becomes of its name does not matter any more. */
export class OpenLogFile implements AsyncDisposable {
  readonly #dir: string;
  readonly #isCompressed: boolean;
  #handle: FileHandle;
  #isExpanded = false;

  constructor(dir: string, handle: FileHandle, isCompressed: boolean) {
    this.#dir = dir;
    this.#handle = handle;
    this.#isCompressed = isCompressed;
  }

  async look(): Promise<{ readonly sizeBytes: number; readonly modifiedAtMs: number }> {
    const { size, mtimeMs } = await this.#handle.stat();
    const isPlain = !this.#isCompressed || this.#isExpanded;
    return { sizeBytes: isPlain ? size : await readExpandedSize(this.#handle), modifiedAtMs: mtimeMs };
  }

  /** Fills `buffer` from its beginning. @returns how many bytes there were; 0 = the end */
  async read(buffer: Buffer, lengthBytes: number, at: number): Promise<number> {
    if (this.#isCompressed && !this.#isExpanded) {
      const expanded = await expandFile(this.#handle, this.#dir);
      await this.#handle.close();
      this.#handle = expanded;
      this.#isExpanded = true;
    }
    return (await this.#handle.read(buffer, 0, lengthBytes, at)).bytesRead;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}
