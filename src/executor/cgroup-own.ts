/**
 * Owns what the kernel says of the agent's own cgroups, and which subtree of each hierarchy was handed over to its user: by
 * systemd (Delegate=yes), by a container, or by chown. Makes and moves nothing.
 */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errnoOf } from '../base/errors.js';

/** The group of the executors, in each of our roots. */
export const EXECUTORS = 'executors';

/** Where the agent is in one hierarchy. */
export interface OwnGroup {
  readonly version: 1 | 2;
  readonly dir: string;
  /** The top of what was handed over to it: `dir`, or a group above it; undefined = nothing was. */
  readonly subtree: string | undefined;
}

/** By the mount point of the hierarchy. */
export type OwnGroups = ReadonlyMap<string, OwnGroup>;

/** For an agent that may make groups wherever it likes, or was told where. */
export const NO_OWN_GROUPS: OwnGroups = new Map();

/** Only these can be delegated by systemd. What is above such a unit belongs to a manager, also where its user may write. */
const UNIT = /\.(service|scope)$/;
const SLICE = /\.slice$/;

/** Where this process is, and what of it is its user's. */
export function readOwnGroups(): OwnGroups {
  const dirs = parseOwnGroups(
    readFileSync('/proc/self/cgroup', 'utf8'),
    readFileSync('/proc/self/mountinfo', 'utf8'),
  );
  return new Map(
    [...dirs].map(([mount, { version, dir }]) => [
      mount,
      { version, dir, subtree: findSubtree(mount, dir, version) },
    ]),
  );
}

/**
 * Reads where a process is in each mounted hierarchy. Pure. What is mounted without showing it is left out.
 * @param groups text of /proc/self/cgroup
 * @param mountinfo text of /proc/self/mountinfo
 */
export function parseOwnGroups(
  groups: string,
  mountinfo: string,
): ReadonlyMap<string, Omit<OwnGroup, 'subtree'>> {
  const paths = new Map<string, string>();
  for (const line of groups.split('\n')) {
    const [, names, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    // A name of '' is the v2 tree.
    if (names !== undefined && path !== undefined) for (const name of names.split(',')) paths.set(name, path);
  }
  const found = new Map<string, Omit<OwnGroup, 'subtree'>>();
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [type, , options = ''] = after.split(' ');
    const [, , , root, mount] = before.split(' ').map((word) => word.replace(/\\040/g, ' '));
    if (root === undefined || mount === undefined || (type !== 'cgroup' && type !== 'cgroup2')) continue;
    const names = type === 'cgroup2' ? [''] : options.split(',');
    const path = names.flatMap((name) => paths.get(name) ?? [])[0];
    const below = path === undefined ? undefined : pathBelow(root, path);
    if (below !== undefined && !found.has(mount))
      found.set(mount, { version: type === 'cgroup2' ? 2 : 1, dir: join(mount, below) });
  }
  return found;
}

/** Undefined when it is not below. Out of a cgroup namespace lead paths with `..`. */
function pathBelow(root: string, path: string): string | undefined {
  if (path.split('/').includes('..') || root.split('/').includes('..')) return undefined;
  if (root === '/') return path === '/' ? '' : path;
  return path === root || path.startsWith(`${root}/`) ? path.slice(root.length) : undefined;
}

/**
 * The top of what was handed over. The same for every start of an agent below it, in whichever child it is put: there are the
 * leaves of tasks that still run. Not above a unit of systemd: that is not ours, even where a user's manager is our user's.
 */
export function findSubtree(mount: string, dir: string, version: 1 | 2): string | undefined {
  if (!isHandedOver(dir, version)) return undefined;
  let top = dir;
  while (top !== mount && !UNIT.test(basename(top))) {
    const above = dirname(top);
    // Nor out of the leaf of a task, when the agent is itself the task of one of the same user.
    if (SLICE.test(basename(above)) || existsSync(join(above, EXECUTORS))) break;
    if (!isHandedOver(above, version)) break;
    top = above;
  }
  return top;
}

/** v2 lets nobody move a process who may not write to the group that both places are in; v1 asks only whose the process is. */
function isHandedOver(dir: string, version: 1 | 2): boolean {
  const files = version === 1 ? [] : ['cgroup.procs', 'cgroup.subtree_control'];
  return [dir, ...files.map((file) => join(dir, file))].every(mayWrite);
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch (error) {
    if (['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return false;
    throw error;
  }
}

/** @throws a system error where the kernel would not let us move what is in our group into `dir` */
export function checkReach({ version, dir: from }: OwnGroup, mount: string, dir: string): void {
  if (version === 1) return;
  let common = from;
  while (common !== mount && dir !== common && !dir.startsWith(`${common}/`)) common = dirname(common);
  accessSync(join(common, 'cgroup.procs'), constants.W_OK);
}
