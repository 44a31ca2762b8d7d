/** Owns the reading of kernel texts about usage: pure parsers of cgroup files. Unreadable text is undefined, never 0. */

/** What `memory.limit_in_bytes` says when there is no limit is the largest page-aligned number: nothing is as big. */
const V1_NO_LIMIT_BYTES = 2 ** 62;

/** A file that holds one number. */
export function parseNumber(text: string | undefined): number | undefined {
  const trimmed = text?.trim();
  return trimmed !== undefined && /^\d+$/.test(trimmed) ? Number(trimmed) : undefined;
}

/** A value of a file of `key value` lines. */
export function parseKeyed(text: string | undefined, key: string): number | undefined {
  for (const line of text?.split('\n') ?? []) {
    if (line.startsWith(`${key} `)) return parseNumber(line.slice(key.length + 1));
  }
  return undefined;
}

/** CPU time in ms, from the v2 `cpu.stat`. */
export function parseCpuStatMs(text: string | undefined): number | undefined {
  const usageUs = parseKeyed(text, 'usage_usec');
  return usageUs === undefined ? undefined : usageUs / 1000;
}

/** CPU time in ms, from the v1 `cpuacct.usage`. */
export function parseCpuacctMs(text: string | undefined): number | undefined {
  const usageNs = parseNumber(text);
  return usageNs === undefined ? undefined : usageNs / 1e6;
}

interface IoBytes {
  readonly readBytes: number;
  readonly writeBytes: number;
}

/** Bytes read and written over all devices, from the v2 `io.stat`; undefined when the file is not there. */
export function parseIoStat(text: string | undefined): IoBytes | undefined {
  if (text === undefined) return undefined;
  const sum = (key: string): number => sumOf(text, new RegExp(`\\b${key}=(\\d+)`, 'g'));
  return { readBytes: sum('rbytes'), writeBytes: sum('wbytes') };
}

/**
 * The same from the v1 `blkio.throttle.io_service_bytes`. Undefined also when it names no device: newer kernels count only where
 * some group's speed is limited.
 */
export function parseBlkioBytes(text: string | undefined): IoBytes | undefined {
  if (text === undefined || !/^\d+:\d+ /m.test(text)) return undefined;
  const sum = (way: string): number => sumOf(text, new RegExp(`^\\d+:\\d+ ${way} (\\d+)$`, 'gm'));
  return { readBytes: sum('Read'), writeBytes: sum('Write') };
}

function sumOf(text: string, form: RegExp): number {
  return [...text.matchAll(form)].reduce((total, [, bytes]) => total + Number(bytes), 0);
}

/** Percent of the last 10 s in which some of the group waited, from a v2 `*.pressure` file. */
export function parsePressure(text: string | undefined): number | undefined {
  const found = /^some avg10=(\d+(?:\.\d+)?) /m.exec(text ?? '')?.[1];
  return found === undefined ? undefined : Number(found);
}

/** How often and how long a CPU quota held a group back, from `cpu.stat`: v2 (µs) or v1 (ns). */
export function parseThrottling(text: string | undefined): {
  readonly periods: number | undefined;
  readonly ms: number | undefined;
} {
  const us = parseKeyed(text, 'throttled_usec');
  const ns = parseKeyed(text, 'throttled_time');
  const ms = us === undefined ? (ns === undefined ? undefined : ns / 1e6) : us / 1000;
  return { periods: parseKeyed(text, 'nr_throttled'), ms };
}

/** A memory limit in bytes, from v2 `memory.max` or v1 `memory.limit_in_bytes`; undefined = none. */
export function parseMemoryLimit(text: string | undefined): number | undefined {
  const bytes = parseNumber(text);
  return bytes === undefined || bytes >= V1_NO_LIMIT_BYTES ? undefined : bytes;
}

/**
 * Memory that the kernel could not simply take back: all of the group's, less the file cache that lies idle.
 * @param stat text of `memory.stat`, v2 or v1 (where the sum over the tree is the `total_` line)
 */
export function workingSetBytes(usageBytes: number, stat: string | undefined): number {
  const idle = parseKeyed(stat, 'total_inactive_file') ?? parseKeyed(stat, 'inactive_file') ?? 0;
  return Math.max(0, usageBytes - idle);
}

/**
 * What the memory charged to a group is, from `memory.stat`: v2 (`anon`, `file`) or v1, where the sums over the tree are
 * the `total_` lines.
 */
export function parseMemoryParts(stat: string | undefined): {
  readonly memoryRssBytes: number | undefined;
  readonly memoryCacheBytes: number | undefined;
} {
  return {
    memoryRssBytes: parseKeyed(stat, 'total_rss') ?? parseKeyed(stat, 'anon'),
    memoryCacheBytes: parseKeyed(stat, 'total_cache') ?? parseKeyed(stat, 'file'),
  };
}

/** Percent of one core between two readings of a counter; undefined when no time has passed. */
export function cpuPercentBetween(
  before: { readonly monoMs: number; readonly cpuTotalMs: number },
  after: { readonly monoMs: number; readonly cpuTotalMs: number },
): number | undefined {
  const elapsedMs = after.monoMs - before.monoMs;
  if (elapsedMs <= 0) return undefined;
  return (Math.max(0, after.cpuTotalMs - before.cpuTotalMs) / elapsedMs) * 100;
}
