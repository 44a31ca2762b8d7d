/**
 * Owns the cgroups of this host that are ours: `<root>/<alloc>.<task>.<run>` for a workload, `<root>/executors` for
 * executors, in every hierarchy that helps. Creates, limits, kills and removes; what cannot be had is said, not
 * thrown. Its calls are synchronous where they take microseconds (cgroup files are memory). A little over 300 lines because what the
 * host offers, and what is made of it, stand together.
 *
 * hybrid: controllers are on v1; the v2 tree beside them has cgroup.kill, cgroup.events and cgroup.freeze.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AgentError, describeError, errnoOf } from '../base/errors.js';
import { removeTree, V1_JOIN_FILE, type CgroupLeaf } from './cgroup-leaf.js';
import type { CgroupLimits } from './cgroup-limits.js';
import { EXECUTORS, NO_OWN_GROUPS, readOwnGroups, type OwnGroups } from './cgroup-own.js';
import {
  makeRoots,
  parseCgroupMounts,
  readWords,
  V1_CONTROLLERS,
  type CgroupMounts,
} from './cgroup-roots.js';
import { Cores } from './cores.js';
import { isWeightHeeded, wantsIo } from './leaf-io.js';
import { joinAdded, leaveIdleCpuset, nameOfLeaf, widenLeaf, type ChangedLeaf } from './leaf-join.js';
import { applyLimits, type UnmetLimit } from './leaf-limits.js';

/** What this host offers; `none` with the reason. */
export type CgroupMode = 'v2' | 'hybrid' | 'v1' | 'none';

export type CgroupFeature = 'swap' | 'io_weight';

/** A leaf that is to be made. */
export interface PlannedLeaf {
  readonly leaf: CgroupLeaf;
  /** Files by which an executor sees OOM kills, the memory peak, and how often the limit was hit; undefined without a memory controller. */
  readonly memoryEvents: string | undefined;
  readonly memoryPeak: string | undefined;
  readonly memoryHits?: string | undefined;
}

/** A leaf that was made, and what of the limits could not be set. */
export interface CreatedLeaf extends PlannedLeaf {
  readonly unmet: readonly UnmetLimit[];
}

/** Of all cgroups of this agent, unless it is configured otherwise: at the top of the hierarchy, beside system.slice. */
export const DEFAULT_CGROUP_ROOT = 'holdfast.slice';
/** NAME_MAX is 255 bytes; the ids around a task's name take 18. */
const LONGEST_TASK_NAME = 200;

/** The cgroups this agent may use. One per agent. */
export class Cgroups {
  readonly mode: CgroupMode;
  /** Why the mode is `none`, or what is missing from it; for people. */
  readonly missing: readonly string[];
  /** Controllers whose limits can be set. */
  readonly controllers: ReadonlySet<string>;
  /** What not every kernel's controllers can: count swap, weigh disks. */
  readonly features: ReadonlySet<CgroupFeature>;
  /** Subtrees handed over to the agent that its cgroups are in, one a hierarchy; none = they are at the top. */
  readonly delegated: readonly string[];
  /** Files by which executors move themselves into their group, one a hierarchy. */
  readonly executorProcs: readonly string[];
  readonly #unified: string | undefined;
  readonly #v1: ReadonlyMap<string, string>;
  /** v1 hierarchies that only those join who need them: each one joined costs time at a start. */
  readonly #onDemand: ReadonlyMap<string, string>;
  readonly #cores: Cores | undefined;

  /**
   * Makes our root in every hierarchy that lets us. Never throws: without permission the mode is `none`.
   * @param options.root path of our root below the top of each hierarchy; undefined = the usual one, there or, for an agent
   *   that is not root, in a subtree that was handed over to it. Then the agent may move itself
   * @param options.own where the agent is, for tests
   */
  static open(options: {
    readonly root: string | undefined;
    readonly mounts?: CgroupMounts;
    readonly own?: OwnGroups;
  }): Cgroups {
    const mounts = options.mounts ?? parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
    if (options.root !== undefined) return new Cgroups(options.root, mounts);
    const own = options.own ?? (process.getuid?.() === 0 ? NO_OWN_GROUPS : readOwnGroups());
    return new Cgroups(DEFAULT_CGROUP_ROOT, mounts, own);
  }

  /** For a host, or a test, that shall use no cgroup. */
  static none(reason: string): Cgroups {
    return new Cgroups(undefined, { unified: undefined, v1: new Map() }, NO_OWN_GROUPS, [reason]);
  }

