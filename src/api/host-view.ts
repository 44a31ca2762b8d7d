/** Owns how the usage of this host looks on the wire: Nomad's HostStats. Pure. */
import type { HostUsage } from '../stats/host.js';
import type { NodeFacts } from './operations.js';
import { msToNs, type HostDiskStats, type HostStats } from './wire.js';

export function hostUsageToWire(usage: HostUsage, node: NodeFacts): HostStats {
  const { memory, cpus, disk } = usage;
  const mhzPerCore = cpus.length === 0 ? 0 : node.cpuMhzTotal / cpus.length;
  const cores = cpus.map(({ userPercent, systemPercent, idlePercent }, at) => {
    const totalPercent = Math.min(100, Math.max(0, 100 - idlePercent));
    return {
      CPU: `cpu${at}`,
      User: userPercent,
      System: systemPercent,
      Idle: idlePercent,
      TotalPercent: totalPercent,
      TotalTicks: (totalPercent / 100) * mhzPerCore,
    };
  });
  const diskStats: HostDiskStats = {
    Device: disk.device,
    Mountpoint: disk.mountPoint,
    Size: disk.sizeBytes,
    Used: disk.usedBytes,
    Available: disk.availableBytes,
    UsedPercent: disk.sizeBytes === 0 ? 0 : (disk.usedBytes / disk.sizeBytes) * 100,
    InodesUsedPercent: disk.inodesUsedPercent,
  };
  return {
    Memory: {
      Total: memory.totalBytes,
      Available: memory.availableBytes,
      Used: memory.totalBytes - memory.availableBytes,
      Free: memory.freeBytes,
    },
    CPU: cores,
    DiskStats: [diskStats],
    AllocDirStats: diskStats,
    DeviceStats: [],
    Uptime: Math.floor(usage.uptimeMs / 1000),
    CPUTicksConsumed: cores.reduce((sum, { TotalTicks }) => sum + TotalTicks, 0),
    Timestamp: msToNs(usage.atMs),
  };
}
