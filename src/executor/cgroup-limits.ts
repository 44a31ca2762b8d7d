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
  /** Swap beside the memory; `avoid` = none, as far as the kernel can. */
  readonly swapMax: number | 'avoid' | undefined;
  /** Cores that nothing else of ours runs on; 0 = none of its own. */
  readonly cores: number;
  /** 1 … 10,000; a leaf that says nothing has 100. */
  readonly ioWeight: number | undefined;
  /** Bytes a second, from and to each disk. */
  readonly ioReadBps: number | undefined;
  readonly ioWriteBps: number | undefined;
}

/** What of the host the arithmetic needs. */
export interface HostCpus {
  /** All cores together. */
  readonly mhz: number;
  readonly cores: number;
}

/** Limits that a job file may ask for, by the key it does so with. */
export type LimitName =
  | 'memory'
  | 'memory_max'
  | 'memory_swap'
  | 'cpu'
  | 'cores'
  | 'cpu_percent'
  | 'pids'
  | 'io_weight'
  | 'io_read'
  | 'io_write';

const BYTES_PER_MIB = 1024 * 1024;
/** The kernel's range of cpu.shares. */
const MIN_SHARES = 2;
const MAX_SHARES = 262_144;
/** The kernel's range of cpu.weight. */
const MIN_WEIGHT = 1;
const MAX_WEIGHT = 10_000;

/** @param host a host beyond the range of shares is scaled down to it */
export function cgroupLimits(resources: Resources, host: HostCpus): CgroupLimits {
  const { cores = 0, memorySwapMib, ioReadMib, ioWriteMib } = resources;
  const memory = memoryLimits(resources.memoryMib, resources.memoryMaxMib);
  // Cores of its own weigh what they can do: programs that are no tasks may run on them as well.
  const cpuMhz = cores === 0 ? resources.cpuMhz : (cores * host.mhz) / host.cores;
  return {
    ...memory,
    cpuShares: cpuShares(cpuMhz, host.mhz),
    cpuQuotaPercent: resources.cpuPercent,
    pidsMax: resources.pids,
    swapMax: swapMax(memory.memoryMaxBytes, memorySwapMib),
    cores,
    ioWeight: resources.ioWeight,
    ioReadBps: ioReadMib === undefined ? undefined : ioReadMib * BYTES_PER_MIB,
    ioWriteBps: ioWriteMib === undefined ? undefined : ioWriteMib * BYTES_PER_MIB,
  };
}

/** A task that says nothing of swap and has a memory limit is limited to that, and not to that and all of the host's swap. */
function swapMax(
  memoryMaxBytes: number | undefined,
  memorySwapMib: number | undefined,
): CgroupLimits['swapMax'] {
  if (memorySwapMib === -1) return undefined;
  if (memorySwapMib !== undefined) return memorySwapMib * BYTES_PER_MIB;
  return memoryMaxBytes === undefined ? undefined : 'avoid';
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
  if (resources.memorySwapMib !== undefined && resources.memorySwapMib !== -1) asked.push('memory_swap');
  if (resources.ioWeight !== undefined) asked.push('io_weight');
  if (resources.ioReadMib !== undefined) asked.push('io_read');
  if (resources.ioWriteMib !== undefined) asked.push('io_write');
  return [...asked, ...demandedCores(resources)];
}

/** No wall but a promise that others were told of: whatever the driver, a task does not run without its cores. */
export function demandedCores(resources: Resources): LimitName[] {
  return (resources.cores ?? 0) > 0 ? ['cores'] : [];
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
