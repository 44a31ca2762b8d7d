/** Hook: makes the directories of the task and of its alloc. Idempotent, so never marked done. */
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { AgentError, describeSystemError } from '../../base/errors.js';
import type { MakeDir } from '../../base/spare-dirs.js';
import type { Pace } from '../../base/pace.js';
import type { TaskDirs } from '../../drivers/driver.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { TaskHook } from './hook.js';

const SETUP: TaskEvent = { type: 'Task Setup', message: 'Building Task Directory' };

const MODE_BITS = 0o7777;
/** Of the directory of an alloc: tasks pass through, as any user. */
const ROOT_MODE = 0o755;

/** What `furnishAlloc` calls the directory of the first task. No task is called that: names hold no control characters. */
const FIRST_TASK = '.task\u0001';

/**
 * @param pace of all set-ups of this agent
 * @param makeAllocDir makes the directory of an alloc as `furnishAlloc` does
 */
export function taskDirHook(pace: Pace, makeAllocDir: MakeDir): TaskHook {
  return {
    name: 'task_dir',
    async prestart({ dirs, emit }) {
      await pace.turn();
      if (existsSync(dirs.taskDir)) {
        makeTaskDirs(dirs);
        return undefined;
      }
      // Told once, also when a later hook fails and the set-up is tried again.
      emit(SETUP);
      const root = dirname(dirs.allocDir);
      const isNewAlloc = !existsSync(root);
      if (isNewAlloc) {
        mkdirSync(dirname(root), { recursive: true });
        makeAllocDir(root);
      } else chmodSync(root, ROOT_MODE);
      const firstTask = join(root, FIRST_TASK);
      if (existsSync(firstTask)) renameSync(firstTask, dirs.taskDir);
      // It may have been made by half, by an agent that was killed or on a disk that was full.
      if (!isNewAlloc) makeTaskDirs(dirs);
      return undefined;
    },
  };
}

/** Puts into the directory of an alloc what it has in common with all others, and what its first task needs. */
export function furnishAlloc(root: string): void {
  chmodSync(root, ROOT_MODE);
  const allocDir = join(root, 'alloc');
  const taskDir = join(root, FIRST_TASK);
  makeTaskDirs({
    allocDir,
    taskDir,
    logDir: join(allocDir, 'logs'),
    localDir: join(taskDir, 'local'),
    secretsDir: join(taskDir, 'secrets'),
  });
}

/**
 * Synchronous, as the store is on the same disk: a dozen hops to other threads would take longer than the work. At a
 * restart all of it is there, and is only looked at.
 */
function makeTaskDirs({ allocDir, taskDir, logDir, localDir, secretsDir }: TaskDirs): void {
  // Shared by tasks that may run as different users, as in Nomad; secrets are the task's own.
  // Sticky, so that no task of another user can put something of its own in the place of `logs`, `local` or `secrets`.
  const isNewAlloc = makeShared(allocDir, 0o1777, false);
  const isNewTask = makeShared(taskDir, 0o1777, false);
  makeShared(`${allocDir}/tmp`, 0o1777, isNewAlloc);
  makeShared(`${taskDir}/tmp`, 0o1777, isNewTask);
  makeShared(`${allocDir}/data`, 0o777, isNewAlloc);
  makeShared(localDir, 0o777, isNewTask);
  mkdirSync(logDir, { recursive: true, mode: 0o755 });
  mkdirSync(secretsDir, { recursive: true, mode: 0o700 });
}

/**
 * Makes a directory of exactly that mode, whatever the umask is.
 * @param isInNew it is in a directory that has just been made, and need not be looked for
 * @returns whether it was not there
 */
function makeShared(dir: string, mode: number, isInNew: boolean): boolean {
  const there = isInNew ? undefined : lstatSync(dir, { throwIfNoEntry: false });
  if (there?.isDirectory() === true && (there.mode & MODE_BITS) === mode) return false;
  mkdirSync(dir, { recursive: true });
  setMode(dir, mode);
  return there === undefined;
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
