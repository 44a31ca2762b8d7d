/**
 * Owns the way from the mounted cgroup hierarchies to our root in each: which there are, and what of them lets us in. What
 * does not is said, not thrown.
 */
import { accessSync, constants, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describeError, errnoOf } from '../base/errors.js';
import { checkReach, EXECUTORS, NO_OWN_GROUPS, type OwnGroup, type OwnGroups } from './cgroup-own.js';

/**
 * Where an agent goes out of the way in a v2 subtree that was handed over to it: only a group without processes may hand
 * controllers to its children. DelegateSubgroup= of its unit has the same name (docs/service.md).
 */
export const AGENT_GROUP = 'holdfast-agent';
/** v1 controllers a leaf is made in: each costs a start a tenth of a millisecond, and its end another. */
export const V1_CONTROLLERS = ['memory', 'cpu'];
/** Likewise, where there is no v2 tree to count the CPU time and to kill by. */
const V1_WITHOUT_UNIFIED = ['cpuacct', 'freezer'];
/** v1 controllers that only the leaf of a task that needs them is made in. */
const V1_ON_DEMAND = ['cpuset', 'blkio', 'pids'];
const V2_CONTROLLERS = ['cpuset', 'io', 'memory', 'cpu', 'pids'];

/** The mounted hierarchies. */
export interface CgroupMounts {
  readonly unified: string | undefined;
  /** Mount point by controller; `systemd` for the named hierarchy by which systemd of old tracks services. */
  readonly v1: ReadonlyMap<string, string>;
}

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

/** Our root in each hierarchy. */
export interface CgroupRoots {
  readonly unified: string | undefined;
  /** By controller. */
  readonly v1: ReadonlyMap<string, string>;
  readonly onDemand: ReadonlyMap<string, string>;
  /** Those that executors move into: all but `onDemand`. */
  readonly roots: readonly string[];
  /** The subtrees handed over to the agent that they are in; none = they are at the top. */
  readonly delegated: readonly string[];
}

/**
 * Makes our root, and the group of the executors in it, wherever we may.
 * @param missing is told what is not there
 * @param own where it may be instead: in what was handed over to the agent
 */
export function makeRoots(
  root: string,
  mounts: CgroupMounts,
  missing: string[],
  own: OwnGroups = NO_OWN_GROUPS,
): CgroupRoots {
  const roots: string[] = [];
  const tops = new Map<string, string>();
  const make = (what: string, mount: string | undefined): string | undefined => {
    if (mount === undefined) {
      missing.push(`${what}: not mounted`);
      return undefined;
    }
    try {
      const top = makeRoot(root, mount, own.get(mount));
      tops.set(mount, top);
      return join(top, root);
    } catch (error) {
      missing.push(`${what}: ${describeError(error)}`);
      return undefined;
    }
  };
  const unified = make('cgroup v2', mounts.unified);
  if (unified !== undefined) roots.push(unified);
  const v1 = new Map<string, string>();
  const wanted = [...V1_CONTROLLERS, 'systemd', ...(unified === undefined ? V1_WITHOUT_UNIFIED : [])];
  for (const controller of wanted) {
    const mount = mounts.v1.get(controller);
    const dir = mount === undefined ? undefined : make(`cgroup v1 ${controller}`, mount);
    if (dir === undefined) continue;
    v1.set(controller, dir);
    roots.push(dir);
  }
  const onDemand = new Map<string, string>();
  for (const controller of V1_ON_DEMAND) {
    const mount = mounts.v1.get(controller);
    const dir = mount === undefined ? undefined : make(`cgroup v1 ${controller}`, mount);
    if (dir !== undefined) onDemand.set(controller, dir);
  }
  const top = mounts.unified === undefined ? undefined : tops.get(mounts.unified);
  if (mounts.unified !== undefined && top !== undefined) {
    const isInside = own.get(mounts.unified)?.dir === top;
    if (!isInside || makeRoom(top, mounts.v1, missing)) enableControllers(top, root, mounts.v1, missing);
  }
  const delegated = [...tops].flatMap(([mount, dir]) => (own.get(mount)?.subtree === dir ? [dir] : []));
  return { unified, v1, onDemand, roots: [...new Set(roots)], delegated };
}

