/**
 * Owns the sampling of one run's usage: from its cgroup, else from pidusage over the processes that belong to it.
 * Keeps the last sample, so that percent of CPU is that since then.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pidusage from 'pidusage';
import type { Clock } from '../base/clock.js';
import type { ProcessRef } from '../base/host.js';
import { loadPackage } from '../base/lazy.js';
import { leafPids, type CgroupLeaf } from '../executor/cgroup-leaf.js';
import type { ProcessTable } from './process-table.js';
import {
  cpuPercentBetween,
  parseBlkioBytes,
  parseCpuacctMs,
  parseCpuStatMs,
  parseIoStat,
  parseKeyed,
  parseMemoryParts,
  parseMemoryLimit,
  parseNumber,
  parsePressure,
  parseThrottling,
  workingSetBytes,
} from './procfs.js';
import type { TaskUsage } from './usage.js';

/** Askers within this time share a sample: percentages over less are noise. */
const SHARE_WITHIN_MS = 500;
/** How long pidusage keeps a process's file open after it was asked for last. 0 would make it never return. */
const PIDUSAGE_KEEP_MS = 2_000;
const YOUNG_MS = 60_000;

type Figures = Omit<TaskUsage, 'atMs' | 'cpuPercent'>;

/** Samples one run. */
export class UsageSampler {
  readonly #clock: Clock;
  readonly #run: SampledRun;
  #last: { readonly monoMs: number; readonly usage: TaskUsage } | undefined;
  #inFlight: Promise<TaskUsage | undefined> | undefined;
  /** CPU time by process, for what pidusage cannot say: that of processes that have ended. */
  #cpuByProcess = new Map<string, number>();
  #cpuOfTreeMs = 0;

  constructor(clock: Clock, run: SampledRun) {
    this.#clock = clock;
    this.#run = run;
  }

  /** @returns undefined when nothing can be measured, as after the end of the run */
  async sample(): Promise<TaskUsage | undefined> {
    if (this.#last !== undefined && this.#clock.monoMs() - this.#last.monoMs < SHARE_WITHIN_MS)
      return this.#last.usage;
    this.#inFlight ??= this.#measure().finally(() => {
      this.#inFlight = undefined;
    });
    return this.#inFlight;
  }

  async #measure(): Promise<TaskUsage | undefined> {
    const figures = readLeaf(this.#run.leaf()) ?? (await this.#readProcesses());
    if (figures === undefined) return undefined;
    const monoMs = this.#clock.monoMs();
    const before = this.#last;
    const comparable = before?.usage.source === figures.source ? before : undefined;
    const usage: TaskUsage = {
      ...figures,
      atMs: this.#clock.wallMs(),
      cpuPercent:
        comparable === undefined
          ? this.#percentSinceStart(figures)
          : cpuPercentBetween(
              { monoMs: comparable.monoMs, cpuTotalMs: comparable.usage.cpuTotalMs },
              { monoMs, cpuTotalMs: figures.cpuTotalMs },
            ),
    };
    this.#last = { monoMs, usage };
    return usage;
  }

  /** In its first minute the whole life of a run is recent enough to be compared with. */
  #percentSinceStart({ cpuTotalMs, source }: Figures): number | undefined {
    const ranForMs = this.#clock.wallMs() - this.#run.startedAtMs();
    if (source !== 'cgroup' || ranForMs <= 0 || ranForMs > YOUNG_MS) return undefined;
    return (cpuTotalMs / ranForMs) * 100;
  }

  async #readProcesses(): Promise<Figures | undefined> {
    const processes = this.#run.table.processesOf(this.#run.runId, this.#run.leader());
    if (processes.length === 0) return undefined;
    const found: Readonly<Record<string, pidusage.Status | null>> = await (
      loadPackage('pidusage') as typeof pidusage
    )(
      processes.map(({ pid }) => pid),
      { maxage: PIDUSAGE_KEEP_MS },
    );
    let memoryBytes = 0;
    let counted = 0;
    const cpuByProcess = new Map<string, number>();
    for (const { pid, startTicks } of processes) {
      const figures = found[String(pid)];
      if (figures === undefined || figures === null) continue;
      const key = `${pid}.${startTicks}`;
      counted += 1;
      memoryBytes += figures.memory;
      cpuByProcess.set(key, figures.ctime);
      this.#cpuOfTreeMs += Math.max(0, figures.ctime - (this.#cpuByProcess.get(key) ?? 0));
    }
    if (counted === 0) return undefined;
    this.#cpuByProcess = cpuByProcess;
    return {
      cpuTotalMs: this.#cpuOfTreeMs,
      memoryBytes,
      memoryLimitBytes: undefined,
      processes: counted,
      ...NOT_COUNTED,
      source: 'pidusage',
    };
  }
}

