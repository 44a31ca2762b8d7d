/**
 * Owns the way from the mounted cgroup hierarchies to our root in each: which there are, and what of them lets us in. What
 * does not is said, not thrown.
 */
import { accessSync, constants, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError, errnoOf } from '../base/errors.js';

/** The group of the executors, in each of our roots. */
export const EXECUTORS = 'executors';
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
}

/** Makes our root, and the group of the executors in it, wherever we may. @param missing is told what is not there */
export function makeRoots(root: string, mounts: CgroupMounts, missing: string[]): CgroupRoots {
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
      return dir;
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
  if (unified !== undefined && mounts.unified !== undefined)
    enableControllers(mounts.unified, root, mounts.v1, missing);
  return { unified, v1, onDemand, roots: [...new Set(roots)] };
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
    if (v1.has(controller === 'io' ? 'blkio' : controller)) continue;
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
