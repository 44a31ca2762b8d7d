/**
 * Owns the cgroups of this host that are ours: `<root>/<alloc>.<task>.<run>` for a workload, `<root>/executors` for
 * executors, in every hierarchy that helps. Creates, limits, kills and removes; what cannot be had is said, not
 * thrown. Its calls are synchronous where they take microseconds (cgroup files are memory).
 *
 * hybrid: controllers are on v1; the v2 tree beside them has cgroup.kill, cgroup.events and cgroup.freeze.
 */
import { accessSync, constants, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AgentError, describeError, errnoOf } from '../base/errors.js';
import { removeTree, type CgroupLeaf } from './cgroup-leaf.js';
import type { CgroupLimits } from './cgroup-limits.js';
import { applyLimits, type UnmetLimit } from './leaf-limits.js';

/** What this host offers; `none` with the reason. */
export type CgroupMode = 'v2' | 'hybrid' | 'v1' | 'none';

/** The mounted hierarchies. */
export interface CgroupMounts {
  readonly unified: string | undefined;
  /** Mount point by controller; `systemd` for the named hierarchy by which systemd of old tracks services. */
  readonly v1: ReadonlyMap<string, string>;
}

/** A leaf that is to be made. */
export interface PlannedLeaf {
  readonly leaf: CgroupLeaf;
  /** Files by which an executor sees OOM kills and the memory peak; undefined without a memory controller. */
  readonly memoryEvents: string | undefined;
  readonly memoryPeak: string | undefined;
}

/** A leaf that was made, and what of the limits could not be set. */
export interface CreatedLeaf extends PlannedLeaf {
  readonly unmet: readonly UnmetLimit[];
}

/**
 * By which a process of one thread joins a v1 group. Not `cgroup.procs`: a write to that waits for a grace period of RCU,
 * some 10 ms (measured), because a process of several threads must be held still.
 */
export const V1_JOIN_FILE = 'tasks';
export const DEFAULT_CGROUP_ROOT = 'holdfast.slice';
const EXECUTORS = 'executors';
/** v1 controllers a leaf is made in. The freezer only where there is no v2 tree to kill by. */
const V1_CONTROLLERS = ['memory', 'cpu', 'cpuacct', 'pids'];
const V2_CONTROLLERS = ['memory', 'cpu', 'pids'];
/** NAME_MAX is 255 bytes; the ids around a task's name take 18. */
const LONGEST_TASK_NAME = 200;

/** Reads which hierarchies are mounted. Pure. @param mountinfo text of /proc/self/mountinfo */
export function parseCgroupMounts(mountinfo: string): CgroupMounts {
  let unified: string | undefined;
  const v1 = new Map<string, string>();
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [type, , options = ''] = after.split(' ');
    const mountPoint = before.split(' ')[4]?.replace(/\\040/g, ' ');
    if (mountPoint === undefined) continue;
    if (type === 'cgroup2') unified ??= mountPoint;
    if (type !== 'cgroup') continue;
    for (const option of options.split(',')) {
      const name = option === 'name=systemd' ? 'systemd' : option;
      if (!v1.has(name)) v1.set(name, mountPoint);
    }
  }
  return { unified, v1 };
}

/** The cgroups this agent may use. One per agent. */
export class Cgroups {
  readonly mode: CgroupMode;
  /** Why the mode is `none`, or what is missing from it; for people. */
  readonly missing: readonly string[];
  /** Controllers whose limits can be set. */
  readonly controllers: ReadonlySet<string>;
  /** Files by which executors move themselves into their group, one a hierarchy. */
  readonly executorProcs: readonly string[];
  readonly #unified: string | undefined;
  readonly #v1: ReadonlyMap<string, string>;

  /**
   * Makes our root in every hierarchy that lets us. Never throws: without permission the mode is `none`.
   * @param options.root path of our root below the top of each hierarchy
   */
  static open(options: { readonly root: string; readonly mounts?: CgroupMounts }): Cgroups {
    const mounts = options.mounts ?? parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
    return new Cgroups(options.root, mounts);
  }

  /** For a host, or a test, that shall use no cgroup. */
  static none(reason: string): Cgroups {
    return new Cgroups(undefined, { unified: undefined, v1: new Map() }, [reason]);
  }

