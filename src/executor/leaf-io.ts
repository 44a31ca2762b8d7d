/**
 * Owns the limits of disk I/O in the cgroup leaf of one run: the writing, and the look at what the kernel made of them. They
 * hold for each whole disk that is there when they are set.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describeError } from '../base/errors.js';
import type { CgroupLeaf } from './cgroup-leaf.js';
import type { CgroupLimits, LimitName } from './cgroup-limits.js';
import { v1File, v2File } from './leaf-files.js';

export type IoLimits = Pick<CgroupLimits, 'ioWeight' | 'ioReadBps' | 'ioWriteBps'>;

interface Unmet {
  readonly limit: LimitName;
  readonly why: string;
}

/** A whole disk of this host. */
interface Disk {
  readonly name: string;
  /** `MAJOR:MINOR`. */
  readonly device: string;
}

/** In memory, or of no interest: their speed is nobody's disk's. */
const NO_DISKS = /^(loop|ram|zram|sr|fd)\d/;
const DEFAULT_WEIGHT = 100;
/** The scheduler bfq, and cgroup v1, know weights up to this. */
const MOST_BFQ_WEIGHT = 1_000;
/** v1 had a least weight of 10 before bfq. */
const V1_WEIGHTS = ['blkio.bfq.weight', 'blkio.weight'];
const V1_SPEEDS = { read: 'blkio.throttle.read_bps_device', write: 'blkio.throttle.write_bps_device' };

/** Whether anything of it is asked for. */
export function wantsIo(limits: IoLimits): boolean {
  return limits.ioWeight !== undefined || limits.ioReadBps !== undefined || limits.ioWriteBps !== undefined;
}

/** Sets them, and reads each back. @param mode as in applyLimits */
export function applyIo(leaf: CgroupLeaf, limits: IoLimits, mode: 'fresh' | 'change'): Unmet[] {
  if (mode === 'fresh' && !wantsIo(limits)) return [];
  const unmet: Unmet[] = [];
  const tell = (limit: LimitName, what: string, why: string | undefined): void => {
    if (why !== undefined) unmet.push({ limit, why: `${what}: ${why}` });
  };
  tell('io_weight', 'the share of the disks is not set', applyWeight(leaf, limits.ioWeight, mode));
  tell('io_read', 'reading from disks is not limited', applySpeed(leaf, 'read', limits.ioReadBps));
  tell('io_write', 'writing to disks is not limited', applySpeed(leaf, 'write', limits.ioWriteBps));
  return unmet;
}

/** What is in force; of several disks, the least. A weight of 100 is that of everybody, and none. */
export function readIo(leaf: CgroupLeaf): IoLimits {
  const weight = weightFiles(leaf)
    .map((path) => /(\d+)/.exec(readText(path))?.[1])
    .find((text) => text !== undefined);
  return {
    ioWeight: weight === undefined || Number(weight) === DEFAULT_WEIGHT ? undefined : Number(weight),
    ioReadBps: leastOf(speeds(leaf, 'read')),
    ioWriteBps: leastOf(speeds(leaf, 'write')),
  };
}

function applyWeight(
  leaf: CgroupLeaf,
  weight: number | undefined,
  mode: 'fresh' | 'change',
): string | undefined {
  const files = weightFiles(leaf);
  if (files.length === 0) return weight === undefined ? undefined : missing('share');
  if (weight === undefined && (mode === 'fresh' || readIo(leaf).ioWeight === undefined)) return undefined;
  for (const path of files) {
    const isV2 = path.endsWith('/io.weight');
    const wanted = isV2 ? (weight ?? DEFAULT_WEIGHT) : Math.min(weight ?? DEFAULT_WEIGHT, MOST_BFQ_WEIGHT);
    try {
      writeFileSync(path, String(wanted));
    } catch (error) {
      return describeError(error);
    }
    if (!readText(path).split(/\s/).includes(String(wanted)))
      return `the kernel made ${JSON.stringify(readText(path))} of ${wanted}`;
  }
  return undefined;
}

function applySpeed(leaf: CgroupLeaf, way: 'read' | 'write', bps: number | undefined): string | undefined {
  const path = speedFile(leaf, way);
  if (path === undefined) return bps === undefined ? undefined : missing('limit');
  const isV2 = path.endsWith('/io.max');
  const set = (device: string, value: number | undefined): void => {
    const key = way === 'read' ? 'rbps' : 'wbps';
    writeFileSync(path, isV2 ? `${device} ${key}=${value ?? 'max'}` : `${device} ${value ?? 0}`);
  };
  try {
    if (bps === undefined) {
      for (const device of speeds(leaf, way).keys()) set(device, undefined);
      return undefined;
    }
    const disks = listDisks();
    if (disks.length === 0) return 'this host shows no disk in /sys/block';
    for (const { device } of disks) set(device, bps);
    const seen = speeds(leaf, way);
    const off = disks.find(({ device }) => seen.get(device) !== bps);
    return off === undefined
      ? undefined
      : `the kernel made ${String(seen.get(off.device))} of ${bps} for ${off.name}`;
  } catch (error) {
    return describeError(error);
  }
}

/** Bytes a second by device, where there is a limit. */
function speeds(leaf: CgroupLeaf, way: 'read' | 'write'): ReadonlyMap<string, number> {
  const path = speedFile(leaf, way);
  const found = new Map<string, number>();
  if (path === undefined) return found;
  const inV2 = way === 'read' ? /^(\d+:\d+) .*\brbps=(\d+)/ : /^(\d+:\d+) .*\bwbps=(\d+)/;
  const form = path.endsWith('/io.max') ? inV2 : /^(\d+:\d+) (\d+)$/;
  for (const line of readText(path).split('\n')) {
    const [, device, bps] = form.exec(line) ?? [];
    if (device !== undefined) found.set(device, Number(bps));
  }
  return found;
}

function speedFile(leaf: CgroupLeaf, way: 'read' | 'write'): string | undefined {
  return v1File(leaf, V1_SPEEDS[way]) ?? v2File(leaf, 'io.max');
}

function weightFiles(leaf: CgroupLeaf): readonly string[] {
  for (const file of V1_WEIGHTS) {
    const path = v1File(leaf, file);
    if (path !== undefined) return [path];
  }
  return ['io.weight', 'io.bfq.weight'].flatMap((file) => v2File(leaf, file) ?? []);
}

function missing(what: 'limit' | 'share'): string {
  return what === 'share'
    ? 'this host offers no weights of disks: they need the I/O scheduler bfq, or iocost'
    : 'this host offers no io controller';
}

function listDisks(): readonly Disk[] {
  const names = existsSync('/sys/block') ? readdirSync('/sys/block') : [];
  return names
    .filter((name) => !NO_DISKS.test(name) && Number(readText(`/sys/block/${name}/size`)) > 0)
    .map((name) => ({ name, device: readText(`/sys/block/${name}/dev`) }));
}

function leastOf(speeds: ReadonlyMap<string, number>): number | undefined {
  return speeds.size === 0 ? undefined : Math.min(...speeds.values());
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
