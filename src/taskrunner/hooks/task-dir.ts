/** Hook: makes the directories of the task and of its alloc. Idempotent, so never marked done. */
import { chmod, mkdir } from 'node:fs/promises';
import type { TaskEvent } from '../../events/task-event.js';
import type { TaskHook } from './hook.js';

const SETUP: TaskEvent = { type: 'Task Setup', message: 'Building Task Directory' };

export const taskDirHook: TaskHook = {
  name: 'task_dir',
  prestart: async ({ dirs, emit, attempt }) => {
    if (attempt === 0) emit(SETUP);
    // Shared by tasks that may run as different users, as in Nomad; secrets are the task's own.
    for (const dir of [dirs.allocDir, `${dirs.allocDir}/data`, dirs.taskDir, dirs.localDir]) {
      await mkdir(dir, { recursive: true });
      await chmod(dir, 0o777);
    }
    for (const dir of [`${dirs.allocDir}/tmp`, `${dirs.taskDir}/tmp`]) {
      await mkdir(dir, { recursive: true });
      await chmod(dir, 0o1777);
    }
    await mkdir(dirs.logDir, { recursive: true, mode: 0o755 });
    await mkdir(dirs.secretsDir, { recursive: true, mode: 0o700 });
    return undefined;
  },
};
