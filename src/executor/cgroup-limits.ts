/** Owns what a task's resources mean to the kernel: pure arithmetic, no files. */
import { DEFAULTS } from '../jobspec/defaults.js';
import type { Resources } from '../jobspec/types.js';

/** Limits of one leaf, in the kernel's units; undefined = none. */
export interface CgroupLimits {
  /** Beyond this something of the group is killed. */
  readonly memoryMaxBytes: number | undefined;
  /** Protected from reclaim as far as possible. */
  readonly memoryReserveBytes: number | undefined;
  /** v1 cpu.shares, 2 … 262,144. */
  readonly cpuShares: number;
  /** Hard quota in percent of one core. */
  readonly cpuQuotaPercent: number | undefined;
  readonly pidsMax: number | undefined;
}

/** Limits that a job file may ask for, by the key it does so with. */
export type LimitName = 'memory' | 'memory_max' | 'cpu' | 'cpu_percent' | 'pids';

const BYTES_PER_MIB = 1024 * 1024;
/** The kernel's range of cpu.shares. */
const MIN_SHARES = 2;
const MAX_SHARES = 262_144;
/** The kernel's range of cpu.weight. */
const MIN_WEIGHT = 1;
const MAX_WEIGHT = 10_000;

/** @param hostCpuMhz all cores together: a host beyond the range of shares is scaled down to it */
export function cgroupLimits(resources: Resources, hostCpuMhz: number): CgroupLimits {
  return {
    ...memoryLimits(resources.memoryMib, resources.memoryMaxMib),
    cpuShares: cpuShares(resources.cpuMhz, hostCpuMhz),
    cpuQuotaPercent: resources.cpuPercent,
    pidsMax: resources.pids,
  };
}

/**
 * The hard limits that were asked for: those that a job file need not name, and does. A `memory` that is the default
 * may not have been written at all, and counts as not asked for.
 */
export function demandedLimits(resources: Resources): LimitName[] {
  const asked: LimitName[] = [];
  if (resources.memoryMib !== DEFAULTS.memoryMib.value) asked.push('memory');
  if (resources.memoryMaxMib !== undefined && resources.memoryMaxMib !== -1) asked.push('memory_max');
  if (resources.cpuPercent !== undefined) asked.push('cpu_percent');
  if (resources.pids !== undefined) asked.push('pids');
  return asked;
}

/** `memory` is the limit, unless `memory_max` is above it (then `memory` is a reservation) or -1 (no limit). */
export function memoryLimits(
  memoryMib: number,
  memoryMaxMib: number | undefined,
): Pick<CgroupLimits, 'memoryMaxBytes' | 'memoryReserveBytes'> {
  const memoryBytes = memoryMib * BYTES_PER_MIB;
  if (memoryMaxMib === -1) return { memoryMaxBytes: undefined, memoryReserveBytes: memoryBytes };
  if (memoryMaxMib === undefined || memoryMaxMib <= 0)
    return { memoryMaxBytes: memoryBytes, memoryReserveBytes: undefined };
  return { memoryMaxBytes: memoryMaxMib * BYTES_PER_MIB, memoryReserveBytes: memoryBytes };
}

/** Shares are MHz, within what the kernel takes. */
export function cpuShares(cpuMhz: number, hostCpuMhz: number): number {
  const scale = hostCpuMhz >= MAX_SHARES ? MAX_SHARES / hostCpuMhz : 1;
  return Math.min(MAX_SHARES, Math.max(MIN_SHARES, Math.round(cpuMhz * scale)));
}

/** The cgroup v2 weight of a number of shares: the curve runc and crun use, by which 1024 shares weigh 100. */
export function cpuWeight(shares: number): number {
  if (shares <= MIN_SHARES) return MIN_WEIGHT;
  if (shares >= MAX_SHARES) return MAX_WEIGHT;
  const log = Math.log2(shares);
  return Math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34));
}
