/**
 * Owns the writing of limits into the cgroup leaf of one run, when it is made and while it is in use, and the look at
 * what the kernel made of them. Works from the leaf's paths alone, as cgroup-leaf.ts does.
 */
import { dirname } from 'node:path';
import { describeError } from '../base/errors.js';
import type { CgroupLeaf } from './cgroup-leaf.js';
import { cpuWeight, type CgroupLimits, type LimitName } from './cgroup-limits.js';
import { readOwnCores } from './cores.js';
import { LeafFiles } from './leaf-files.js';
import { applyIo, readIo, type IoInForce } from './leaf-io.js';

/** A limit that is not in force, and why; for people. */
export interface UnmetLimit {
  readonly limit: LimitName;
  readonly why: string;
  /** Another time it may be had; absent = no. */
  readonly isPassing?: boolean;
  /** It is set, and has no effect as the host is now: told, and no reason not to start. */
  readonly isNote?: boolean;
}

/** One limit as both versions of cgroups write it; `none` takes it away again. */
interface LimitFile {
  readonly limit: LimitName;
  readonly what: string;
  readonly controller: string;
  readonly v1: { readonly file: string; readonly value: number | undefined; readonly none: number };
  readonly v2: { readonly file: string; readonly value: number | string | undefined; readonly none: string };
}

const CPU_PERIOD_US = 100_000;
/** The kernel rounds memory to pages, and keeps -1 as the largest number of them. */
const PAGE_BYTES = 4096;
const V1_MEMORY_AND_SWAP = 'memory.memsw.limit_in_bytes';
/** What the kernel starts with. */
const USUAL_SWAPPINESS = '60';

/** What the leaf of a run is limited to, as the kernel says it; undefined = no limit, or not to be had. */
export interface LimitsInForce extends IoInForce {
  readonly memoryMaxBytes: number | undefined;
  readonly memoryReserveBytes: number | undefined;
  readonly cpuQuotaPercent: number | undefined;
  readonly cpuShares: number | undefined;
  readonly cpuWeight: number | undefined;
  readonly pidsMax: number | undefined;
  readonly swapMaxBytes: number | undefined;
  /** Cores of its own, `0-2,5`. */
  readonly cpus: string | undefined;
}

/**
 * Sets the limits of a leaf, and reads each back; all but its cores, which have to do with those of others (cores.ts).
 * @param mode `fresh`: nothing is limited yet, what has no value is let alone; `change`: it is taken away. Then no
 *   memory limit is set below what is in use, which would kill
 */
export function applyLimits(leaf: CgroupLeaf, limits: CgroupLimits, mode: 'fresh' | 'change'): UnmetLimit[] {
  const unmet: UnmetLimit[] = [];
  const tell = (limit: LimitName, what: string, why: string | undefined): void => {
    if (why !== undefined) unmet.push({ limit, why: `${what} is not limited: ${why}` });
  };
  const files = new LeafFiles(leaf);
  // v1 keeps memory below memory and swap together: that one goes out of the way while memory changes.
  if (mode === 'change') files.trySet(files.v1(V1_MEMORY_AND_SWAP), '-1');
  for (const file of limitFiles(limits)) {
    const kept = mode === 'change' && file.what === 'memory' ? keptMemory(files, limits) : undefined;
    if (kept === undefined) tell(file.limit, file.what, applyOne(files, file, mode));
    else unmet.push({ limit: file.limit, why: kept });
  }
  tell('memory_swap', 'swap', applySwap(files, limits.swapMax, mode));
  return [...unmet, ...applyIo(files, limits, mode)];
}

/** What is in force now. */
export function readLimits(leaf: CgroupLeaf): LimitsInForce {
  const files = new LeafFiles(leaf);
  return {
    memoryMaxBytes: memoryLimit(files),
    memoryReserveBytes: amount(files.read('memory.soft_limit_in_bytes') ?? files.read('memory.low')),
    cpuQuotaPercent: readQuota(files),
    cpuShares: amount(files.read('cpu.shares')),
    cpuWeight: amount(files.read('cpu.weight')),
    pidsMax: amount(files.read('pids.max')),
    swapMaxBytes: readSwap(files),
    cpus: readCores(files),
    ...readIo(files),
  };
}

function memoryLimit(files: LeafFiles): number | undefined {
  return amount(files.read('memory.limit_in_bytes') ?? files.read('memory.max'));
}

/** Undefined = no limit, or what the kernel writes for none. */
function amount(text: string | undefined): number | undefined {
  const value = Number(text);
  return text === undefined || !(value > 0) || value > Number.MAX_SAFE_INTEGER / 2 ? undefined : value;
}

function readQuota(files: LeafFiles): number | undefined {
  const [allowed, period] = files.read('cpu.max')?.split(' ') ?? [files.read('cpu.cfs_quota_us') ?? '-1'];
  if (!(Number(allowed) > 0)) return undefined;
  return (Number(allowed) / Number(period ?? files.read('cpu.cfs_period_us') ?? CPU_PERIOD_US)) * 100;
}

function readCores(files: LeafFiles): string | undefined {
  const v1 = files.v1('cpuset.cpus');
  if (v1 !== undefined) return readOwnCores(dirname(v1), 1);
  const v2 = files.v2('cpuset.cpus');
  return v2 === undefined ? undefined : readOwnCores(dirname(v2), 2);
}

