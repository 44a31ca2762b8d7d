/** Owns the layout of the data directory (contract §7). */
import { chmod, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
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

  /** Makes what is not there. Others may pass through (tasks run as other users) but not list. */
  async make(): Promise<void> {
    await mkdir(this.path, { recursive: true });
    await chmod(this.path, 0o711);
    await mkdir(this.runDir, { recursive: true, mode: 0o700 });
    await mkdir(this.allocDir, { recursive: true });
    await chmod(this.allocDir, 0o711);
  }

  /** Removes all that an alloc has on disk. */
  async removeAlloc(allocId: string): Promise<void> {
    await rm(join(this.allocDir, allocId), { recursive: true, force: true });
  }
}
