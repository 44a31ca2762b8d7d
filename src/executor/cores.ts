/**
 * Owns which cores of this host tasks have for themselves. The record is the kernel's own, so that it outlives the agent and
 * cannot differ from what is so: a group below our root that has a cpuset of its own has its cores for itself.
 *
 * v1: it is the leaf in the cpuset hierarchy, which only tasks with cores have. All others are born in the group of the
 *     executors, as their executor is, and that group has the rest of the cores.
 * v2: every leaf has the files. One whose cpuset.mems is written (with all there are: it means nothing else) has its cores
 *     for itself, all others are kept off them by their cpuset.cpus. The kernel lets nothing that runs go back to having no
 *     set: one that has given its cores back has a cgroup.max.depth, beyond all that anybody needs.
 *
 * Programs that are not tasks of this agent are not kept off: that is for the operator (isolcpus, CPUAffinity of systemd).
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describeError, errnoOf } from '../base/errors.js';
import { leafPids, removeTree } from './cgroup-leaf.js';
import { moveProcesses } from './leaf-join.js';

/** v2: a file that says nothing else. */
const GIVEN_BACK = { file: 'cgroup.max.depth', mark: '1000000', usual: 'max' } as const;

/** Why cores cannot be had; passing: others have them, which may end. */
export interface NoCores {
  readonly why: string;
  readonly isPassing: boolean;
}

/** A task of our own must not take the last one: all others would have nowhere to run. */
const CORES_FOR_OTHERS = 1;

export class Cores {
  readonly #root: string;
  readonly #version: 1 | 2;
  readonly #others: string;
  /** Cores by leaf, as they were last read. */
  #reserved: ReadonlyMap<string, readonly number[]> = new Map();

  /**
   * Gives those without cores of their own what is free.
   * @param root our root in the hierarchy that has cpusets
   * @param others name of the group of the executors below it; it is there
   * @throws when the kernel does not let us
   */
  constructor(root: string, version: 1 | 2, others: string) {
    this.#root = root;
    this.#version = version;
    this.#others = others;
    if (version === 1) {
      fill(join(root, others), 'cpuset.mems');
      fill(join(root, others), 'cpuset.cpus');
    }
    this.settle();
  }

  /** By which a process of one thread joins those without cores of their own, with all that it starts; undefined = it need not. */
  get othersTasks(): string | undefined {
    return this.#version === 1 ? join(this.#root, this.#others, 'tasks') : undefined;
  }