  private constructor(
    root: string | undefined,
    mounts: CgroupMounts,
    own: OwnGroups = NO_OWN_GROUPS,
    missing: string[] = [],
  ) {
    const made = root === undefined ? undefined : makeRoots(root, mounts, missing, own);
    this.delegated = made?.delegated ?? [];
    this.#unified = made?.unified;
    this.#v1 = made?.v1 ?? new Map();
    const v1Controllers = [...this.#v1.keys()].filter((name) => V1_CONTROLLERS.includes(name));
    if (this.#unified === undefined) this.mode = v1Controllers.length > 0 ? 'v1' : 'none';
    else this.mode = v1Controllers.length > 0 ? 'hybrid' : 'v2';
    const v2Controllers =
      this.#unified === undefined ? [] : readWords(this.#unified, 'cgroup.subtree_control');
    const onDemand = [...(made?.onDemand.keys() ?? [])];
    // One thing, of which v1 has another name.
    const named = [...v1Controllers, ...onDemand].map((name) => (name === 'blkio' ? 'io' : name));
    this.#onDemand = made?.onDemand ?? new Map();
    this.#cores = this.#openCores(v2Controllers, missing);
    this.controllers = new Set(
      [...named, ...v2Controllers].filter((name) => name !== 'cpuset' || this.#cores !== undefined),
    );
    this.features = this.#lookForFeatures();
    const joinFile = (dir: string): string => (dir === this.#unified ? 'cgroup.procs' : V1_JOIN_FILE);
    this.executorProcs =
      this.mode === 'none' ? [] : (made?.roots ?? []).map((dir) => join(dir, EXECUTORS, joinFile(dir)));
    this.missing = missing;
  }

  #openCores(v2Controllers: readonly string[], missing: string[]): Cores | undefined {
    const v1 = this.#onDemand.get('cpuset');
    try {
      if (v1 !== undefined) return new Cores(v1, 1, EXECUTORS);
      if (this.#unified === undefined || !v2Controllers.includes('cpuset')) return undefined;
      return new Cores(this.#unified, 2, EXECUTORS);
    } catch (error) {
      missing.push(`cgroup cpuset: ${describeError(error)}`);
      return undefined;
    }
  }

  #lookForFeatures(): ReadonlySet<CgroupFeature> {
    const has = (dir: string | undefined, ...files: readonly string[]): boolean =>
      dir !== undefined && files.some((file) => existsSync(join(dir, EXECUTORS, file)));
    const heeds = (dir: string | undefined, ...files: readonly string[]): boolean =>
      files.some((file) => has(dir, file) && isWeightHeeded(join(dir ?? '', file)));
    const swap =
      has(this.#v1.get('memory'), 'memory.memsw.limit_in_bytes') || has(this.#unified, 'memory.swap.max');
    const weight =
      heeds(this.#onDemand.get('blkio'), 'blkio.bfq.weight', 'blkio.weight') ||
      heeds(this.#unified, 'io.weight', 'io.bfq.weight');
    return new Set([...(swap ? (['swap'] as const) : []), ...(weight ? (['io_weight'] as const) : [])]);
  }

  /**
   * Puts the process that executors descend from where they belong, and where programs without cores of their own are born
   * (cgroup v1). Best effort: executors move by themselves if they must, and without it they may use reserved cores as
   * well. Not synchronous: the kernel takes its time, 10 ms here.
   */
  async admitLauncher(pid: number): Promise<void> {
    const others = this.#cores?.othersTasks;
    for (const file of [...this.executorProcs, ...(others === undefined ? [] : [others])]) {
      // It has just ended, or may not be moved.
      await writeFile(file, String(pid)).catch(() => undefined);
    }
  }

  /** To be called when leaves were removed: what their tasks had for themselves is everybody's again. */
  settleCores(): void {
    this.#cores?.settleAfterEnd();
  }

  /**
   * Makes a fresh leaf for one run and sets its limits. A limit that cannot be set is in `unmet`.
   * @returns undefined when the mode is `none`
   * @throws AgentError executor_failed when it cannot be made, or existed: a leaf is never used twice, because a
   *   group that was killed once kills whatever is born in it (see native/README.md)
   */
  createLeaf(name: string, limits: CgroupLimits): CreatedLeaf | undefined {
    const planned = this.planLeaf(name, limits);
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
    return { ...planned, unmet: this.#limit(name, leaf, limits, 'fresh') };
  }

  /**
   * Changes the limits of a leaf that is in use. On v1 all that runs in it comes into hierarchies that it had no need of
   * when it started, and leaves that of cores when it has none of its own any more.
   * @param note writes down where the leaf is now, before anything is moved: who comes after us must find all of it
   */
  changeLimits(leaf: CgroupLeaf, limits: CgroupLimits, note: (leaf: CgroupLeaf) => void): ChangedLeaf {
    const name = nameOfLeaf(leaf);
    const { leaf: wider, unmet } = widenLeaf(leaf, this.#neededRoots(limits), limits, note);
    unmet.push(...this.#limit(name, wider, limits, 'change'));
    const cpusets = this.#onDemand.get('cpuset');
    const now = cpusets === undefined ? wider : leaveIdleCpuset(wider, join(cpusets, name), note);
    return { leaf: now, unmet: [...unmet, ...joinAdded(leaf, now, limits)] };
  }

  #limit(name: string, leaf: CgroupLeaf, limits: CgroupLimits, mode: 'fresh' | 'change'): UnmetLimit[] {
    const unmet = applyLimits(leaf, limits, mode);
    const cores = this.#reserve(name, leaf, limits.cores, mode);
    return cores === undefined ? unmet : [...unmet, cores];
  }

  #reserve(name: string, leaf: CgroupLeaf, cores: number, mode: 'fresh' | 'change'): UnmetLimit | undefined {
    const tell = (why: string, isPassing = false): UnmetLimit => ({
      limit: 'cores',
      why: `no cores of its own: ${why}`,
      isPassing,
    });
    if (this.#cores === undefined)
      return cores === 0 ? undefined : tell('this host offers no cpuset controller');
    const v1 = this.#onDemand.get('cpuset');
    // v1: a run without a group in that hierarchy has no cores, and needs none.
    if (v1 !== undefined && !leaf.v1.includes(join(v1, name))) return undefined;
    if (cores === 0 && mode === 'fresh') {
      this.#cores.keepOff(name);
      return undefined;
    }
    const fault = this.#cores.reserve(name, cores);
    return fault === undefined ? undefined : tell(fault.why, fault.isPassing);
  }

  /** What `createLeaf` will make: it can be written down before it is there. Undefined when the mode is `none`. */
  planLeaf(name: string, limits: CgroupLimits): PlannedLeaf | undefined {
    if (this.mode === 'none') return undefined;
    return { leaf: this.#leaf(name, this.#neededRoots(limits)), ...this.#memoryFiles(name) };
  }

  /** Of the hierarchies that only those are in who need them. */
  #neededRoots(limits: CgroupLimits): string[] {
    const needed = [
      ...(limits.cores > 0 ? ['cpuset'] : []),
      ...(wantsIo(limits) ? ['blkio'] : []),
      ...(limits.pidsMax === undefined ? [] : ['pids']),
    ];
    return needed.flatMap((controller) => this.#onDemand.get(controller) ?? []);
  }

  /** Where the leaf of that name is, or would be, in every hierarchy that it may be in. */
  leafOf(name: string): CgroupLeaf {
    return this.#leaf(name, [...this.#onDemand.values()]);
  }

  /** A leaf with all the groups that it has come into while it was in use. */
  wholeLeaf(leaf: CgroupLeaf): CgroupLeaf {
    const others = [...this.#onDemand.values()].map((root) => join(root, nameOfLeaf(leaf)));
    return { ...leaf, v1: [...new Set([...leaf.v1, ...others.filter((dir) => existsSync(dir))])] };
  }

  #leaf(name: string, onDemand: readonly string[]): CgroupLeaf {
    const v1 = [...this.#v1].filter(([controller]) => controller !== 'systemd').map(([, dir]) => dir);
    return {
      unified: this.#unified === undefined ? undefined : join(this.#unified, name),
      v1: [...new Set([...v1, ...onDemand].map((dir) => join(dir, name)))],
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
        memoryHits: join(dir, 'memory.failcnt'),
      };
    }
    if (this.#unified === undefined || !this.controllers.has('memory'))
      return { memoryEvents: undefined, memoryPeak: undefined, memoryHits: undefined };
    const dir = join(this.#unified, name);
    const memoryEvents = join(dir, 'memory.events');
    return { memoryEvents, memoryPeak: join(dir, 'memory.peak'), memoryHits: memoryEvents };
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
