/** Owns the sampling of this host as a whole: memory, processors, uptime, the disk of the data dir. */
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { cpus, uptime } from 'node:os';
import type { Clock } from '../base/clock.js';
import { unescapeOctal } from '../base/mounts.js';

export interface HostUsage {
  readonly atMs: number;
  readonly uptimeMs: number;
  readonly memory: HostMemory;
  /** One per processor; percent of it since the sample before, the first since the agent started. */
  readonly cpus: readonly CpuShare[];
  /** The file system that holds the data dir. */
  readonly disk: DiskUsage;
}

export interface HostMemory {
  readonly totalBytes: number;
  /** What could be had without swapping. */
  readonly availableBytes: number;
  readonly freeBytes: number;
}

export interface CpuShare {
  readonly userPercent: number;
  readonly systemPercent: number;
  readonly idlePercent: number;
}

export interface DiskUsage {
  readonly device: string;
  readonly mountPoint: string;
  readonly sizeBytes: number;
  /** What an ordinary user may still take. */
  readonly availableBytes: number;
  readonly usedBytes: number;
  readonly inodesUsedPercent: number;
}

/** Milliseconds of one processor since boot, as node:os tells them. */
export interface CpuTimes {
  readonly user: number;
  readonly nice: number;
  readonly sys: number;
  readonly idle: number;
  readonly irq: number;
}

/** Askers within this time share the percentages: over less they are noise. */
const SHARE_WITHIN_MS = 500;

/** Samples the host when it is asked. One per agent. */
export class HostSampler {
  readonly #clock: Clock;
  readonly #dataDir: string;
  #before = cpus().map(({ times }) => times);
  #beforeMonoMs: number;
  #shares: readonly CpuShare[] | undefined;

  constructor(clock: Clock, dataDir: string) {
    this.#clock = clock;
    this.#dataDir = dataDir;
    this.#beforeMonoMs = clock.monoMs();
  }

  async sample(): Promise<HostUsage> {
    return {
      atMs: this.#clock.wallMs(),
      uptimeMs: uptime() * 1000,
      memory: parseMeminfo(readFileSync('/proc/meminfo', 'utf8')),
      cpus: this.#readShares(),
      disk: await readDisk(this.#dataDir),
    };
  }

  #readShares(): readonly CpuShare[] {
    const monoMs = this.#clock.monoMs();
    if (this.#shares !== undefined && monoMs - this.#beforeMonoMs < SHARE_WITHIN_MS) return this.#shares;
    const now = cpus().map(({ times }) => times);
    this.#shares = now.map((times, at) => cpuShareBetween(this.#before[at] ?? ZERO_TIMES, times));
    this.#before = now;
    this.#beforeMonoMs = monoMs;
    return this.#shares;
  }
}

const ZERO_TIMES: CpuTimes = { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 };

/** Pure. Without any time between the two, it was idle. */
export function cpuShareBetween(before: CpuTimes, after: CpuTimes): CpuShare {
  const of = (key: keyof CpuTimes): number => Math.max(0, after[key] - before[key]);
  const user = of('user') + of('nice');
  const system = of('sys') + of('irq');
  const total = user + system + of('idle');
  if (total === 0) return { userPercent: 0, systemPercent: 0, idlePercent: 100 };
  const percent = (part: number): number => (part / total) * 100;
  return { userPercent: percent(user), systemPercent: percent(system), idlePercent: percent(of('idle')) };
}

/** Reads the text of /proc/meminfo. Pure. */
export function parseMeminfo(text: string): HostMemory {
  const bytesOf = (key: string): number =>
    Number(new RegExp(`^${key}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024;
  const freeBytes = bytesOf('MemFree');
  return { totalBytes: bytesOf('MemTotal'), availableBytes: bytesOf('MemAvailable') || freeBytes, freeBytes };
}

async function readDisk(path: string): Promise<DiskUsage> {
  const [stat, mountinfo] = [await statfs(path), readFileSync('/proc/self/mountinfo', 'utf8')];
  return {
    ...findMount(mountinfo, path),
    sizeBytes: stat.blocks * stat.bsize,
    availableBytes: stat.bavail * stat.bsize,
    usedBytes: (stat.blocks - stat.bfree) * stat.bsize,
    inodesUsedPercent: stat.files === 0 ? 0 : ((stat.files - stat.ffree) / stat.files) * 100,
  };
}

/** The mount that `path` lies in: the deepest, and of several at one place the last. Pure. */
export function findMount(mountinfo: string, path: string): Pick<DiskUsage, 'device' | 'mountPoint'> {
  let found = { device: '', mountPoint: '/' };
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const mountPoint = unescapeOctal(before.split(' ')[4] ?? '');
    const isWithin = mountPoint === '/' || path === mountPoint || path.startsWith(`${mountPoint}/`);
    if (mountPoint === '' || !isWithin || mountPoint.length < found.mountPoint.length) continue;
    found = { device: unescapeOctal(after.split(' ')[1] ?? ''), mountPoint };
  }
  return found;
}
