/** Owns the files of a cgroup leaf: in which of its directories each is, if in any, and how they are read and written. */
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { CgroupLeaf } from './cgroup-leaf.js';
import { readWords } from './cgroup-roots.js';

/** By the directory that all leaves of a v1 hierarchy are in, and the file: what one leaf there has, all have. */
const inHierarchy = new Map<string, boolean>();

/** What the kernel says of one value is not longer; nobody else uses it meanwhile. */
const line = Buffer.alloc(4096);

/** The files of one leaf while it is dealt with: each is looked for, and read, once. Not to be kept. */
export class LeafFiles {
  readonly #leaf: CgroupLeaf;
  readonly #texts = new Map<string, string | undefined>();
  #controllers: ReadonlySet<string> | undefined;

  constructor(leaf: CgroupLeaf) {
    this.#leaf = leaf;
  }

  get hasV1(): boolean {
    return this.#leaf.v1.length > 0;
  }

  /** Path in the v1 directories; undefined when no hierarchy has it. */
  v1(file: string): string | undefined {
    const dir = this.#leaf.v1.find((dir) => {
      const key = `${dirname(dir)}\n${file}`;
      const known = inHierarchy.get(key);
      if (known !== undefined) return known;
      const isThere = existsSync(join(dir, file));
      // A leaf that is gone says nothing of the others.
      if (isThere || existsSync(dir)) inHierarchy.set(key, isThere);
      return isThere;
    });
    return dir === undefined ? undefined : join(dir, file);
  }

  /** Path in the v2 directory; undefined when it is not there. Looked for each time: controllers come and go. */
  v2(file: string): string | undefined {
    const path = this.#pathInV2(file);
    return path !== undefined && existsSync(path) ? path : undefined;
  }

  /** What a file says, without the newline; undefined when there is none. */
  read(file: string): string | undefined {
    const path = this.v1(file) ?? this.#pathInV2(file);
    return path === undefined ? undefined : this.readAt(path);
  }

  /** As `read`, of a path that was found. */
  readAt(path: string): string | undefined {
    if (!this.#texts.has(path)) this.#texts.set(path, readText(path));
    return this.#texts.get(path);
  }

  /** Writes a file that has one value. @returns what the kernel made of it @throws a system error */
  set(path: string, value: string): string {
    this.#texts.delete(path);
    const fd = openSync(path, constants.O_RDWR);
    try {
      writeSync(fd, value);
      const text = line.toString('latin1', 0, readSync(fd, line, 0, line.length, 0)).trim();
      this.#texts.set(path, text);
      return text;
    } finally {
      closeSync(fd);
    }
  }

  /** Writes one line of a file that may have several. @throws a system error */
  add(path: string, text: string): void {
    this.#texts.delete(path);
    writeFileSync(path, text);
  }

  /** Best effort: what comes of it is told where it matters. */
  trySet(path: string | undefined, value: string): void {
    try {
      if (path !== undefined) this.set(path, value);
    } catch {
      // As it was.
    }
  }

  /** Where it would be; undefined when its controller is not there at all. */
  #pathInV2(file: string): string | undefined {
    const { unified } = this.#leaf;
    if (unified === undefined) return undefined;
    this.#controllers ??= new Set(readWords(dirname(unified), 'cgroup.subtree_control'));
    const [controller = ''] = file.split('.', 1);
    return this.#controllers.has(controller) ? join(unified, file) : undefined;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
