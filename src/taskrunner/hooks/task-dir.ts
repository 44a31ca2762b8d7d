/** Hook: makes the directories of the task and of its alloc. Idempotent, so never marked done. */
import { chmodSync, mkdirSync } from 'node:fs';
import type { TaskDirs } from '../../drivers/driver.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { TaskHook } from './hook.js';

const SETUP: TaskEvent = { type: 'Task Setup', message: 'Building Task Directory' };

export const taskDirHook: TaskHook = {
  name: 'task_dir',
  prestart: ({ dirs, emit, attempt }) =>
    new Promise((resolve) => {
      if (attempt === 0) emit(SETUP);
      makeTaskDirs(dirs);
      resolve(undefined);
    }),
};

/** Synchronous, as the store is on the same disk: a dozen hops to other threads would take longer than the work. */
function makeTaskDirs(dirs: TaskDirs): void {
  // Shared by tasks that may run as different users, as in Nomad; secrets are the task's own.
  for (const dir of [dirs.allocDir, `${dirs.allocDir}/data`, dirs.taskDir, dirs.localDir]) {
    mkdirSync(dir, { recursive: true });
    chmodSync(dir, 0o777);
  }
  for (const dir of [`${dirs.allocDir}/tmp`, `${dirs.taskDir}/tmp`]) {
    mkdirSync(dir, { recursive: true });
    chmodSync(dir, 0o1777);
  }
  mkdirSync(dirs.logDir, { recursive: true, mode: 0o755 });
  mkdirSync(dirs.secretsDir, { recursive: true, mode: 0o700 });
}
