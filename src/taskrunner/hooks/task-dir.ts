/** Hook: makes the directories of the task and of its alloc. Idempotent, so never marked done. */
import { closeSync, constants, existsSync, fchmodSync, mkdirSync, openSync } from 'node:fs';
import { AgentError, describeSystemError } from '../../base/errors.js';
import { Pace } from '../../base/pace.js';
import type { TaskDirs } from '../../drivers/driver.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { TaskHook } from './hook.js';

const SETUP: TaskEvent = { type: 'Task Setup', message: 'Building Task Directory' };

/** So many tasks are set up in one turn of the event loop. */
const SET_UP_IN_A_TURN = 25;

export function taskDirHook(): TaskHook {
  const pace = new Pace(SET_UP_IN_A_TURN);
  return {
    name: 'task_dir',
    async prestart({ dirs, emit }) {
      await pace.turn();
      // Told once, also when a later hook fails and the set-up is tried again.
      if (!existsSync(dirs.taskDir)) emit(SETUP);
      makeTaskDirs(dirs);
      return undefined;
    },
  };
}

/** Synchronous, as the store is on the same disk: a dozen hops to other threads would take longer than the work. */
function makeTaskDirs(dirs: TaskDirs): void {
  // Shared by tasks that may run as different users, as in Nomad; secrets are the task's own.
  // Sticky, so that no task of another user can put something of its own in the place of `logs`, `local` or `secrets`.
  for (const dir of [dirs.allocDir, dirs.taskDir, `${dirs.allocDir}/tmp`, `${dirs.taskDir}/tmp`]) {
    mkdirSync(dir, { recursive: true });
    setMode(dir, 0o1777);
  }
  for (const dir of [`${dirs.allocDir}/data`, dirs.localDir]) {
    mkdirSync(dir, { recursive: true });
    setMode(dir, 0o777);
  }
  mkdirSync(dirs.logDir, { recursive: true, mode: 0o755 });
  mkdirSync(dirs.secretsDir, { recursive: true, mode: 0o700 });
}

/** An earlier run may have put a link in a directory's place: whatever that leads to is not touched. */
function setMode(dir: string, mode: number): void {
  let opened: number;
  try {
    opened = openSync(dir, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (cause) {
    throw new AgentError('hook_failed', `${dir}: ${describeSystemError(cause)}`, { cause });
  }
  try {
    fchmodSync(opened, mode);
  } finally {
    closeSync(opened);
  }
}
