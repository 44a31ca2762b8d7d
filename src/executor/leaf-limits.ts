/**
 * Owns the writing of limits into the cgroup leaf of one run, when it is made and while it is in use, and the look at
 * what the kernel made of them. Works from the leaf's paths alone, as cgroup-leaf.ts does.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '../base/errors.js';
import type { CgroupLeaf } from './cgroup-leaf.js';
import { cpuWeight, type CgroupLimits, type LimitName } from './cgroup-limits.js';

/** A limit that is not in force, and why; for people. */
export interface UnmetLimit {
  readonly limit: LimitName;
  readonly why: string;
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

/** What the leaf of a run is limited to, as the kernel says it; undefined = no limit, or not to be had. */
export interface LimitsInForce {
  readonly memoryMaxBytes: number | undefined;
  readonly memoryReserveBytes: number | undefined;
  readonly cpuQuotaPercent: number | undefined;
  readonly cpuShares: number | undefined;
  readonly cpuWeight: number | undefined;
  readonly pidsMax: number | undefined;
}

/**
 * Sets the limits of a leaf, and reads each back.
 * @param mode `fresh`: nothing is limited yet, what has no value is let alone; `change`: it is taken away. Then no
 *   memory limit is set below what is in use, which would kill
 */
export function applyLimits(leaf: CgroupLeaf, limits: CgroupLimits, mode: 'fresh' | 'change'): UnmetLimit[] {
  const unmet: UnmetLimit[] = [];
  for (const file of limitFiles(limits)) {
    const why = applyOne(leaf, file, mode);
    if (why !== undefined) unmet.push({ limit: file.limit, why: `${file.what} is not limited: ${why}` });
  }
  if (limits.memoryMaxBytes !== undefined) forbidSwap(leaf);
  return unmet;
}

/** What is in force now. */
export function readLimits(leaf: CgroupLeaf): LimitsInForce {
  const quota = readFirst(leaf, 'cpu.max')?.split(' ') ?? [
    readFirst(leaf, 'cpu.cfs_quota_us') ?? '-1',
    readFirst(leaf, 'cpu.cfs_period_us') ?? String(CPU_PERIOD_US),
  ];
  const [allowed, period] = quota.map(Number);
  const number = (text: string | undefined): number | undefined => {
    const value = Number(text);
    return text === undefined || !(value > 0) || value > Number.MAX_SAFE_INTEGER / 2 ? undefined : value;
  };
  return {
    memoryMaxBytes: number(readFirst(leaf, 'memory.limit_in_bytes') ?? readFirst(leaf, 'memory.max')),
    memoryReserveBytes: number(
      readFirst(leaf, 'memory.soft_limit_in_bytes') ?? readFirst(leaf, 'memory.low'),
    ),
    cpuQuotaPercent:
      allowed !== undefined && period !== undefined && allowed > 0 ? (allowed / period) * 100 : undefined,
    cpuShares: number(readFirst(leaf, 'cpu.shares')),
    cpuWeight: number(readFirst(leaf, 'cpu.weight')),
    pidsMax: number(readFirst(leaf, 'pids.max')),
  };
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

/** @returns why it is not in force */
function applyOne(leaf: CgroupLeaf, limit: LimitFile, mode: 'fresh' | 'change'): string | undefined {
  const v1 = pathOf(leaf.v1, limit.v1.file);
  const path = v1 ?? pathOf(leaf.unified === undefined ? [] : [leaf.unified], limit.v2.file);
  const { value, none } = v1 === undefined ? limit.v2 : limit.v1;
  if (value === undefined && (mode === 'fresh' || path === undefined)) return undefined;
  if (path === undefined) return `this host offers no ${limit.controller} controller`;
  // pids.max knows no number for "none", in either version.
  const wanted = String(value ?? (limit.limit === 'pids' ? 'max' : none));
  if (mode === 'change' && limit.what === 'memory' && value !== undefined) {
    const used = Number(readFirst(leaf, 'memory.current') ?? readFirst(leaf, 'memory.usage_in_bytes') ?? 0);
    if (used > Number(value)) return `${used} bytes are in use, more than the ${value} it may have`;
  }
  try {
    writeFileSync(path, wanted);
  } catch (error) {
    return describeError(error);
  }
  const seen = readText(path);
  return isSame(seen, wanted) ? undefined : `the kernel made ${String(seen)} of ${wanted}`;
}

/** The kernel rounds; -1 and `max` read back as what they mean. */
function isSame(seen: string | undefined, wanted: string): boolean {
  if (seen === wanted || wanted === '-1') return true;
  return Math.abs(Number(seen) - Number(wanted)) < PAGE_BYTES;
}

/** Memory is limited to what it says, not to that and all of the host's swap. Best effort: many hosts have none. */
function forbidSwap(leaf: CgroupLeaf): void {
  const path =
    pathOf(leaf.v1, 'memory.swappiness') ??
    pathOf(leaf.unified === undefined ? [] : [leaf.unified], 'memory.swap.max');
  try {
    if (path !== undefined) writeFileSync(path, '0');
  } catch {
    // The kernel counts no swap.
  }
}

function readFirst(leaf: CgroupLeaf, file: string): string | undefined {
  const path = pathOf([...leaf.v1, ...(leaf.unified === undefined ? [] : [leaf.unified])], file);
  return path === undefined ? undefined : readText(path);
}

function pathOf(dirs: readonly string[], file: string): string | undefined {
  return dirs.map((dir) => join(dir, file)).find((path) => existsSync(path));
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
