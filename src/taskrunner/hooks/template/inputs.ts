/** Owns the files that templates read: where they may lie, how they are opened, and how a change is seen. */
import { constants } from 'node:fs';
import { open, realpath, type FileHandle } from 'node:fs/promises';
import { AgentError, errnoOf } from '../../../base/errors.js';
import type { TaskDirs } from '../../../drivers/driver.js';
import { Directory, placeOf } from '../place.js';

/** Larger than any settings; it is read into memory. */
const LARGEST = 8 * 1024 * 1024;

export interface InputRules {
  readonly dirs: TaskDirs;
  /** Directories and files of the host that templates may read besides the task's own. */
  readonly hostPaths: readonly string[];
}

export interface InputFile {
  readonly text: string;
  /** Differs when the file was changed or replaced. */
  readonly stamp: string;
}

/** A file that is not there (yet). */
export class MissingInput extends Error {
  readonly path: string;

  constructor(path: string) {
    super(`${path} is not there`);
    this.path = path;
  }
}

/** @throws MissingInput, AgentError hook_failed */
export async function readInput(path: string, rules: InputRules): Promise<InputFile> {
  await using file = await openInput(path, rules);
  const { size } = await file.stat();
  if (size > LARGEST) throw new AgentError('hook_failed', `${path} is larger than ${LARGEST} bytes`);
  const stamp = await stampOf(file);
  return { text: await file.readFile('utf8'), stamp };
}

/** The stamp of a file as it is now; `missing` when there is none. */
export async function stampInput(path: string, rules: InputRules): Promise<string> {
  try {
    await using file = await openInput(path, rules);
    return await stampOf(file);
  } catch (error) {
    if (error instanceof MissingInput) return 'missing';
    throw error;
  }
}

async function stampOf(file: FileHandle): Promise<string> {
  const { ino, size, mtimeNs } = await file.stat({ bigint: true });
  return `${ino}:${size}:${mtimeNs}`;
}

async function openInput(path: string, rules: InputRules): Promise<FileHandle> {
  try {
    return isOfHost(path, rules) ? await openOfHost(path, rules) : await openOfTask(path, rules.dirs);
  } catch (error) {
    if (!(error instanceof AgentError) && errnoOf(error) === 'ENOENT') throw new MissingInput(path);
    throw error;
  }
}

function isOfHost(path: string, { dirs, hostPaths }: InputRules): boolean {
  if (isBelow(path, dirs.taskDir) || isBelow(path, dirs.allocDir)) return false;
  return hostPaths.some((allowed) => isBelow(path, allowed));
}

function isBelow(path: string, dir: string): boolean {
  return path === dir || path.startsWith(`${dir.replace(/\/+$/, '')}/`);
}

/** Links are followed there, but not out of what is allowed. */
async function openOfHost(path: string, { hostPaths }: InputRules): Promise<FileHandle> {
  const real = await realpath(path);
  const allowed = await Promise.all(hostPaths.map((each) => realpath(each).catch(() => each)));
  if (!allowed.some((each) => isBelow(real, each))) {
    throw new AgentError('hook_failed', `${path} leads to ${real}, which no template_host_paths allows`);
  }
  const file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new AgentError('hook_failed', `${path} is not a regular file`);
}

async function openOfTask(path: string, dirs: TaskDirs): Promise<FileHandle> {
  const { root, names } = placeOf(path, dirs);
  const name = names.at(-1);
  if (name === undefined) throw new AgentError('hook_failed', `${path} is a directory`);
  await using directory = await Directory.open(root, names.slice(0, -1), false);
  return await directory.openFile(name);
}
