/** Owns where on the disk the directories come to lie that are made and removed all the time, and that they are at hand. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { mkdir, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from './clock.js';

/** Makes a directory with what belongs into it. @throws a system error; EEXIST: something has that name */
export type MakeDir = (dir: string) => void;

/** As the stock begins; it doubles each time it does not suffice. */
const FEWEST = 8;
/** For a hundred new tasks at once. */
const MOST = 128;
/** The stock is filled when none was taken for so long: a start is not to wait for it. */
const QUIET_MS = 20;
/** So many blocks and inodes are left to those who need them. */
const LEFT_FREE = 10_000;

/**
 * A stock of directories that are moved to where one is needed. ext4 puts what is made in a directory into that one's group of
 * inodes, and looks at each inode of the group that was deleted in the last minutes before it makes a new one: where tasks
 * come and go, all in one group, that takes longer than the rest of a start. What is made in here gets a group of its own
 * instead (chattr +T); but for that all groups are looked at, and mostly one is read from the disk, so it is done beforehand.
 * For speed only: without chattr, or on another file system, nothing else is different. Figures: docs/adr/0022.
 */
export class SpareDirs implements AsyncDisposable {
  readonly #dir: string;
  readonly #clock: Clock;
  readonly #furnish: (dir: string) => void;
  readonly #stock: string[] = [];
  /** Found, and perhaps not furnished: by an agent that was killed, or of another release. */
  readonly #found: string[];
  #wanted: number;
  #lastNumber: number;
  #timer: Timer | undefined;
  #taken = 0;
  #filling: Promise<void> | undefined;
  #isClosed = false;

  /**
   * Opens the stock, and begins to fill it. Where it cannot be, all are made when they are needed.
   * @param dir on the file system of what will be made; of one agent at a time, and nobody else
   * @param furnish puts into a directory (mode 0700) what belongs there; nothing, where that is there
   */
  static async open(
    dir: string,
    clock: Clock,
    furnish: (dir: string) => void = () => undefined,
  ): Promise<SpareDirs> {
    return new SpareDirs(dir, clock, furnish, await findSpares(dir));
  }

  private constructor(dir: string, clock: Clock, furnish: (dir: string) => void, found: readonly string[]) {
    this.#dir = dir;
    this.#clock = clock;
    this.#furnish = furnish;
    this.#found = found.map((name) => join(dir, name));
    this.#lastNumber = Math.max(0, ...found.map(Number));
    this.#wanted = Math.max(FEWEST, Math.min(MOST, found.length));
    this.#fillWhenQuiet();
  }

  /** Synchronous, as what comes next waits for it; the parent must be there. */
  readonly make: MakeDir = (dir) => {
    this.#taken += 1;
    this.#fillWhenQuiet();
    // To be moved onto an empty directory would be no error.
    if (!existsSync(dir) && this.#take(dir)) return;
    mkdirSync(dir, 0o700);
    this.#furnish(dir);
  };

  /** What is there is kept for the next agent. Resolves when nothing is made any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#timer?.[Symbol.dispose]();
    await this.#filling;
  }

  /** @returns false when it has to be made the usual way, which has the better error too */
  #take(dir: string): boolean {
    let spare: string | undefined;
    try {
      spare = this.#stock.pop() ?? this.#makeNow();
      renameSync(spare, dir);
      return true;
    } catch {
      // Another file system is mounted there, its parent is not there, the disk is full.
      if (spare !== undefined) this.#found.push(spare);
      return false;
    }
  }

  #makeNow(): string {
    this.#wanted = Math.min(MOST, 2 * this.#wanted);
    const path = this.#found.pop() ?? this.#nextPath();
    return this.#keepOnFault(path, () => {
      mkdirSync(path, { recursive: true, mode: 0o700 });
      this.#furnish(path);
    });
  }

  /** What is made by half is not lost sight of. */
  #keepOnFault(path: string, make: () => void): string {
    try {
      make();
      return path;
    } catch (error) {
      this.#found.push(path);
      throw error;
    }
  }

  #nextPath(): string {
    this.#lastNumber += 1;
    return join(this.#dir, String(this.#lastNumber));
  }

  #fillWhenQuiet(): void {
    if (this.#filling !== undefined || this.#timer !== undefined || this.#isClosed) return;
    const taken = this.#taken;
    this.#timer = this.#clock.setTimer(QUIET_MS, () => {
      this.#timer = undefined;
      if (taken === this.#taken) this.#filling = this.#fill();
      else this.#fillWhenQuiet();
    });
    this.#timer.unref();
  }

  /** Until there are enough, or one is taken. Never rejects. */
  async #fill(): Promise<void> {
    const taken = this.#taken;
    const isQuiet = (): boolean => taken === this.#taken && !this.#isClosed;
    try {
      const { bavail, files, ffree } = await statfs(this.#dir);
      // Some file systems do not count inodes.
      if (bavail < LEFT_FREE || (files > 0 && ffree < LEFT_FREE)) return;
      while (this.#stock.length < this.#wanted && isQuiet()) {
        const path = this.#found.pop() ?? this.#nextPath();
        // What takes long in a thread of its own, the rest while nothing else is to be done.
        await mkdir(path, { recursive: true, mode: 0o700 });
        this.#keepOnFault(path, () => {
          this.#furnish(path);
        });
        this.#stock.push(path);
      }
    } catch {
      // A full disk, for example; whoever needs one is told when it is made.
    } finally {
      this.#filling = undefined;
    }
    if (taken !== this.#taken) this.#fillWhenQuiet();
  }
}

/** The names in the stock, which is made if need be. Best effort: it may be a full disk on which the agent starts. */
async function findSpares(dir: string): Promise<readonly string[]> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const entries = await readdir(dir, { withFileTypes: true });
    const found = entries.filter((entry) => entry.isDirectory() && /^\d+$/.test(entry.name));
    if (found.length === 0) await spread(dir);
    return found.map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Best effort: tells the file system that what is made in there has nothing to do with each other. */
export function spread(dir: string): Promise<void> {
  return new Promise((resolve) => {
    execFile('chattr', ['-f', '+T', '--', dir], { timeout: 5_000 }, () => {
      resolve();
    });
  });
}
