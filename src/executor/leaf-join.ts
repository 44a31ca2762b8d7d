/**
 * Owns the coming of a leaf that is in use into v1 hierarchies, and its leaving: a task that asks for cores, disk limits or
 * a limit of processes only while it runs joins them then. Works from paths alone, as cgroup-leaf.ts does.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describeError, errnoOf } from '../base/errors.js';
import { leafPids, removeTree, type CgroupLeaf } from './cgroup-leaf.js';
import type { CgroupLimits } from './cgroup-limits.js';
import { makeDirectory, readWords } from './cgroup-roots.js';
import type { UnmetLimit } from './leaf-limits.js';

/** A leaf after its limits were changed. */
export interface ChangedLeaf {
  /** With the v1 groups that it has come into, without the one that it has left. */
  readonly leaf: CgroupLeaf;
  /** What could not be set, or not yet. */
  readonly unmet: readonly UnmetLimit[];
}

/** Writes down where a leaf is; may throw. */
type Note = (leaf: CgroupLeaf) => void;

/** A tree that makes processes faster than they can be moved is never done. */
const MOST_ROUNDS = 100;

/** All groups of a leaf have this name. */
export function nameOfLeaf({ unified, v1: [first] }: CgroupLeaf): string {
  const dir = unified ?? first;
  if (dir === undefined) throw new Error('a leaf without a directory');
  return basename(dir);
}

/** Makes its groups in more hierarchies, with nothing in them yet. @param roots our root in each */
export function widenLeaf(
  leaf: CgroupLeaf,
  roots: readonly string[],
  limits: CgroupLimits,
  note: Note,
): { readonly leaf: CgroupLeaf; readonly unmet: UnmetLimit[] } {
  const dirs = roots.map((root) => join(root, nameOfLeaf(leaf))).filter((dir) => !leaf.v1.includes(dir));
  if (dirs.length === 0) return { leaf, unmet: [] };
  try {
    for (const dir of dirs) makeDirectory(dir);
    const wider = { ...leaf, v1: [...leaf.v1, ...dirs] };
    note(wider);
    return { leaf: wider, unmet: [] };
  } catch (error) {
    for (const dir of dirs) removeTree(dir);
    return { leaf, unmet: dirs.map((dir) => notJoined(dir, limits, describeError(error))) };
  }
}

/** A group of cpusets without cores is none; its task is where all are that have none of their own. */
export function leaveIdleCpuset(leaf: CgroupLeaf, cpuset: string, note: Note): CgroupLeaf {
  if (!leaf.v1.includes(cpuset) || readWords(cpuset, 'cpuset.cpus').length > 0 || !removeTree(cpuset))
    return leaf;
  const narrower = { ...leaf, v1: leaf.v1.filter((dir) => dir !== cpuset) };
  try {
    note(narrower);
  } catch {
    // Who goes by what is written there finds no such group, and needs none.
  }
  return narrower;
}

/** Moves all that runs in a leaf into the groups that it has now and had not before. */
export function joinAdded(before: CgroupLeaf, now: CgroupLeaf, limits: CgroupLimits): UnmetLimit[] {
  return now.v1
    .filter((dir) => !before.v1.includes(dir))
    .flatMap((dir) => {
      const why = moveProcesses(() => leafPids(before), dir);
      return why === undefined ? [] : [notJoined(dir, limits, why)];
    });
}

/**
 * Moves all processes into a group, in rounds: what has not been moved yet may fork meanwhile. The kernel lets nobody fork
 * while it moves one, so a round that finds nobody missing is the last. The first move waits for a grace period of RCU,
 * some 10 ms; those right after it take microseconds.
 * @param pids all there are, asked anew each round
 * @returns why some were not moved
 */
export function moveProcesses(pids: () => readonly number[], dir: string): string | undefined {
  const file = join(dir, 'cgroup.procs');
  try {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const there = new Set(readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number));
      const missing = pids().filter((pid) => !there.has(pid));
      if (missing.length === 0) return undefined;
      for (const pid of missing) moveOne(file, pid);
    }
    return 'new processes appear faster than they can be moved';
  } catch (error) {
    return describeError(error);
  }
}

function moveOne(file: string, pid: number): void {
  try {
    writeFileSync(file, String(pid));
  } catch (error) {
    // It has ended.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

/** What a task has not got of the limits of a hierarchy that it could not join, or not wholly. */
function notJoined(dir: string, limits: CgroupLimits, why: string): UnmetLimit {
  const { cores, ioReadBps, ioWriteBps } = limits;
  if (cores > 0 && existsSync(join(dirname(dir), 'cpuset.cpus')))
    return { limit: 'cores', why: `not all of it runs on cores of its own: ${why}` };
  if (existsSync(join(dirname(dir), 'pids.max')))
    return { limit: 'pids', why: `not all of its processes are counted: ${why}` };
  const limit = ioReadBps !== undefined ? 'io_read' : ioWriteBps !== undefined ? 'io_write' : 'io_weight';
  return { limit, why: `not all of its disk I/O is limited: ${why}` };
}
