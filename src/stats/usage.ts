/** Owns the shape of one usage sample of a task's whole tree. */

export interface UsagePressure {
  readonly cpuPercent: number | undefined;
  readonly memoryPercent: number | undefined;
  readonly ioPercent: number | undefined;
}

export interface TaskUsage {
  readonly atMs: number;
  /** Percent of one core since the previous sample (150 = one and a half cores); undefined in the first one. */
  readonly cpuPercent: number | undefined;
  readonly cpuTotalMs: number;
  readonly memoryBytes: number;
  /** The limit in force; undefined = none. */
  readonly memoryLimitBytes: number | undefined;
  readonly processes: number;
  /** These four come from the cgroup alone, since the start of the run; undefined = this host does not count it. */
  readonly memoryPeakBytes: number | undefined;
  /** Times, and for how long, the CPU quota held it back. */
  readonly throttledPeriods: number | undefined;
  readonly throttledMs: number | undefined;
  /** Processes of it that the kernel killed for want of memory. */
  readonly oomKills: number | undefined;
  /** Of cpuTotalMs. */
  readonly cpuUserMs?: number | undefined;
  readonly cpuSystemMs?: number | undefined;
  /** Of the memory charged to it: its own (anonymous), and of files. */
  readonly memoryRssBytes?: number | undefined;
  readonly memoryCacheBytes?: number | undefined;
  /** Of block devices, since the start of the run; on v1 since it has limits of I/O, and counted only then. */
  readonly ioReadBytes?: number | undefined;
  readonly ioWriteBytes?: number | undefined;
  /** Percent of the last 10 s in which something of it had to wait, for want of CPU, memory, or for a device. */
  readonly pressure?: UsagePressure | undefined;
  /** Where the figures come from: the cgroup (whole tree), or pidusage (the processes found by parent links). */
  readonly source: 'cgroup' | 'pidusage';
}
