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
  const total = {
    cpuPercent: samples.reduce((sum, { cpuPercent }) => sum + (cpuPercent ?? 0), 0),
    memoryBytes: samples.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
  };
  return {
    ResourceUsage: resourceUsage(total, mhzPerCore),
    Tasks: Object.fromEntries(
      chosen.map(([name, sample]) => [
        name,
        {
          ResourceUsage: resourceUsage(
            { cpuPercent: sample.cpuPercent ?? 0, memoryBytes: sample.memoryBytes },
            mhzPerCore,
          ),
          Timestamp: msToNs(sample.atMs),
          Pids: null,
          Holdfast: {
            CPUPercent: sample.cpuPercent ?? null,
            CPUTotalMs: sample.cpuTotalMs,
            MemoryBytes: sample.memoryBytes,
            MemoryLimitBytes: sample.memoryLimitBytes ?? null,
            Processes: sample.processes,
            Source: sample.source,
          },
        },
      ]),
    ),
    Timestamp: msToNs(now.nowMs),
  };
}

function resourceUsage(
  sum: { readonly cpuPercent: number; readonly memoryBytes: number },
  mhzPerCore: number,
): ResourceUsage {
  return {
    CpuStats: {
      Percent: sum.cpuPercent,
      TotalTicks: (sum.cpuPercent / 100) * mhzPerCore,
      SystemMode: 0,
      UserMode: 0,
      ThrottledPeriods: 0,
      ThrottledTime: 0,
      Measured: ['Percent', 'Total Ticks'],
    },
    MemoryStats: {
      RSS: 0,
      Usage: sum.memoryBytes,
      MaxUsage: 0,
      Cache: 0,
      Swap: 0,
      KernelUsage: 0,
      KernelMaxUsage: 0,
      Measured: ['Usage'],
    },
    DeviceStats: [],
  };
}

/** MHz of one core, from the facts that Nomad's attributes have; 0 when they are not there. */
function readMhzPerCore(node: NodeFacts): number {
  const cores = Number(node.attributes['cpu.numcores']);
  return cores > 0 ? node.cpuMhzTotal / cores : Number(node.attributes['cpu.frequency'] ?? 0);
}
