/**
 * Owns what can be done with the cgroup leaf of one run after it was made: is anything in it, kill all of it, remove
 * it. Works from paths alone, so that a leaf of an earlier agent, with another configuration, is handled as well.
 */
import { readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sleep, type Clock } from '../base/clock.js';
import { errnoOf, isExhausted } from '../base/errors.js';
import type { ExecutorSpec } from './protocol.js';

/** Directories of one leaf; plain JSON. */
export interface CgroupLeaf {
  /** In the v2 tree: kill, freeze, populated, and in mode v2 the limits. */
  readonly unified: string | undefined;
  /** In the v1 hierarchies. */
  readonly v1: readonly string[];
}

/**
 * By which a process of one thread joins a v1 group. Not `cgroup.procs`: a write to that waits for a grace period of RCU,
 * some 10 ms (measured), because a process of several threads must be held still.
 */
export const V1_JOIN_FILE = 'tasks';
/** How often, and for how long, an emptied leaf is tried to be removed: the kernel lets go of it a little later. */
const REMOVE_EVERY_MS = 10;
const REMOVE_WITHIN_MS = 2_000;
const KILL_EVERY_MS = 10;

/** The leaf that a spec names; undefined when the run has none. */
export function leafOfSpec(spec: ExecutorSpec): CgroupLeaf | undefined {
  if (spec.cgroup === undefined && spec.joinProcs.length === 0) return undefined;
  return { unified: spec.cgroup, v1: spec.joinProcs.map((file) => dirname(file)) };
}

/** By which the first process of a run joins the v1 groups of its leaf. */
export function joinFilesOf(leaf: CgroupLeaf | undefined): string[] {
  return (leaf?.v1 ?? []).map((dir) => join(dir, V1_JOIN_FILE));
}

/** Whether any process is in the leaf, nested groups included. A leaf that is not there is empty. */
export function isPopulated(leaf: CgroupLeaf): boolean {
  if (leaf.unified !== undefined) {
    const events = readText(join(leaf.unified, 'cgroup.events'));
    if (events !== undefined) return /^populated 1$/m.test(events);
  }
  // cgroup.procs lists no zombies' children and no threads: a process that is there is a process.
  return leaf.v1.some((dir) => readPids(dir).length > 0);
}

/** Pids in the leaf, nested groups included, each once. */
export function leafPids(leaf: CgroupLeaf): number[] {
  const dirs = leaf.unified === undefined ? leaf.v1 : [leaf.unified];
  return [...new Set(dirs.flatMap(readPids))];
}

/**
 * Kills whatever is in the leaf, and waits until nothing is.
 * @returns false when something is still there after `withinMs`
 */
export async function killLeaf(clock: Clock, leaf: CgroupLeaf, withinMs: number): Promise<boolean> {
  const deadlineMs = clock.monoMs() + withinMs;
  while (isPopulated(leaf)) {
    if (clock.monoMs() > deadlineMs) return false;
    if (leaf.unified === undefined || !writeText(join(leaf.unified, 'cgroup.kill'), '1')) killFrozen(leaf);
    await sleep(clock, KILL_EVERY_MS);
  }
  return true;
}

/**
 * Removes the leaf with the empty groups that the workload made in it.
 * @returns false when something of it is still there after a bounded time (processes that were kept)
 */
export async function removeLeaf(clock: Clock, leaf: CgroupLeaf): Promise<boolean> {
  const deadlineMs = clock.monoMs() + REMOVE_WITHIN_MS;
  const dirs = [...leaf.v1, ...(leaf.unified === undefined ? [] : [leaf.unified])];
  for (;;) {
    const left = dirs.filter((dir) => !removeTree(dir));
    if (left.length === 0) return true;
    // Kept processes will not go away by waiting.
    if (clock.monoMs() > deadlineMs || isPopulated(leaf)) return false;
    await sleep(clock, REMOVE_EVERY_MS);
  }
}

/** Removes a group and those below it, deepest first. @returns true when it is gone */
export function removeTree(dir: string): boolean {
  try {
    rmdirSync(dir);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return true;
  }
  for (const child of childGroups(dir)) removeTree(child);
  try {
    rmdirSync(dir);
    return true;
  } catch (error) {
    return errnoOf(error) === 'ENOENT';
  }
}

/**
 * Without cgroup.kill: freezes (where the freezer is), kills each, thaws. Frozen processes cannot fork away, and
 * their pids cannot be reused in between; without a freezer the caller's loop catches what forked.
 */
function killFrozen(leaf: CgroupLeaf): void {
  const freezers = leaf.v1.filter((dir) => writeText(join(dir, 'freezer.state'), 'FROZEN'));
  for (const pid of leafPids(leaf)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone already, which is what is wanted.
    }
  }
  for (const dir of freezers) writeText(join(dir, 'freezer.state'), 'THAWED');
}

function readPids(dir: string): number[] {
  const own = (readText(join(dir, 'cgroup.procs')) ?? '').split('\n').filter(Boolean).map(Number);
  // Pid 0 is a process of another pid namespace: it cannot be signalled from here.
  return [...own.filter((pid) => pid > 0), ...childGroups(dir).flatMap(readPids)];
}

function childGroups(dir: string): string[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(dir, entry.name));
  } catch {
    return [];
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    // A group that could not be looked at is not an empty one.
    if (isExhausted(error)) throw error;
    return undefined;
  }
}

function writeText(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'r+' });
    return true;
  } catch {
    return false;
  }
}
