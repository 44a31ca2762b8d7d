/** Owns the layout of the data directory (contract §7). */
import { existsSync } from 'node:fs';
import { chmod, mkdir, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AgentError, describeSystemError, errnoOf } from '../base/errors.js';
import { mountsWithin } from '../base/mounts.js';
import type { TaskDirs } from '../drivers/driver.js';

export class DataDir {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  get stateDb(): string {
    return join(this.path, 'state.db');
  }

  /** Run directories: `<run>/<xx>/<run_id>`. */
  get runDir(): string {
    return join(this.path, 'run');
  }

  /** Directories that will be run or alloc directories. */
  spares(kind: 'run' | 'alloc'): string {
    return join(this.path, 'spare', kind);
  }

  get allocDir(): string {
    return join(this.path, 'alloc');
  }

  taskDirs(allocId: string, task: string): TaskDirs {
    const alloc = join(this.allocDir, allocId);
    const taskDir = join(alloc, task);
    return {
      allocDir: join(alloc, 'alloc'),
      taskDir,
      localDir: join(taskDir, 'local'),
      secretsDir: join(taskDir, 'secrets'),
      logDir: join(alloc, 'alloc', 'logs'),
    };
  }

  /**
   * Makes what is not there. Others may pass through (tasks run as other users) but not list.
   * @throws AgentError bad_request when it cannot be a data directory of ours
   */
  async make(): Promise<void> {
    try {
      await this.#make();
    } catch (cause) {
      const isForeign = errnoOf(cause) === 'EPERM' || errnoOf(cause) === 'EACCES';
      const why = isForeign ? 'it belongs to another user' : describeSystemError(cause);
      throw new AgentError(
        'bad_request',
        `cannot use ${this.path} as data directory: ${why}; give another one with --data-dir`,
        { cause },
      );
    }
  }

  async #make(): Promise<void> {
    await makeDirs(this.path);
    await chmod(this.path, 0o711);
    await mkdir(this.runDir, { recursive: true });
    await chmod(this.runDir, 0o700);
    await mkdir(this.allocDir, { recursive: true });
    await chmod(this.allocDir, 0o711);
  }

  /**
   * Removes all that an alloc has on disk.
   * @throws AgentError conflict while something is mounted in there: it would be emptied; a system error
   */
  async removeAlloc(allocId: string): Promise<void> {
    const dir = join(this.allocDir, allocId);
    const [point] = existsSync(dir) ? mountsWithin(dir) : [];
    if (point !== undefined) {
      throw new AgentError(
        'conflict',
        `${dir} is not removed while something is mounted on ${point}: unmount it; holdfast doctor says more`,
      );
    }
    await rm(dir, { recursive: true, force: true });
  }
}

/** How full the disk below `path` is, as those who are not root see it. */
export async function readDiskUse(path: string): Promise<{ usedPercent: number; inodesUsedPercent: number }> {
  const { blocks, bfree, bavail, files, ffree } = await statfs(path);
  const usable = blocks - bfree + bavail;
  return {
    usedPercent: usable === 0 ? 0 : (100 * (blocks - bfree)) / usable,
    // Some file systems do not count them.
    inodesUsedPercent: files === 0 ? 0 : (100 * (files - ffree)) / files,
  };
}

/** As mkdir with `recursive`, which never comes back where the kernel lets nobody make one (`/proc/x`). */
async function makeDirs(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'EEXIST' && (await isDirectory(path))) return;
    const parent = dirname(path);
    if (errno !== 'ENOENT' || parent === path || (await isDirectory(parent))) throw error;
    await makeDirs(parent);
    await mkdir(path);
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    // Not there, or not for us: the caller has the error that matters, ignoring.
    return false;
  }
}
