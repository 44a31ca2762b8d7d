/** Owns how usage looks on the wire. Pure. What nobody measured is 0 there and not named under `Measured`. */
import type { TaskUsage } from '../stats/usage.js';
import type { NodeFacts } from './operations.js';
import { msToNs, type AllocResourceUsage, type ResourceUsage } from './wire.js';

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
  };
  return {
    ResourceUsage: resourceUsage(total, mhzPerCore),
    Tasks: Object.fromEntries(
      chosen.map(([name, sample]) => [
        name,
        {
          ResourceUsage: resourceUsage({ ...sample, cpuPercent: sample.cpuPercent ?? 0 }, mhzPerCore),
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
            Source: sample.source,
          },
        },
      ]),
    ),
    Timestamp: msToNs(now.nowMs),
  };
}

type Sum = Pick<TaskUsage, 'memoryBytes' | 'memoryPeakBytes' | 'throttledPeriods' | 'throttledMs'> & {
  readonly cpuPercent: number;
};

function resourceUsage(sum: Sum, mhzPerCore: number): ResourceUsage {
  const { throttledPeriods, throttledMs, memoryPeakBytes } = sum;
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
      RSS: 0,
      Usage: sum.memoryBytes,
      MaxUsage: memoryPeakBytes ?? 0,
      Cache: 0,
      Swap: 0,
      KernelUsage: 0,
      KernelMaxUsage: 0,
      Measured: ['Usage', ...(memoryPeakBytes === undefined ? [] : ['Max Usage'])],
    },
    DeviceStats: [],
  };
}

/** MHz of one core, from the facts that Nomad's attributes have; 0 when they are not there. */
function readMhzPerCore(node: NodeFacts): number {
  const cores = Number(node.attributes['cpu.numcores']);
  return cores > 0 ? node.cpuMhzTotal / cores : Number(node.attributes['cpu.frequency'] ?? 0);
}
