/**
 * Owns what of an archive becomes real. It writes below a directory of ours that no task can reach, and refuses whatever
 * would lead out of it, now or later: absolute paths, `..`, entries below a link, links out, devices, too much of it.
 */
import { chmod, link, lstat, mkdir, open, readlink, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { AgentError, errnoOf } from '../../../base/errors.js';
import type { ArtifactLimits } from './limits.js';

export interface ArchiveEntry {
  readonly path: string;
  readonly kind: 'directory' | 'file' | 'symlink' | 'hardlink' | 'other';
  readonly mode: number;
  /** Of links: where to. */
  readonly target: string;
  readonly content: AsyncIterable<Buffer | string>;
}

/** Deeper than any tree that people make. */
const DEEPEST = 100;
/** As the kernel follows them. */
const MOST_LINKS = 40;

export class Unpacker {
  readonly #root: string;
  readonly #limits: ArtifactLimits;
  readonly #links: (readonly string[])[] = [];
  #bytes = 0;
  #entries = 0;

  /** @param root an empty directory of ours */
  constructor(root: string, limits: ArtifactLimits) {
    this.#root = root;
    this.#limits = limits;
  }

  /** @throws AgentError hook_failed */
  async add(entry: ArchiveEntry): Promise<void> {
    const names = namesOf(entry.path);
    const name = names.at(-1);
    if (name === undefined) return;
    this.#entries += 1;
    if (this.#entries > this.#limits.maxFiles) throw bad(`it holds more than ${this.#limits.maxFiles} files`);
    await this.#makeParents(names, entry.path);
    const path = join(this.#root, ...names);
    switch (entry.kind) {
      case 'directory':
        await this.#makeDirectory(path, entry.path);
        return;
      case 'file':
        await this.#clear(path, entry.path);
        await this.#write(path, entry);
        return;
      case 'symlink':
        await this.#clear(path, entry.path);
        await symlink(entry.target, path);
        this.#links.push(names);
        return;
      case 'hardlink':
        await this.#clear(path, entry.path);
        await this.#linkTo(entry, path);
        return;
      case 'other':
        throw bad(`${entry.path} is neither a file, a directory nor a link`);
    }
  }

  /** Call when all is added: links are judged by the tree as it is then. @throws AgentError hook_failed */
  async finish(): Promise<void> {
    for (const names of this.#links) {
      if (!(await this.#staysInside(names)))
        throw bad(`the link ${names.join('/')} leads out of the archive`);
    }
  }

  async #makeParents(names: readonly string[], shown: string): Promise<void> {
    if (names.length > DEEPEST) throw bad(`${shown.slice(0, 200)} is nested too deeply`);
    for (let count = 1; count < names.length; count++) {
      await this.#makeDirectory(join(this.#root, ...names.slice(0, count)), shown);
    }
  }

  async #makeDirectory(path: string, shown: string): Promise<void> {
    try {
      await mkdir(path, 0o755);
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
      if (!(await lstat(path)).isDirectory())
        throw bad(`${shown} goes through something that is no directory`);
    }
  }

  /** A later entry of the same name replaces the earlier one, unless that is a directory. */
  async #clear(path: string, shown: string): Promise<void> {
    try {
      if ((await lstat(path)).isDirectory()) throw bad(`${shown} is there twice, once as a directory`);
      await rm(path);
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error;
    }
  }

  async #write(path: string, entry: ArchiveEntry): Promise<void> {
    await using file = await open(path, 'wx', 0o600);
    for await (const piece of entry.content) {
      const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
      this.#bytes += bytes.length;
      if (this.#bytes > this.#limits.maxUnpackedBytes) {
        throw bad(`it holds more than ${this.#limits.maxUnpackedBytes} bytes`);
      }
      await file.writeFile(bytes);
    }
    // No set-user-id bits; and who owns it can read and replace it.
    await chmod(path, (entry.mode & 0o777) | 0o600);
  }

  async #linkTo(entry: ArchiveEntry, path: string): Promise<void> {
    const names = namesOf(entry.target);
    const target = join(this.#root, ...names);
    const parents = names.slice(0, -1).map((_, at) => join(this.#root, ...names.slice(0, at + 1)));
    const kinds = await Promise.all([...parents, target].map((each) => kindOf(each)));
    const isOurs = kinds.at(-1) === 'file' && kinds.slice(0, -1).every((kind) => kind === 'directory');
    if (!isOurs)
      throw bad(`${entry.path} is a hard link to ${entry.target}, which is no file of the archive`);
    await link(target, path);
  }

  /**
   * Goes where a link leads, step by step, without asking the kernel: every step must stay below the root, and `..` may
   * only follow what is really there, because a later archive could put a link in its place.
   */
  async #staysInside(names: readonly string[]): Promise<boolean> {
    const todo = [...names];
    const at: string[] = [];
    let followed = 0;
    for (let name = todo.shift(); name !== undefined; name = todo.shift()) {
      if (name === '' || name === '.') continue;
      if (name === '..') {
        if (at.length === 0 || (await kindOf(join(this.#root, ...at))) !== 'directory') return false;
        at.pop();
        continue;
      }
      const path = join(this.#root, ...at, name);
      if ((await kindOf(path)) !== 'link') {
        at.push(name);
        continue;
      }
      followed += 1;
      const target = await readlink(path);
      if (target.startsWith('/') || followed > MOST_LINKS) return false;
      todo.unshift(...target.split('/'));
    }
    return true;
  }
}

async function kindOf(path: string): Promise<'file' | 'directory' | 'link' | 'other' | 'nothing'> {
  try {
    const stat = await lstat(path);
    if (stat.isSymbolicLink()) return 'link';
    return stat.isDirectory() ? 'directory' : stat.isFile() ? 'file' : 'other';
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return 'nothing';
    throw error;
  }
}

function namesOf(path: string): readonly string[] {
  if (path.startsWith('/')) throw bad(`${path.slice(0, 200)} is an absolute path`);
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw bad(`${path.slice(0, 200)} leads out of the archive`);
  if (path.includes('\0') || names.some((name) => Buffer.byteLength(name) > 255)) {
    throw bad(`${JSON.stringify(path.slice(0, 200))} is no name of a file`);
  }
  return names;
}

/** The next version of the archive may be a good one. */
export function bad(message: string): AgentError {
  return new AgentError('hook_failed', `bad archive: ${message}`, { recoverable: true });
}
