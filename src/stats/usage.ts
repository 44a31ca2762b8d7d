/** Owns the shape of one usage sample of a task's whole tree. */

export interface TaskUsage {
  readonly atMs: number;
  /** Percent of one core since the previous sample (150 = one and a half cores); undefined in the first one. */
  readonly cpuPercent: number | undefined;
  readonly cpuTotalMs: number;
  readonly memoryBytes: number;
  /** The limit in force; undefined = none. */
  readonly memoryLimitBytes: number | undefined;
  readonly processes: number;
  /** Where the figures come from: the cgroup (whole tree), or pidusage (the processes found by parent links). */
  readonly source: 'cgroup' | 'pidusage';
}