/** What only a cgroup counts. */
const NOT_COUNTED = {
  memoryPeakBytes: undefined,
  throttledPeriods: undefined,
  throttledMs: undefined,
  oomKills: undefined,
} as const;

/** What a sampler must know of its run. */
export interface SampledRun {
  readonly runId: string;
  /** As it is now: limits that are asked for later bring it into more hierarchies. */
  readonly leaf: () => CgroupLeaf | undefined;
  /** The leader as known now. */
  readonly leader: () => ProcessRef | undefined;
  readonly table: ProcessTable;
  /** Wall time. */
  readonly startedAtMs: () => number;
}

/** Figures of a cgroup; undefined when there is none, it is gone, or it counts neither CPU nor memory. */
function readLeaf(leaf: CgroupLeaf | undefined): Figures | undefined {
  if (leaf === undefined) return undefined;
  const v1 = (file: string): string | undefined => firstText(leaf.v1, file);
  const v2 = (file: string): string | undefined =>
    leaf.unified === undefined ? undefined : firstText([leaf.unified], file);
  const usageBytes = parseNumber(v2('memory.current') ?? v1('memory.usage_in_bytes'));
  const cpuTotalMs = parseCpuacctMs(v1('cpuacct.usage')) ?? parseCpuStatMs(v2('cpu.stat'));
  if (usageBytes === undefined || cpuTotalMs === undefined) return undefined;
  const processes = leafPids(leaf).length;
  if (processes === 0) return undefined;
  const throttling = [v1('cpu.stat'), v2('cpu.stat')]
    .map(parseThrottling)
    .find(({ periods }) => periods !== undefined);
  const memoryStat = v2('memory.stat') ?? v1('memory.stat');
  // Of what is below the leaf as well, where the kernel says so; v2 always does.
  const v1IoBytes = v1('blkio.throttle.io_service_bytes_recursive') ?? v1('blkio.throttle.io_service_bytes');
  const io = parseIoStat(v2('io.stat')) ?? parseBlkioBytes(v1IoBytes);
  const pressure = {
    cpuPercent: parsePressure(v2('cpu.pressure')),
    memoryPercent: parsePressure(v2('memory.pressure')),
    ioPercent: parsePressure(v2('io.pressure')),
  };
  const v1User = parseNumber(v1('cpuacct.usage_user'));
  const v1System = parseNumber(v1('cpuacct.usage_sys'));
  const v2User = parseKeyed(v2('cpu.stat'), 'user_usec');
  const v2System = parseKeyed(v2('cpu.stat'), 'system_usec');
  return {
    cpuTotalMs,
    cpuUserMs: v1User === undefined ? divide(v2User, 1e3) : divide(v1User, 1e6),
    cpuSystemMs: v1System === undefined ? divide(v2System, 1e3) : divide(v1System, 1e6),
    ioReadBytes: io?.readBytes,
    ioWriteBytes: io?.writeBytes,
    pressure: Object.values(pressure).some((percent) => percent !== undefined) ? pressure : undefined,
    memoryBytes: workingSetBytes(usageBytes, memoryStat),
    ...parseMemoryParts(memoryStat),
    memoryLimitBytes: parseMemoryLimit(v2('memory.max') ?? v1('memory.limit_in_bytes')),
    processes,
    memoryPeakBytes: parseNumber(v2('memory.peak') ?? v1('memory.max_usage_in_bytes')),
    throttledPeriods: throttling?.periods,
    throttledMs: throttling?.ms,
    oomKills: parseKeyed(v2('memory.events') ?? v1('memory.oom_control'), 'oom_kill'),
    source: 'cgroup',
  };
}

function divide(value: number | undefined, by: number): number | undefined {
  return value === undefined ? undefined : value / by;
}

function firstText(dirs: readonly string[], file: string): string | undefined {
  for (const dir of dirs) {
    try {
      return readFileSync(join(dir, file), 'utf8');
    } catch {
      // Another hierarchy of the leaf has this file, or none.
    }
  }
  return undefined;
}