/** @returns what it is in: the top of the hierarchy, or a subtree of our own @throws when there is neither */
function makeRoot(root: string, mount: string, own: OwnGroup | undefined): string {
  const makeIn = (top: string): string => {
    for (const level of levelsBelow(top, join(root, EXECUTORS))) makeDirectory(level);
    // Another agent's may be there already, root's for example.
    accessSync(join(top, root), constants.W_OK);
    return top;
  };
  try {
    if (own !== undefined) checkReach(own, mount, join(mount, root));
    return makeIn(mount);
  } catch (error) {
    if (own?.subtree === undefined) throw error;
    return makeIn(own.subtree);
  }
}

/**
 * Moves this process out of the top of its subtree, into a child of it. Nobody else is moved: others that are there were not
 * handed over, and without controllers the tree still finds and kills what a task has started.
 * Nor out of a service: systemd puts it there at each start, which fails where controllers are handed on, and they are as long
 * as a task runs (seen with systemd 257). An agent without limits is better than one that does not come back.
 * @returns false when controllers must not, or cannot, be handed on
 */
function makeRoom(top: string, v1: ReadonlyMap<string, string>, missing: string[]): boolean {
  const enabled = readWords(top, 'cgroup.subtree_control');
  const wanted = readWords(top, 'cgroup.controllers').filter(
    (controller) => isLimiting(controller, v1) && !enabled.includes(controller),
  );
  if (wanted.length === 0) return true;
  const others = readWords(top, 'cgroup.procs').filter((pid) => pid !== String(process.pid));
  if (others.length > 0) {
    missing.push(`cgroup v2: not only the agent is in ${top}, but also pid ${others.join(', ')}`);
    return false;
  }
  if (top.endsWith('.service')) {
    missing.push(`cgroup v2: the unit ${basename(top)} has no DelegateSubgroup=${AGENT_GROUP}`);
    return false;
  }
  try {
    const child = join(top, AGENT_GROUP);
    makeDirectory(child);
    writeFileSync(join(child, 'cgroup.procs'), String(process.pid));
    return true;
  } catch (error) {
    missing.push(`cgroup v2: ${describeError(error)}`);
    return false;
  }
}

/** Whether it is one that we use, and not that of a v1 hierarchy. */
function isLimiting(controller: string, v1: ReadonlyMap<string, string>): boolean {
  return V2_CONTROLLERS.includes(controller) && !v1.has(controller === 'io' ? 'blkio' : controller);
}

/** Lets every group from the top of what is ours in the v2 tree down to our root hand its controllers to its children. */
function enableControllers(
  top: string,
  root: string,
  v1: ReadonlyMap<string, string>,
  missing: string[],
): void {
  const levels = [top, ...levelsBelow(top, root)];
  for (const controller of V2_CONTROLLERS) {
    if (!isLimiting(controller, v1)) continue;
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

/** Every directory on the way from the top (left out) down to `path` below it. */
function levelsBelow(top: string, path: string): string[] {
  const parts = path.split('/').filter(Boolean);
  return parts.map((_, at) => join(top, ...parts.slice(0, at + 1)));
}

/** One that is there is fine. Not `recursive`: Node tries for ever where a kernel file system refuses a directory with ENOENT. */
export function makeDirectory(dir: string): void {
  try {
    mkdirSync(dir);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

/** Words of a cgroup file; none when it cannot be read. */
export function readWords(dir: string, file: string): string[] {
  try {
    return readFileSync(join(dir, file), 'utf8').split(/\s+/).filter(Boolean);
  } catch {
    return [];
  }
}