  /** A fresh leaf without cores of its own is kept off those of others. */
  keepOff(name: string): void {
    if (this.#reserved.size > 0) this.#keepOff(name);
  }

  /**
   * Gives a leaf so many cores, keeping those that it has. Its directory is there; nothing need be in it yet.
   * @param count 0 = none of its own: on v1 its group is gone then
   * @returns why not; nothing has changed then
   */
  reserve(name: string, count: number): NoCores | undefined {
    const dir = join(this.#root, name);
    this.#read();
    const own = this.#reserved.get(name) ?? [];
    if (count === own.length) return undefined;
    if (count === 0) return this.#giveBack(name);
    const usable = this.#usable();
    const free = usable.filter((core) => own.includes(core) || !this.#isReserved(core));
    const most = usable.length - CORES_FOR_OTHERS;
    if (count > most)
      return {
        why: `${count} cores are asked for, and of the ${usable.length} of this host ${most} can be had: one stays for all others`,
        isPassing: false,
      };
    if (count > free.length - CORES_FOR_OTHERS)
      return {
        why: `${count} cores are asked for, and ${free.length - CORES_FOR_OTHERS} are free: tasks have the others for themselves`,
        isPassing: true,
      };
    // The kernel's own work is mostly on the first ones.
    const cores = [...own, ...free.filter((core) => !own.includes(core)).reverse()].slice(0, count);
    const before = this.#reserved;
    this.#reserved = new Map([...before, [name, cores]]);
    try {
      // First the others leave, then it comes.
      this.#keepOffAll();
      if (this.#version === 1) fill(dir, 'cpuset.mems');
      writeFileSync(join(dir, 'cpuset.cpus'), formatCores(cores));
      if (this.#version === 2) this.#mark(dir);
      return undefined;
    } catch (error) {
      this.#reserved = before;
      this.#keepOffAll();
      return { why: describeError(error), isPassing: false };
    }
  }

  /** v2: says that the cores of this leaf are its own. */
  #mark(dir: string): void {
    writeFileSync(join(dir, 'cpuset.mems'), readText(this.#root, 'cpuset.mems.effective'));
    if (hasGivenBack(dir)) writeFileSync(join(dir, GIVEN_BACK.file), GIVEN_BACK.usual);
  }

  /** v1: all of it goes where those are that have none of their own. */
  #giveBack(name: string): NoCores | undefined {
    const dir = join(this.#root, name);
    if (this.#version === 2) {
      try {
        writeFileSync(join(dir, GIVEN_BACK.file), GIVEN_BACK.mark);
        this.settle();
        return undefined;
      } catch (error) {
        return { why: `it keeps those that it has: ${describeError(error)}`, isPassing: false };
      }
    }
    const leaf = { unified: undefined, v1: [dir] };
    const why = moveProcesses(() => leafPids(leaf), join(this.#root, this.#others));
    if (why !== undefined || !removeTree(dir))
      return { why: `it keeps those that it has: ${why ?? 'it is in use'}`, isPassing: false };
    this.settle();
    return undefined;
  }

  /** What tasks that have ended had is everybody's again. Cheap while nobody has cores of its own. */
  settleAfterEnd(): void {
    if (this.#reserved.size > 0) this.settle();
  }

  /** Reads who has what, and gives the rest to all others. */
  settle(): void {
    this.#read();
    this.#keepOffAll();
  }

  #read(): void {
    const reserved = new Map<string, readonly number[]>();
    for (const name of this.#leaves()) {
      const cores = readOwnCores(join(this.#root, name), this.#version);
      if (cores !== undefined) reserved.set(name, parseCores(cores));
    }
    this.#reserved = reserved;
  }

  #leaves(): readonly string[] {
    const entries = readdirSync(this.#root, { withFileTypes: true });
    return entries.flatMap((entry) =>
      entry.isDirectory() && entry.name !== this.#others ? [entry.name] : [],
    );
  }

  #usable(): readonly number[] {
    return parseCores(readText(this.#root, this.#version === 1 ? 'cpuset.cpus' : 'cpuset.cpus.effective'));
  }

  #isReserved(core: number): boolean {
    return [...this.#reserved.values()].some((cores) => cores.includes(core));
  }

  /** Who has no cores of its own is kept off those of others. */
  #keepOffAll(): void {
    if (this.#version === 1) {
      writeChanged(join(this.#root, this.#others), 'cpuset.cpus', this.#rest());
      return;
    }
    for (const name of this.#leaves()) if (!this.#reserved.has(name)) this.#keepOff(name);
  }

  #keepOff(name: string): void {
    if (this.#version === 1) return;
    try {
      const dir = join(this.#root, name);
      // Most never get a set at all, and one that was given cannot be taken away: it is made as wide as can be.
      if (this.#reserved.size > 0 || readText(dir, 'cpuset.cpus') !== '')
        writeChanged(dir, 'cpuset.cpus', this.#rest());
    } catch (error) {
      // It has just been removed.
      if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENODEV') throw error;
    }
  }

  #rest(): string {
    return formatCores(this.#usable().filter((core) => !this.#isReserved(core)));
  }
}

/** The cores that a leaf has for itself, `0-2,5`; undefined = none. @param dir in whichever hierarchy has cpusets */
export function readOwnCores(dir: string, version: 1 | 2): string | undefined {
  if (version === 2 && (readText(dir, 'cpuset.mems') === '' || hasGivenBack(dir))) return undefined;
  const cores = readText(dir, 'cpuset.cpus');
  return cores === '' ? undefined : cores;
}

function hasGivenBack(dir: string): boolean {
  return !['', GIVEN_BACK.usual].includes(readText(dir, GIVEN_BACK.file));
}

/** Reads the kernel's list of cores, `0-2,5`. Pure. */
export function parseCores(text: string): readonly number[] {
  return text
    .trim()
    .split(',')
    .filter(Boolean)
    .flatMap((range) => {
      const [from = 0, to = from] = range.split('-').map(Number);
      return Array.from({ length: to - from + 1 }, (_, at) => from + at);
    });
}

/** The list as the kernel reads it. Pure. */
export function formatCores(cores: readonly number[]): string {
  return [...cores].sort((a, b) => a - b).join(',');
}

/** v1: a new group has no cores and no memory nodes, and takes in nobody until it has. */
function fill(dir: string, file: string): string {
  const seen = readText(dir, file);
  if (seen !== '' || !existsSync(join(dir, file))) return seen;
  const above = fill(dirname(dir), file);
  writeFileSync(join(dir, file), above);
  return above;
}

function writeChanged(dir: string, file: string, value: string): void {
  const seen = parseCores(readText(dir, file));
  if (formatCores(seen) !== value) writeFileSync(join(dir, file), value);
}

function readText(dir: string, file: string): string {
  try {
    return readFileSync(join(dir, file), 'utf8').trim();
  } catch {
    return '';
  }
}
