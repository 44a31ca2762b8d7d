/**
 * Owns the way into an alloc's directory. Everything in it belongs to tasks, which may swap a name for a symlink between
 * any two of our steps: so no path of more than one name is ever given to the kernel. Each name is opened by itself,
 * below a directory that is held, without following it; where it is a symlink, its text is walked in the same way, and
 * where the walk would leave the directory it ends. Never writes.
 */
import { constants, type Stats } from 'node:fs';
import { lstat, open, opendir, readlink, type FileHandle } from 'node:fs/promises';
import { AgentError, errnoOf } from '../base/errors.js';

/** Names a thing without opening it: no FIFO hangs, no device wakes up. Not in Node's list; the same on its platforms. */
const O_PATH = 0o10000000;
const LOOK = O_PATH | constants.O_NOFOLLOW;
/** O_NONBLOCK: what was a file may be nothing else by now, but costs nothing to say. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;

/** As the kernel has it. */
const MOST_LINKS = 40;
const LONGEST_PATH = 4096;
/** Entries of one directory that are listed: each costs a look. */
const MOST_ENTRIES = 10_000;

/** Directories of a task whose content is for the task only. */
const SECRET_DIRS = new Set(['secrets', 'private']);
/** The directory that the tasks of an alloc share; all others beside it belong to one task each. */
const SHARED_DIR = 'alloc';

const NOT_THERE = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG']);

/** A thing that was found. Whoever finds it closes it. */
export interface Found extends AsyncDisposable {
  /** Its true place below the alloc's directory, without links: what the names say, not what was asked for. */
  readonly trail: readonly string[];
  readonly stats: Stats;
  /** Leads to it for as long as it is held, whatever becomes of its name. */
  readonly path: string;
}

export interface Entry {
  readonly name: string;
  readonly stats: Stats;
}

interface Step {
  readonly name: string;
  readonly handle: FileHandle;
}

/**
 * Finds `path` below `root`. Slashes at its beginning mean `root`.
 * @throws AgentError not_found, not_permitted when it leads out of `root`, bad_request
 */
export async function findBelow(root: string, path: string): Promise<Found> {
  if (path.includes('\0') || path.length > LONGEST_PATH) {
    throw new AgentError('bad_request', 'query parameter path: no path');
  }
  const walk = new Walk(root, path);
  try {
    return await walk.run();
  } catch (error) {
    await walk.close();
    throw error;
  }
}

class Walk {
  readonly #root: string;
  readonly #asked: string;
  readonly #pending: string[];
  /** From the root down to where we are. */
  readonly #steps: Step[] = [];
  #links = 0;

  constructor(root: string, path: string) {
    this.#root = root;
    this.#asked = path;
    this.#pending = path.split('/');
  }

  async run(): Promise<Found> {
    this.#steps.push({ name: '', handle: await this.#look(this.#root) });
    for (let name = this.#pending.shift(); name !== undefined; name = this.#pending.shift()) {
      if (name === '..') await this.#up();
      else if (name !== '' && name !== '.') await this.#down(name);
    }
    const here = this.#here();
    const stats = await here.handle.stat();
    await this.#closeAll(this.#steps.splice(0, this.#steps.length - 1));
    return {
      trail: this.#trail,
      stats,
      path: pathOf(here.handle),
      [Symbol.asyncDispose]: () => here.handle.close(),
    };
  }

  async close(): Promise<void> {
    await this.#closeAll(this.#steps.splice(0));
  }

  #trail: readonly string[] = [];

