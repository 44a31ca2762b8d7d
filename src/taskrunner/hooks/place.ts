/**
 * Owns the agent's way into directories that tasks can write: no step of it follows a symbolic link, and none is looked
 * up twice, so that a task cannot lead the agent elsewhere, however fast it swaps things. Each step opens one directory
 * below the one before by `/proc/self/fd`, which names the opened directory itself.
 */
import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rmdir, unlink, type FileHandle } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { AgentError, errnoOf } from '../../base/errors.js';
import { newRunId } from '../../base/ids.js';
import type { TaskDirs } from '../../drivers/driver.js';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** A path below a root that is ours. */
export interface Place {
  readonly root: string;
  /** At least one, unless the root itself is meant. */
  readonly names: readonly string[];
  /** As the job file has it, for people. */
  readonly shown: string;
}

/**
 * Where a path of the job file leads: below the task's directory, or below that of the alloc when it says so (`alloc/…`,
 * `${NOMAD_ALLOC_DIR}/…`). A leading `/` means the task's directory, as in Nomad.
 * @throws AgentError hook_failed when it leads out
 */
export function placeOf(path: string, dirs: TaskDirs): Place {
  const shared = below(path, dirs.allocDir) ?? below(path.replace(/^\/+/, ''), 'alloc');
  const root = shared === undefined ? dirs.taskDir : dirs.allocDir;
  const rest = shared ?? below(path, dirs.taskDir) ?? path;
  const normal = posix.normalize(rest.replace(/^\/+/, ''));
  const names = normal.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..') || names.some((name) => name.includes('\0'))) {
    throw new AgentError('hook_failed', `${path} leads out of the task's directory`);
  }
  return { root, names, shown: path };
}

function below(path: string, dir: string): string | undefined {
  if (path === dir) return '';
  return path.startsWith(`${dir}/`) ? path.slice(dir.length + 1) : undefined;
}

/** An opened directory. Close it. */
export class Directory implements AsyncDisposable {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /**
   * Opens the directory at `names` below `root`. @param make creates what is missing
   * @throws AgentError hook_failed when something in the way is no directory; a system error otherwise
   */
  static async open(root: string, names: readonly string[], make: boolean): Promise<Directory> {
    let directory = new Directory(await open(root, O_RDONLY | O_DIRECTORY));
    for (const name of names) {
      const parent = directory;
      try {
        directory = await parent.enter(name, make);
      } finally {
        await parent[Symbol.asyncDispose]();
      }
    }
    return directory;
  }

  /** Opens a directory in this one. */
  async enter(name: string, make: boolean): Promise<Directory> {
    const path = this.path(name);
    try {
      if (make) {
        await mkdir(path, 0o755).catch((error: unknown) => {
          if (errnoOf(error) !== 'EEXIST') throw error;
        });
      }
      return new Directory(await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    } catch (error) {
      throw asFailure(error, name);
    }
  }

  /** Good as long as this is open; the last name is not followed by those who do not ask for it. */
  path(name: string): string {
    return `/proc/self/fd/${this.#handle.fd}/${name}`;
  }

  /** A regular file, opened for reading. The caller closes it. */
  async openFile(name: string): Promise<FileHandle> {
    let handle: FileHandle;
    try {
      // A pipe must not hold up who opens it.
      handle = await open(this.path(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      throw asFailure(error, name);
    }
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    throw new AgentError('hook_failed', `${name} is not a regular file`);
  }

  /** Puts a file there as a whole: who opens the name sees the old one or the new one. */
  async replaceFile(
    name: string,
    how: { readonly mode: number; readonly uid?: number | undefined; readonly gid?: number | undefined },
    fill: (handle: FileHandle) => Promise<void>,
  ): Promise<void> {
    const temporary = this.path(`.holdfast-${newRunId()}`);
    const handle = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      await fill(handle);
      await handle.chown(how.uid ?? -1, how.gid ?? -1);
      await handle.chmod(how.mode);
      await handle.datasync();
      await rename(temporary, this.path(name));
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw asFailure(error, name);
    } finally {
      await handle.close();
    }
  }

  /**
   * Moves a file, link or directory of ours in here. A directory joins one that is there; anything else replaces what
   * is there.
   */
  async take(source: string, name: string): Promise<void> {
    const target = this.path(name);
    if ((await lstat(source)).isDirectory() && (await isDirectory(target))) {
      await using inner = await this.enter(name, false);
      for (const child of await readdir(source)) await inner.take(join(source, child), child);
      await rmdir(source);
      return;
    }
    try {
      await rename(source, target);
    } catch (error) {
      throw asFailure(error, name);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

function asFailure(error: unknown, name: string): unknown {
  const errno = errnoOf(error);
  if (errno === 'ELOOP' || errno === 'ENOTDIR') {
    return new AgentError(
      'hook_failed',
      `${name} is a link or a file where a directory or file was expected`,
      {
        cause: error,
      },
    );
  }
  if (errno === 'EISDIR' || errno === 'ENOTEMPTY' || errno === 'EEXIST') {
    return new AgentError('hook_failed', `a directory named ${name} is in the way`, { cause: error });
  }
  return error;
}
