/**
 * Owns the limits of disk I/O in the cgroup leaf of one run: the writing, and the look at what the kernel made of them. They
 * hold for each whole disk that is there when they are set.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describeError } from '../base/errors.js';
import type { CgroupLimits, LimitName } from './cgroup-limits.js';
import type { LeafFiles } from './leaf-files.js';

export type IoLimits = Pick<CgroupLimits, 'ioWeight' | 'ioReadBps' | 'ioWriteBps'>;

/** What is in force. */
export interface IoInForce extends IoLimits {
  /** A weight that is set, and that no disk of this host heeds; ioWeight is undefined then. */
  readonly ioWeightIdle: number | undefined;
}

interface Unmet {
  readonly limit: LimitName;
  readonly why: string;
  readonly isNote?: boolean;
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
export function applyIo(files: LeafFiles, limits: IoLimits, mode: 'fresh' | 'change'): Unmet[] {
  if (mode === 'fresh' && !wantsIo(limits)) return [];
  const unmet: Unmet[] = [];
  const tell = (limit: LimitName, what: string, why: string | undefined): void => {
    if (why !== undefined) unmet.push({ limit, why: `${what}: ${why}` });
  };
  tell('io_weight', 'the share of the disks is not set', applyWeight(files, limits.ioWeight, mode));
  const { ioWeightIdle: idle } = readIo(files);
  if (limits.ioWeight !== undefined && idle !== undefined) {
    const why = `the share of the disks (io_weight ${idle}) has no effect: no disk here has the I/O scheduler bfq, or iocost`;
    unmet.push({ limit: 'io_weight', why, isNote: true });
  }
  tell('io_read', 'reading from disks is not limited', applySpeed(files, 'read', limits.ioReadBps));
  tell('io_write', 'writing to disks is not limited', applySpeed(files, 'write', limits.ioWriteBps));
  return unmet;
}

/** What is in force; of several disks, the least. */
export function readIo(files: LeafFiles): IoInForce {
  const weight = readWeight(files);
  const isHeeded = weight !== undefined && weightFiles(files).some((path) => isWeightHeeded(path));
  return {
    ioWeight: isHeeded ? weight : undefined,
    ioWeightIdle: isHeeded ? undefined : weight,
    ioReadBps: leastOf(speeds(files, 'read')),
    ioWriteBps: leastOf(speeds(files, 'write')),
  };
}

/**
 * Whether any disk of this host heeds weights: one with the I/O scheduler bfq (before Linux 5.0: cfq), or, on v2, iocost. Where
 * iocost cannot be seen, as in a container, it is taken to be there.
 * @param weightFile of any group
 */
export function isWeightHeeded(weightFile: string, sysBlock = '/sys/block'): boolean {
  const hasScheduler = ({ name }: Disk): boolean =>
    /\[(bfq|cfq)\]/.test(readText(join(sysBlock, name, 'queue', 'scheduler')));
  if (listDisks(sysBlock).some(hasScheduler)) return true;
  if (!weightFile.endsWith('/io.weight')) return false;
  // Of iocost, only the topmost group tells.
  let top = dirname(weightFile);
  while (top !== dirname(top) && !existsSync(join(top, 'io.cost.qos'))) top = dirname(top);
  return top === dirname(top) || /\benable=1\b/.test(readText(join(top, 'io.cost.qos')));
}

/** Undefined also for that of everybody. */
function readWeight(files: LeafFiles): number | undefined {
  const weight = weightFiles(files)
    .map((path) => /(\d+)/.exec(files.readAt(path) ?? '')?.[1])
    .find((text) => text !== undefined);
  return weight === undefined || Number(weight) === DEFAULT_WEIGHT ? undefined : Number(weight);
}

function applyWeight(
  files: LeafFiles,
  weight: number | undefined,
  mode: 'fresh' | 'change',
): string | undefined {
  const paths = weightFiles(files);
  if (paths.length === 0) return weight === undefined ? undefined : missing('share');
  if (weight === undefined && (mode === 'fresh' || readWeight(files) === undefined)) return undefined;
  for (const path of paths) {
    const isV2 = path.endsWith('/io.weight');
    const wanted = isV2 ? (weight ?? DEFAULT_WEIGHT) : Math.min(weight ?? DEFAULT_WEIGHT, MOST_BFQ_WEIGHT);
    try {
      files.add(path, String(wanted));
    } catch (error) {
      return describeError(error);
    }
    const seen = files.readAt(path) ?? '';
    if (!seen.split(/\s/).includes(String(wanted)))
      return `the kernel made ${JSON.stringify(seen)} of ${wanted}`;
  }
  return undefined;
}

function applySpeed(files: LeafFiles, way: 'read' | 'write', bps: number | undefined): string | undefined {
  const path = speedFile(files, way);
  if (path === undefined) return bps === undefined ? undefined : missing('limit');
  const isV2 = path.endsWith('/io.max');
  const set = (device: string, value: number | undefined): void => {
    const key = way === 'read' ? 'rbps' : 'wbps';
    files.add(path, isV2 ? `${device} ${key}=${value ?? 'max'}` : `${device} ${value ?? 0}`);
  };
  try {
    if (bps === undefined) {
      for (const device of speeds(files, way).keys()) set(device, undefined);
      return undefined;
    }
    const disks = listDisks();
    if (disks.length === 0) return 'this host shows no disk in /sys/block';
    for (const { device } of disks) set(device, bps);
    const seen = speeds(files, way);
    const off = disks.find(({ device }) => seen.get(device) !== bps);
    return off === undefined
      ? undefined
      : `the kernel made ${String(seen.get(off.device))} of ${bps} for ${off.name}`;
  } catch (error) {
    return describeError(error);
  }
}

/** Bytes a second by device, where there is a limit. */
function speeds(files: LeafFiles, way: 'read' | 'write'): ReadonlyMap<string, number> {
  const path = speedFile(files, way);
  const found = new Map<string, number>();
  if (path === undefined) return found;
  const inV2 = way === 'read' ? /^(\d+:\d+) .*\brbps=(\d+)/ : /^(\d+:\d+) .*\bwbps=(\d+)/;
  const form = path.endsWith('/io.max') ? inV2 : /^(\d+:\d+) (\d+)$/;
  for (const line of (files.readAt(path) ?? '').split('\n')) {
    const [, device, bps] = form.exec(line) ?? [];
    if (device !== undefined) found.set(device, Number(bps));
  }
  return found;
}

function speedFile(files: LeafFiles, way: 'read' | 'write'): string | undefined {
  return files.v1(V1_SPEEDS[way]) ?? files.v2('io.max');
}

function weightFiles(files: LeafFiles): readonly string[] {
  for (const file of V1_WEIGHTS) {
    const path = files.v1(file);
    if (path !== undefined) return [path];
  }
  return ['io.weight', 'io.bfq.weight'].flatMap((file) => files.v2(file) ?? []);
}

function missing(what: 'limit' | 'share'): string {
  return what === 'share'
    ? 'this host offers no weights of disks: they need the I/O scheduler bfq, or iocost'
    : 'this host offers no io controller';
}

function listDisks(sysBlock = '/sys/block'): readonly Disk[] {
  const names = existsSync(sysBlock) ? readdirSync(sysBlock) : [];
  return names
    .filter((name) => !NO_DISKS.test(name) && Number(readText(`${sysBlock}/${name}/size`)) > 0)
    .map((name) => ({ name, device: readText(`${sysBlock}/${name}/dev`) }));
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