/** Beside the memory; undefined = no limit, or the kernel counts none. */
function readSwap(files: LeafFiles): number | undefined {
  const v2 = files.read('memory.swap.max');
  if (v2 !== undefined) return v2 === 'max' ? undefined : Number(v2);
  const [both, memory] = [V1_MEMORY_AND_SWAP, 'memory.limit_in_bytes'].map((file) =>
    Number(files.read(file)),
  );
  return both === undefined || memory === undefined || !(both < Number.MAX_SAFE_INTEGER / 2)
    ? undefined
    : both - memory;
}

function limitFiles(limits: CgroupLimits): LimitFile[] {
  const { memoryMaxBytes, memoryReserveBytes, cpuShares, cpuQuotaPercent, pidsMax } = limits;
  const quotaUs =
    cpuQuotaPercent === undefined ? undefined : Math.round((cpuQuotaPercent / 100) * CPU_PERIOD_US);
  return [
    {
      limit: memoryReserveBytes === undefined ? 'memory' : 'memory_max',
      what: 'memory',
      controller: 'memory',
      v1: { file: 'memory.limit_in_bytes', value: memoryMaxBytes, none: -1 },
      v2: { file: 'memory.max', value: memoryMaxBytes, none: 'max' },
    },
    {
      limit: 'memory',
      what: 'reserved memory',
      controller: 'memory',
      v1: { file: 'memory.soft_limit_in_bytes', value: memoryReserveBytes, none: -1 },
      v2: { file: 'memory.low', value: memoryReserveBytes, none: '0' },
    },
    {
      limit: 'cpu',
      what: 'the share of CPU',
      controller: 'cpu',
      v1: { file: 'cpu.shares', value: cpuShares, none: 1024 },
      v2: { file: 'cpu.weight', value: cpuWeight(cpuShares), none: '100' },
    },
    {
      limit: 'cpu_percent',
      what: 'CPU time',
      controller: 'cpu',
      v1: { file: 'cpu.cfs_quota_us', value: quotaUs, none: -1 },
      v2: {
        file: 'cpu.max',
        value: quotaUs === undefined ? undefined : `${quotaUs} ${CPU_PERIOD_US}`,
        none: `max ${CPU_PERIOD_US}`,
      },
    },
    {
      limit: 'pids',
      what: 'the number of processes',
      controller: 'pids',
      v1: { file: 'pids.max', value: pidsMax, none: Number.MAX_SAFE_INTEGER },
      v2: { file: 'pids.max', value: pidsMax, none: 'max' },
    },
  ];
}

/** @returns why the limit that memory has is not changed, which it is not while more is in use; undefined = it can be */
function keptMemory(files: LeafFiles, { memoryMaxBytes }: CgroupLimits): string | undefined {
  if (memoryMaxBytes === undefined) return undefined;
  const used = Number(files.read('memory.current') ?? files.read('memory.usage_in_bytes') ?? 0);
  if (used <= memoryMaxBytes) return undefined;
  const before = memoryLimit(files);
  const state = before === undefined ? 'is not limited' : `stays limited to ${before} bytes`;
  return `memory ${state}: ${used} bytes are in use, more than the ${memoryMaxBytes} it may have`;
}

/** @returns why it is not in force */
function applyOne(files: LeafFiles, limit: LimitFile, mode: 'fresh' | 'change'): string | undefined {
  if (mode === 'fresh' && limit.v1.value === undefined && limit.v2.value === undefined) return undefined;
  const v1 = files.v1(limit.v1.file);
  const path = v1 ?? files.v2(limit.v2.file);
  const { value, none } = v1 === undefined ? limit.v2 : limit.v1;
  if (value === undefined && path === undefined) return undefined;
  if (path === undefined) return `this host offers no ${limit.controller} controller`;
  // pids.max knows no number for "none", in either version.
  const wanted = String(value ?? (limit.limit === 'pids' ? 'max' : none));
  try {
    const seen = files.set(path, wanted);
    return isSame(seen, wanted) ? undefined : `the kernel made ${seen} of ${wanted}`;
  } catch (error) {
    return describeError(error);
  }
}

/** The kernel rounds; -1 and `max` read back as what they mean. */
function isSame(seen: string, wanted: string): boolean {
  if (seen === wanted || wanted === '-1') return true;
  return Math.abs(Number(seen) - Number(wanted)) < PAGE_BYTES;
}

/** @returns why it is not in force */
function applySwap(
  files: LeafFiles,
  swapMax: CgroupLimits['swapMax'],
  mode: 'fresh' | 'change',
): string | undefined {
  if (swapMax === undefined && mode === 'fresh') return undefined;
  const bytes = swapMax === 'avoid' ? 0 : swapMax;
  const v1 = files.v1(V1_MEMORY_AND_SWAP);
  const path = v1 ?? files.v2('memory.swap.max');
  // Not even what would fit below the limit: slow is what nobody asked for.
  if (files.hasV1) files.trySet(files.v1('memory.swappiness'), bytes === 0 ? '0' : USUAL_SWAPPINESS);
  if (path === undefined)
    return typeof swapMax === 'number'
      ? 'this kernel counts no swap for a cgroup (swapaccount=1)'
      : undefined;
  const memory = v1 === undefined ? 0 : Number(files.read('memory.limit_in_bytes'));
  if (bytes !== undefined && memory > Number.MAX_SAFE_INTEGER / 2)
    return swapMax === 'avoid'
      ? undefined
      : 'cgroup v1 limits swap only together with memory, which has no limit';
  const wanted = bytes === undefined ? (v1 === undefined ? 'max' : '-1') : String(memory + bytes);
  try {
    const seen = files.set(path, wanted);
    return isSame(seen, wanted) ? undefined : `the kernel made ${seen} of ${wanted}`;
  } catch (error) {
    return swapMax === 'avoid' ? undefined : describeError(error);
  }
}
