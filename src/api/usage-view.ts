/** Owns how usage looks on the wire. Pure. What nobody measured is 0 there and not named under `Measured`. */
import { SAMPLE_EVERY_MS } from '../stats/history.js';
import type { TaskUsage } from '../stats/usage.js';
import type { NodeFacts } from './operations.js';
import {
  msToNs,
  type AllocResourceUsage,
  type AllocUsageHistory,
  type ResourceUsage,
  type TaskResourceUsage,
} from './wire.js';

/** @param task only this one; undefined = all */
export function usageToWire(
  usage: Readonly<Record<string, TaskUsage>>,
  task: string | undefined,
  now: { readonly nowMs: number; readonly node: NodeFacts },
): AllocResourceUsage {
  const mhzPerCore = readMhzPerCore(now.node);
  const chosen = Object.entries(usage).filter(([name]) => task === undefined || task === '' || name === task);
  const samples = chosen.map(([, sample]) => sample);
  const sum = (of: (sample: TaskUsage) => number | undefined): number =>
    samples.reduce((total, sample) => total + (of(sample) ?? 0), 0);
  const total: Sum = {
    cpuPercent: sum(({ cpuPercent }) => cpuPercent),
    memoryBytes: sum(({ memoryBytes }) => memoryBytes),
    // The peaks of several tasks are of different moments: their sum says nothing.
    memoryPeakBytes: samples.length === 1 ? samples[0]?.memoryPeakBytes : undefined,
    throttledPeriods: sum(({ throttledPeriods }) => throttledPeriods),
    throttledMs: sum(({ throttledMs }) => throttledMs),
    ...(samples.some(({ memoryRssBytes }) => memoryRssBytes !== undefined)
      ? {
          memoryRssBytes: sum(({ memoryRssBytes }) => memoryRssBytes),
          memoryCacheBytes: sum(({ memoryCacheBytes }) => memoryCacheBytes),
        }
      : {}),
  };
  return {
    ResourceUsage: resourceUsage(total, mhzPerCore),
    Tasks: Object.fromEntries(chosen.map(([name, sample]) => [name, sampleToWire(sample, now.node)])),
    Timestamp: msToNs(now.nowMs),
  };
}

/** One sample of one task. */
export function sampleToWire(sample: TaskUsage, node: NodeFacts): TaskResourceUsage {
  const { pressure } = sample;
  return {
    ResourceUsage: resourceUsage({ ...sample, cpuPercent: sample.cpuPercent ?? 0 }, readMhzPerCore(node)),
    Timestamp: msToNs(sample.atMs),
    Pids: null,
    Holdfast: {
      CPUPercent: sample.cpuPercent ?? null,
      CPUTotalMs: sample.cpuTotalMs,
      MemoryBytes: sample.memoryBytes,
      MemoryLimitBytes: sample.memoryLimitBytes ?? null,
      Processes: sample.processes,
      MemoryPeakBytes: sample.memoryPeakBytes ?? null,
      ThrottledPeriods: sample.throttledPeriods ?? null,
      ThrottledMs: sample.throttledMs ?? null,
      OOMKills: sample.oomKills ?? null,
      CPUUserMs: sample.cpuUserMs ?? null,
      CPUSystemMs: sample.cpuSystemMs ?? null,
      IOReadBytes: sample.ioReadBytes ?? null,
      IOWriteBytes: sample.ioWriteBytes ?? null,
      Pressure:
        pressure === undefined
          ? null
          : {
              CPU: pressure.cpuPercent ?? null,
              Memory: pressure.memoryPercent ?? null,
              IO: pressure.ioPercent ?? null,
            },
      Source: sample.source,
    },
  };
}

/** The last samples of one alloc. */
export function historyToWire(
  history: ReadonlyMap<string, readonly TaskUsage[]>,
  node: NodeFacts,
): AllocUsageHistory {
  const tasks = [...history].map(([task, samples]): [string, TaskResourceUsage[]] => [
    task,
    samples.map((sample) => sampleToWire(sample, node)),
  ]);
  return { EveryMs: SAMPLE_EVERY_MS, Tasks: Object.fromEntries(tasks) };
}

type Sum = Pick<
  TaskUsage,
  | 'memoryBytes'
  | 'memoryPeakBytes'
  | 'memoryRssBytes'
  | 'memoryCacheBytes'
  | 'throttledPeriods'
  | 'throttledMs'
> & {
  readonly cpuPercent: number;
};

function resourceUsage(sum: Sum, mhzPerCore: number): ResourceUsage {
  const { throttledPeriods, throttledMs, memoryPeakBytes, memoryRssBytes, memoryCacheBytes } = sum;
  const throttling = throttledPeriods === undefined ? [] : ['Throttled Periods', 'Throttled Time'];
  return {
    CpuStats: {
      Percent: sum.cpuPercent,
      TotalTicks: (sum.cpuPercent / 100) * mhzPerCore,
      SystemMode: 0,
      UserMode: 0,
      ThrottledPeriods: throttledPeriods ?? 0,
      ThrottledTime: msToNs(throttledMs ?? 0),
      Measured: ['Percent', 'Total Ticks', ...throttling],
    },
    MemoryStats: {
      RSS: memoryRssBytes ?? 0,
      Usage: sum.memoryBytes,
      MaxUsage: memoryPeakBytes ?? 0,
      Cache: memoryCacheBytes ?? 0,
      Swap: 0,
      KernelUsage: 0,
      KernelMaxUsage: 0,
      Measured: [
        'Usage',
        ...(memoryPeakBytes === undefined ? [] : ['Max Usage']),
        ...(memoryRssBytes === undefined ? [] : ['RSS']),
        ...(memoryCacheBytes === undefined ? [] : ['Cache']),
      ],
    },
    DeviceStats: [],
  };
}

/** MHz of one core, from the facts that Nomad's attributes have; 0 when they are not there. */
function readMhzPerCore(node: NodeFacts): number {
  const cores = Number(node.attributes['cpu.numcores']);
  return cores > 0 ? node.cpuMhzTotal / cores : Number(node.attributes['cpu.frequency'] ?? 0);
}
