/** Owns which program a task's `command` means, and how a start that failed reads for people. */
import { accessSync, constants, statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { constants as systemConstants } from 'node:os';
import { getSystemErrorMap, getSystemErrorName } from 'node:util';
import { AgentError } from '../base/errors.js';
import type { StartFailedRecord } from '../executor/exit-record.js';
import type { TaskDirs } from './driver.js';

/** Where a task that sets no PATH is looked for: what a login gives on common systems. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Absolute path of the program: as given, else in the task's `local`, in its directory, on the PATH of its env.
 * @throws AgentError start_failed, naming where it was looked for
 */
export function findProgram(command: string, env: Readonly<Record<string, string>>, dirs: TaskDirs): string {
  if (isAbsolute(command)) return command;
  const onPath = (env['PATH'] ?? DEFAULT_PATH).split(':').filter((dir) => isAbsolute(dir));
  const searched = command.includes('/') ? [] : [...new Set(onPath)];
  const candidates = [dirs.localDir, dirs.taskDir, ...searched].map((dir) => join(dir, command));
  let notExecutable: string | undefined;
  for (const candidate of candidates) {
    const found = probe(candidate);
    if (found === 'executable') return candidate;
    if (found === 'not executable') notExecutable ??= candidate;
  }
  const hint = notExecutable === undefined ? '' : `; ${notExecutable} is there, but is not executable`;
  throw new AgentError(
    'start_failed',
    `no program ${JSON.stringify(command)} in the task's directory${searched.length === 0 ? '' : ` or its PATH, ${searched.join(':')}`}${hint}`,
  );
}

function probe(path: string): 'executable' | 'not executable' | 'absent' {
  try {
    if (!statSync(path).isFile()) return 'absent';
  } catch {
    return 'absent';
  }
  try {
    accessSync(path, constants.X_OK);
    return 'executable';
  } catch {
    return 'not executable';
  }
}

/** What each stage of a start tries to do; names are those of native/. */
const STAGES: ReadonlyMap<string, (detail: string) => string> = new Map([
  ['exec', (path: string) => `cannot run ${path}`],
  ['chdir', (dir: string) => `cannot use the working directory ${dir}`],
  ['user', (user: string) => `cannot find the user ${user}`],
  ['groups', (user: string) => `cannot take on the groups of user ${user}`],
  ['gid', (user: string) => `cannot take on the group of user ${user}`],
  ['uid', (user: string) => `cannot become user ${user}`],
  ['cgroup', (dir: string) => `cannot join the cgroup ${dir}`],
  ['join_procs', (file: string) => `cannot join the cgroup by ${file}`],
  ['log_dir', (dir: string) => `cannot write logs to ${dir}`],
  ['oom_score_adj', () => 'cannot set oom_score_adj'],
  ['clone', () => 'cannot make a process'],
  ['user_namespace', () => 'cannot make a user namespace'],
  ['namespaces', (which: string) => `cannot make a ${which} namespace of its own`],
  ['init', () => 'cannot make process 1 of the pid namespace'],
  ['root', () => 'cannot make a root of its own'],
  ['mount', (what: string) => `cannot mount ${what}`],
  ['network', () => 'cannot raise the loopback of its network'],
  ['rlimit', (limit: string) => `cannot set the limit ${describeLimit(limit)}`],
  ['nice', () => 'cannot set its niceness'],
  ['capabilities', () => 'cannot give it its capabilities'],
  ['seccomp', () => 'cannot filter its system calls'],
  ['gate', (how: string) => `the task was ${how}`],
]);

/** Shortages that pass: the same start may work later. */
const PASSING = new Set([
  'EAGAIN',
  'ENOMEM',
  'EMFILE',
  'ENFILE',
  'ENOSPC',
  'EDQUOT',
  'EIO',
  'ETXTBSY',
  'EINTR',
]);

/** The child was killed before it became the task, by the OOM killer for example: that says nothing of the next try. */
const KILLED = systemConstants.errno.ECHILD;

/** A failed start in words: `cannot run /bin/x: no such file or directory (ENOENT)`. */
function describeStartFailure(record: StartFailedRecord): string {
  const errno = errnoName(record.errno);
  // The one that is looked for is in no file that could be missing.
  if (record.stage === 'user' && errno === 'ENOENT') return `there is no user ${record.detail}`;
  if (record.stage === 'user' && errno === 'EPERM')
    return `cannot run as user ${record.detail}: only an agent that runs as root can`;
  const what = STAGES.get(record.stage)?.(record.detail) ?? `cannot start: ${record.stage} ${record.detail}`;
  if (record.errno === 0 || record.errno === KILLED) return what;
  const [, text] = getSystemErrorMap().get(-record.errno) ?? [];
  const reason = `${text ?? 'unknown error'} (${errno})`;
  const hint = hintFor(record.stage, errno, record.detail);
  return `${what}: ${reason}${hint}`;
}

/** `nofile 1024 4096` → `nofile to 1024 (hard 4096)`. */
function describeLimit(text: string): string {
  const [name = text, soft = '', hard = ''] = text.split(' ');
  const say = (value: string): string => (value === '-1' ? 'unlimited' : value);
  return `${name} to ${say(soft)} (hard ${say(hard)})`;
}

/** What to do, where that is known. */
function hintFor(stage: string, errno: string, detail: string): string {
  if (stage === 'exec' && errno === 'ENOENT') {
    return detail.startsWith('/')
      ? '; if the file is there, the interpreter in its first line, or its loader, is not'
      : ": it is neither in /local nor on the task's PATH, in the task's own root";
  }
  if (errno !== 'EPERM' && errno !== 'EACCES') return '';
  switch (stage) {
    case 'rlimit':
      return '; it is above what the agent has itself: raise that (LimitNOFILE= and the like in its unit), or ask for less';
    case 'nice':
      return '; only an agent that is root, with CAP_SYS_NICE, gives a task more than its share';
    case 'capabilities':
      return '; the agent does not have them itself';
    case 'user_namespace':
    case 'namespaces':
    case 'root':
      return '; "holdfast node status" says what this host can do, and what to change';
    default:
      return '';
  }
}

/** The error that a driver's `start` throws for it. */
export function startFailure(record: StartFailedRecord): AgentError {
  return new AgentError('start_failed', describeStartFailure(record), {
    recoverable: record.errno === KILLED || PASSING.has(errnoName(record.errno)),
  });
}

function errnoName(errno: number): string {
  try {
    return getSystemErrorName(-errno);
  } catch {
    return `errno ${errno}`;
  }
}