  async #down(name: string): Promise<void> {
    const { handle: here } = this.#here();
    if (!(await here.stat()).isDirectory()) throw this.#missing();
    const handle = await this.#look(`${pathOf(here)}/${name}`);
    this.#steps.push({ name, handle });
    if ((await handle.stat()).isSymbolicLink()) await this.#followLink(name);
    else this.#noteTrail();
  }

  async #followLink(name: string): Promise<void> {
    await this.#closeAll(this.#steps.splice(-1));
    this.#links += 1;
    if (this.#links > MOST_LINKS) throw new AgentError('bad_request', `${this.#asked}: too many symlinks`);
    const { handle: here } = this.#here();
    let target: string;
    try {
      target = await readlink(`${pathOf(here)}/${name}`);
    } catch (cause) {
      // It was a link a moment ago.
      throw new AgentError('not_found', `${this.#asked} was changed while it was looked for`, { cause });
    }
    if (target.startsWith('/')) {
      const below = `${this.#root}/`;
      if (!target.startsWith(below)) throw this.#escape();
      await this.#closeAll(this.#steps.splice(1));
      target = target.slice(below.length);
    }
    this.#pending.unshift(...target.split('/'));
    this.#noteTrail();
  }

  async #up(): Promise<void> {
    if (this.#steps.length === 1) throw this.#escape();
    if (!(await this.#here().handle.stat()).isDirectory()) throw this.#missing();
    await this.#closeAll(this.#steps.splice(-1));
    this.#noteTrail();
  }

  #noteTrail(): void {
    this.#trail = this.#steps.slice(1).map(({ name }) => name);
  }

  #here(): Step {
    const here = this.#steps.at(-1);
    if (here === undefined) throw new AgentError('internal', 'a walk without a root');
    return here;
  }

  async #look(path: string): Promise<FileHandle> {
    try {
      return await open(path, LOOK);
    } catch (cause) {
      if (NOT_THERE.has(errnoOf(cause) ?? '')) throw this.#missing(cause);
      throw cause;
    }
  }

  #missing(cause?: unknown): AgentError {
    return new AgentError('not_found', `${this.#asked}: no such file or directory`, { cause });
  }

  #escape(): AgentError {
    return new AgentError('not_permitted', `${this.#asked} leads out of the alloc's directory`);
  }

  async #closeAll(steps: readonly Step[]): Promise<void> {
    await Promise.all(steps.map(({ handle }) => handle.close()));
  }
}

/** @throws AgentError not_permitted for what only its task may read */
export function refuseSecrets({ trail: [task, dir] }: Pick<Found, 'trail'>): void {
  if (task !== undefined && task !== SHARED_DIR && SECRET_DIRS.has(dir ?? '')) {
    throw new AgentError('not_permitted', `Reading secret file prohibited: ${task}/${dir ?? ''}`);
  }
}

/** Opens what was found, if it is a regular file. The caller closes it. @throws AgentError bad_request */
export async function openFound(found: Found): Promise<FileHandle> {
  if (!found.stats.isFile()) {
    const what = found.stats.isDirectory() ? 'a directory' : 'no regular file';
    throw new AgentError('bad_request', `/${found.trail.join('/')} is ${what}`);
  }
  // The same file: a descriptor is reopened, no name is looked up.
  return await open(found.path, READ);
}

/** What a directory holds, by name. @throws AgentError bad_request when it is none or holds too much */
export async function listFound(found: Found): Promise<readonly Entry[]> {
  if (!found.stats.isDirectory()) {
    throw new AgentError('bad_request', `/${found.trail.join('/')} is no directory`);
  }
  const names: string[] = [];
  for await (const { name } of await opendir(found.path)) {
    if (names.length === MOST_ENTRIES) {
      throw new AgentError(
        'bad_request',
        `/${found.trail.join('/')} has more than ${MOST_ENTRIES} entries: too many to list`,
      );
    }
    names.push(name);
  }
  const entries: Entry[] = [];
  for (const name of names.sort()) {
    try {
      entries.push({ name, stats: await lstat(`${found.path}/${name}`) });
    } catch (error) {
      // Removed since it was listed, ignoring.
      if (!NOT_THERE.has(errnoOf(error) ?? '')) throw error;
    }
  }
  return entries;
}

function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`;
}