  private constructor(root: string | undefined, mounts: CgroupMounts, missing: string[] = []) {
    const made = root === undefined ? undefined : makeRoots(root, mounts, missing);
    this.#unified = made?.unified;
    this.#v1 = made?.v1 ?? new Map();
    const v1Controllers = [...this.#v1.keys()].filter((name) => V1_CONTROLLERS.includes(name));
    if (this.#unified === undefined) this.mode = v1Controllers.length > 0 ? 'v1' : 'none';
    else this.mode = v1Controllers.length > 0 ? 'hybrid' : 'v2';
    const v2Controllers =
      this.#unified === undefined ? [] : readWords(this.#unified, 'cgroup.subtree_control');
    this.controllers = new Set([...v1Controllers, ...v2Controllers]);
    const joinFile = (dir: string): string => (dir === this.#unified ? 'cgroup.procs' : V1_JOIN_FILE);
    this.executorProcs =
      this.mode === 'none' ? [] : (made?.roots ?? []).map((dir) => join(dir, EXECUTORS, joinFile(dir)));
    this.missing = missing;
  }

  /**
   * Makes a fresh leaf for one run and sets its limits. A limit that cannot be set is in `unmet`.
   * @returns undefined when the mode is `none`
   * @throws AgentError executor_failed when it cannot be made, or existed: a leaf is never used twice, because a
   *   group that was killed once kills whatever is born in it (see native/README.md)
   */
  createLeaf(name: string, limits: CgroupLimits): CreatedLeaf | undefined {
    const planned = this.planLeaf(name);
    if (planned === undefined) return undefined;
    const { leaf } = planned;
    const made: string[] = [];
    try {
      for (const dir of [leaf.unified, ...leaf.v1]) {
        if (dir === undefined) continue;
        mkdirSync(dir);
        made.push(dir);
      }
    } catch (cause) {
      for (const dir of made) removeTree(dir);
      throw new AgentError('executor_failed', `cannot make the cgroup ${name}: ${describeError(cause)}`, {
        recoverable: errnoOf(cause) !== 'EEXIST',
        cause,
      });
    }
    return { ...planned, unmet: applyLimits(leaf, limits, 'fresh') };
  }

  /** What `createLeaf` will make: it can be written down before it is there. Undefined when the mode is `none`. */
  planLeaf(name: string): PlannedLeaf | undefined {
    return this.mode === 'none' ? undefined : { leaf: this.leafOf(name), ...this.#memoryFiles(name) };
  }

  /** Where the leaf of that name is, or would be. */
  leafOf(name: string): CgroupLeaf {
    const v1 = [...this.#v1].filter(([controller]) => controller !== 'systemd');
    return {
      unified: this.#unified === undefined ? undefined : join(this.#unified, name),
      v1: [...new Set(v1.map(([, dir]) => join(dir, name)))],
    };
  }

  /** Names of all groups directly below our root, but that of the executors: leaves of any agent that uses this root. */
  listLeaves(): readonly string[] {
    const { unified, v1 } = this.leafOf('.');
    const dirs = [...v1, ...(unified === undefined ? [] : [unified])];
    const names = dirs.flatMap((dir) => readdirSync(dir, { withFileTypes: true }));
    return [...new Set(names.filter((entry) => entry.isDirectory()).map(({ name }) => name))].filter(
      (name) => name !== EXECUTORS,
    );
  }

  #memoryFiles(name: string): Omit<PlannedLeaf, 'leaf'> {
    const v1 = this.#v1.get('memory');
    if (v1 !== undefined) {
      const dir = join(v1, name);
      return {
        memoryEvents: join(dir, 'memory.oom_control'),
        memoryPeak: join(dir, 'memory.max_usage_in_bytes'),
      };
    }
    if (this.#unified === undefined || !this.controllers.has('memory'))
      return { memoryEvents: undefined, memoryPeak: undefined };
    const dir = join(this.#unified, name);
    return { memoryEvents: join(dir, 'memory.events'), memoryPeak: join(dir, 'memory.peak') };
  }
}

/** Name of a run's leaf: readable, unique, and one path component whatever the task is called. */
export function leafName(run: {
  readonly allocId: string;
  readonly task: string;
  readonly runId: string;
}): string {
  const task = run.task.replace(/[^A-Za-z0-9_.-]/g, '_').slice(0, LONGEST_TASK_NAME);
  return `${run.allocId.slice(0, 8)}.${task}.${run.runId.slice(0, 8)}`;
}

function makeRoots(
  root: string,
  mounts: CgroupMounts,
  missing: string[],
): { unified: string | undefined; v1: Map<string, string>; roots: string[] } {
  const roots: string[] = [];
  const make = (what: string, mount: string | undefined): string | undefined => {
    if (mount === undefined) {
      missing.push(`${what}: not mounted`);
      return undefined;
    }
    const dir = join(mount, root);
    try {
      for (const level of levelsBelow(mount, join(root, EXECUTORS))) makeDirectory(level);
      // Another agent's may be there already, root's for example.
      accessSync(dir, constants.W_OK);
      roots.push(dir);
      return dir;
    } catch (error) {
      missing.push(`${what}: ${describeError(error)}`);
      return undefined;
    }
  };
  const unified = make('cgroup v2', mounts.unified);
  if (unified !== undefined && mounts.unified !== undefined)
    enableControllers(mounts.unified, root, mounts.v1, missing);
  const v1 = new Map<string, string>();
  const wanted = [...V1_CONTROLLERS, 'systemd', ...(unified === undefined ? ['freezer'] : [])];
  for (const controller of wanted) {
    const mount = mounts.v1.get(controller);
    if (mount === undefined) continue;
    const dir = make(`cgroup v1 ${controller}`, mount);
    if (dir !== undefined) v1.set(controller, dir);
  }
  return { unified, v1, roots: [...new Set(roots)] };
}

/** Lets every group from the top of the v2 tree down to our root hand its controllers to its children. */
function enableControllers(
  mount: string,
  root: string,
  v1: ReadonlyMap<string, string>,
  missing: string[],
): void {
  const levels = [mount, ...levelsBelow(mount, root)];
  for (const controller of V2_CONTROLLERS) {
    if (v1.has(controller)) continue;
    for (const dir of levels) {
      try {
        if (readWords(dir, 'cgroup.subtree_control').includes(controller)) continue;
        writeFileSync(join(dir, 'cgroup.subtree_control'), `+${controller}`);
      } catch (error) {
        missing.push(`cgroup v2 ${controller} controller: ${describeError(error)}`);
        break;
      }
    }
  }
}

/** Every directory on the way from the mount (left out) down to `path` below it. */
function levelsBelow(mount: string, path: string): string[] {
  const parts = path.split('/').filter(Boolean);
  return parts.map((_, at) => join(mount, ...parts.slice(0, at + 1)));
}

/** Not `recursive`: Node tries for ever where a kernel file system refuses a directory with ENOENT. */
function makeDirectory(dir: string): void {
  try {
    mkdirSync(dir);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

function readWords(dir: string, file: string): string[] {
  try {
    return readFileSync(join(dir, file), 'utf8').split(/\s+/).filter(Boolean);
  } catch {
    return [];
  }
}
