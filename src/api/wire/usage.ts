/** Owns the shapes of what tasks and the host use. */

export interface ResourceUsage {
  readonly CpuStats: {
    /** Percent of one core since the sample before. */
    readonly Percent: number;
    /** Percent expressed in MHz of this host. */
    readonly TotalTicks: number;
    readonly SystemMode: number;
    readonly UserMode: number;
    readonly ThrottledPeriods: number;
    readonly ThrottledTime: number;
    readonly Measured: readonly string[];
  };
  readonly MemoryStats: {
    readonly RSS: number;
    readonly Usage: number;
    readonly MaxUsage: number;
    readonly Cache: number;
    readonly Swap: number;
    readonly KernelUsage: number;
    readonly KernelMaxUsage: number;
    readonly Measured: readonly string[];
  };
  readonly DeviceStats: readonly never[];
}

/** GET /v1/client/allocation/:id/stats. */
export interface AllocResourceUsage {
  readonly ResourceUsage: ResourceUsage;
  readonly Tasks: Readonly<Record<string, TaskResourceUsage>>;
  readonly Timestamp: number;
}

export interface TaskResourceUsage {
  readonly ResourceUsage: ResourceUsage;
  readonly Timestamp: number;
  readonly Pids: null;
  readonly Holdfast: {
    /** null in the first sample. */
    readonly CPUPercent: number | null;
    readonly CPUTotalMs: number;
    readonly MemoryBytes: number;
    readonly MemoryLimitBytes: number | null;
    readonly Processes: number;
    /** These four are null where this host does not count it; all since the start of the run. */
    readonly MemoryPeakBytes: number | null;
    readonly ThrottledPeriods: number | null;
    readonly ThrottledMs: number | null;
    readonly OOMKills: number | null;
    readonly CPUUserMs: number | null;
    readonly CPUSystemMs: number | null;
    /** Of block devices, since the start of the run; on v1 since it has limits of I/O, and counted only then. */
    readonly IOReadBytes: number | null;
    readonly IOWriteBytes: number | null;
    /** Percent of the last 10 s in which something of it waited for it; null where the kernel does not say. */
    readonly Pressure: {
      readonly CPU: number | null;
      readonly Memory: number | null;
      readonly IO: number | null;
    } | null;
    readonly Source: string;
  };
}

/** GET /v1/holdfast/allocation/:id/usage: the last samples of each running task, oldest first. */
export interface AllocUsageHistory {
  /** Milliseconds between two of them. */
  readonly EveryMs: number;
  readonly Tasks: Readonly<Record<string, readonly TaskResourceUsage[]>>;
}

/** GET /v1/client/stats. Sizes in bytes. */
export interface HostStats {
  readonly Memory: {
    readonly Total: number;
    readonly Available: number;
    readonly Used: number;
    readonly Free: number;
  };
  /** Percent of one core each, since the sample before. */
  readonly CPU: readonly {
    readonly CPU: string;
    readonly User: number;
    readonly System: number;
    readonly Idle: number;
    readonly TotalPercent: number;
    readonly TotalTicks: number;
  }[];
  readonly DiskStats: readonly HostDiskStats[];
  /** The file system of the data dir. */
  readonly AllocDirStats: HostDiskStats;
  readonly DeviceStats: readonly never[];
  /** Seconds. */
  readonly Uptime: number;
  readonly CPUTicksConsumed: number;
  readonly Timestamp: number;
}

export interface HostDiskStats {
  readonly Device: string;
  readonly Mountpoint: string;
  readonly Size: number;
  readonly Used: number;
  readonly Available: number;
  readonly UsedPercent: number;
  readonly InodesUsedPercent: number;
}
