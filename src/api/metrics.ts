/**
 * Owns the metrics of this agent, made anew at each scrape: so no label outlives its task, and nothing is measured while
 * nobody asks. Names and units mirror Nomad's `nomad_client_…`.
 */
import type * as Prometheus from 'prom-client';
import type { Registry } from 'prom-client';
import { loadPackage } from '../base/lazy.js';
import type { TaskUsage } from '../stats/usage.js';
import type { HostUsage } from '../stats/host.js';
import type { AllocRecord, CommitTimes, TaskRecord } from '../state/store.js';
import type { ExitKind, MetricCounts } from './metric-counts.js';

/** What a scrape shows. */
export interface MetricSnapshot {
  readonly allocs: readonly Pick<AllocRecord, 'clientStatus'>[];
  readonly tasks: readonly Pick<TaskRecord, 'state'>[];
  /** Running tasks only: this bounds the number of series. */
  readonly usages: readonly UsageOfTask[];
  readonly host: HostUsage;
  readonly counts: Pick<MetricCounts, 'exits' | 'ends' | 'starts' | 'restarts' | 'oomKills'>;
  readonly commits: CommitTimes;
  readonly keptChanges: number;
  readonly feedReaders: number;
  readonly eventLoopLagMs: number;
  /** Resident memory of the agent itself. */
  readonly agentRssBytes: number;
  readonly agentCpuMs: number;
  readonly version: string;
}

export interface UsageOfTask {
  readonly labels: Readonly<Record<'namespace' | 'alloc_id' | 'job' | 'task_group' | 'task', string>>;
  readonly usage: TaskUsage;
  /** Of the task, over all its runs. */
  readonly restarts: number;
}

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [labels: Labels, value: number | undefined];

const ALLOC_STATUSES = ['pending', 'running', 'complete', 'failed', 'lost', 'unknown'] as const;
/** Nomad's words for them: `unknown` ones may be running. */
const TERMINAL = new Set(['complete', 'failed', 'lost']);
const TASK_STATES = ['pending', 'running', 'dead'] as const;

/** The snapshot in Prometheus' text format. Loads prom-client at its first call. */
export async function renderMetrics(
  snapshot: MetricSnapshot,
): Promise<{ readonly contentType: string; readonly text: string }> {
  const { Counter, Gauge, Registry } = loadPackage('prom-client') as typeof Prometheus;
  const registry: Registry = new Registry();
  const add = (
    Kind: typeof Gauge | typeof Counter,
    name: string,
    help: string,
    samples: readonly Sample[],
  ) => {
    const [first] = samples;
    const labelNames = Object.keys(first?.[0] ?? {});
    const metric = new Kind({ name, help, labelNames, registers: [registry] });
    for (const [labels, value] of samples) if (value !== undefined) metric.inc(labels, value);
  };
  const writer: Writer = {
    gauge: (name, help, samples) => {
      add(Gauge, name, help, samples);
    },
    counter: (name, help, samples) => {
      add(Counter, name, help, samples);
    },
  };
  writeTasks(writer, snapshot);
  writeUsages(writer, snapshot.usages);
  writeHost(writer, snapshot.host);
  writeAgent(writer, snapshot);
  return { contentType: registry.contentType, text: await registry.metrics() };
}

interface Writer {
  readonly gauge: (name: string, help: string, samples: readonly Sample[]) => void;
  readonly counter: (name: string, help: string, samples: readonly Sample[]) => void;
}

const one = (value: number): readonly Sample[] => [[{}, value]];

function writeTasks({ gauge, counter }: Writer, { allocs, tasks, counts }: MetricSnapshot): void {
  gauge(
    'holdfast_client_allocations',
    'Remembered allocs by client status',
    ALLOC_STATUSES.map((status) => [
      { status },
      allocs.filter(({ clientStatus }) => clientStatus === status).length,
    ]),
  );
  const count = (is: (status: string) => boolean): readonly Sample[] =>
    one(allocs.filter(({ clientStatus }) => is(clientStatus)).length);
  gauge(
    'holdfast_client_allocations_pending',
    'Allocs that wait',
    count((status) => status === 'pending'),
  );
  gauge(
    'holdfast_client_allocations_running',
    'Allocs that run',
    count((status) => status === 'running'),
  );
  gauge(
    'holdfast_client_allocations_terminal',
    'Allocs that are over and still remembered',
    count((status) => TERMINAL.has(status)),
  );
  gauge(
    'holdfast_client_tasks',
    'Tasks of remembered allocs by state',
    TASK_STATES.map((state) => [{ state }, tasks.filter((task) => task.state === state).length]),
  );
  counter('holdfast_client_allocs_start_total', 'Runs started', one(counts.starts));
  counter('holdfast_client_allocs_restart_total', 'Restarts by policy or request', one(counts.restarts));
  counter('holdfast_client_allocs_oom_killed_total', 'Runs ended by an OOM kill', one(counts.oomKills));
  counter('holdfast_client_allocs_complete_total', 'Allocs that ended well', one(counts.ends.complete));
  counter('holdfast_client_allocs_failed_total', 'Allocs that failed', one(counts.ends.failed));
  const exits = Object.entries(counts.exits) as [ExitKind, number][];
  counter(
    'holdfast_client_allocs_exit_total',
    'Ends of runs: succeeded is exit code 0, unknown is an end that nobody saw',
    exits.map(([kind, count]) => [{ kind }, count]),
  );
}

function writeUsages({ gauge, counter }: Writer, usages: readonly UsageOfTask[]): void {
  const of = (read: (usage: TaskUsage) => number | undefined): readonly Sample[] =>
    usages.map(({ labels, usage }) => [labels, read(usage)]);
  gauge(
    'holdfast_client_allocs_cpu_total_percent',
    'Percent of one core since the sample before',
    of(({ cpuPercent }) => cpuPercent),
  );
  counter(
    'holdfast_client_allocs_cpu_seconds_total',
    'CPU time of the run',
    of(({ cpuTotalMs }) => cpuTotalMs / 1000),
  );
  counter(
    'holdfast_client_allocs_cpu_user_seconds_total',
    'Of the CPU time, in the program',
    of(({ cpuUserMs }) => seconds(cpuUserMs)),
  );
  counter(
    'holdfast_client_allocs_cpu_system_seconds_total',
    'Of the CPU time, in the kernel',
    of(({ cpuSystemMs }) => seconds(cpuSystemMs)),
  );
  counter(
    'holdfast_client_allocs_cpu_throttled_periods_total',
    'Periods in which the CPU quota held the run back',
    of(({ throttledPeriods }) => throttledPeriods),
  );
  counter(
    'holdfast_client_allocs_cpu_throttled_seconds_total',
    'How long the CPU quota held the run back',
    of(({ throttledMs }) => seconds(throttledMs)),
  );
  gauge(
    'holdfast_client_allocs_memory_usage',
    'Bytes that the kernel could not simply take back',
    of(({ memoryBytes }) => memoryBytes),
  );
  gauge(
    'holdfast_client_allocs_memory_rss',
    'Bytes of its own: anonymous memory',
    of(({ memoryRssBytes }) => memoryRssBytes),
  );
  gauge(
    'holdfast_client_allocs_memory_cache',
    'Bytes of files that the kernel keeps for it',
    of(({ memoryCacheBytes }) => memoryCacheBytes),
  );
  gauge(
    'holdfast_client_allocs_memory_max_usage',
    'Most bytes in use since the start of the run',
    of(({ memoryPeakBytes }) => memoryPeakBytes),
  );
  gauge(
    'holdfast_client_allocs_memory_allocated',
    'Limit in bytes; not there when there is none',
    of(({ memoryLimitBytes }) => memoryLimitBytes),
  );
  counter(
    'holdfast_client_allocs_oom_kills_total',
    'Processes of the run that the kernel killed for want of memory',
    of(({ oomKills }) => oomKills),
  );
  counter(
    'holdfast_client_allocs_io_read_bytes_total',
    'Of block devices',
    of(({ ioReadBytes }) => ioReadBytes),
  );
  counter(
    'holdfast_client_allocs_io_write_bytes_total',
    'Of block devices',
    of(({ ioWriteBytes }) => ioWriteBytes),
  );
  gauge(
    'holdfast_client_allocs_pressure_percent',
    'Percent of the last 10 s in which something of the run had to wait',
    usages.flatMap(({ labels, usage: { pressure } }): Sample[] => [
      [{ ...labels, resource: 'cpu' }, pressure?.cpuPercent],
      [{ ...labels, resource: 'memory' }, pressure?.memoryPercent],
      [{ ...labels, resource: 'io' }, pressure?.ioPercent],
    ]),
  );
  gauge(
    'holdfast_client_allocs_restarts',
    'Restarts of the task so far',
    usages.map(({ labels, restarts }) => [labels, restarts]),
  );
  gauge(
    'holdfast_client_allocs_processes',
    'Processes of the run',
    of(({ processes }) => processes),
  );
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000;
}

function writeHost({ gauge }: Writer, { memory, disk, uptimeMs, cpus }: HostUsage): void {
  const eachCpu = (read: (share: HostUsage['cpus'][number]) => number): readonly Sample[] =>
    cpus.map((share, at) => [{ cpu: `cpu${at}` }, read(share)]);
  gauge(
    'holdfast_client_host_cpu_total_percent',
    'Percent of a processor in use since the sample before',
    eachCpu(({ idlePercent }) => 100 - idlePercent),
  );
  gauge(
    'holdfast_client_host_cpu_user',
    'Percent of a processor in programs',
    eachCpu(({ userPercent }) => userPercent),
  );
  gauge(
    'holdfast_client_host_cpu_system',
    'Percent of a processor in the kernel',
    eachCpu(({ systemPercent }) => systemPercent),
  );
  gauge(
    'holdfast_client_host_cpu_idle',
    'Percent of a processor not in use',
    eachCpu(({ idlePercent }) => idlePercent),
  );
  gauge('holdfast_client_uptime', 'Seconds since the host booted', one(uptimeMs / 1000));
  gauge('holdfast_client_host_memory_total', 'Bytes', one(memory.totalBytes));
  gauge('holdfast_client_host_memory_available', 'Bytes', one(memory.availableBytes));
  gauge(
    'holdfast_client_host_memory_used',
    'Bytes, neither free nor to be had at once',
    one(memory.totalBytes - memory.availableBytes),
  );
  gauge('holdfast_client_host_memory_free', 'Bytes', one(memory.freeBytes));
  gauge('holdfast_client_host_disk_size', 'Bytes, of the disk of the data dir', one(disk.sizeBytes));
  gauge(
    'holdfast_client_host_disk_available',
    'Bytes, of the disk of the data dir',
    one(disk.availableBytes),
  );
  gauge('holdfast_client_host_disk_used', 'Bytes, of the disk of the data dir', one(disk.usedBytes));
  gauge(
    'holdfast_client_host_disk_used_percent',
    'Of the disk of the data dir',
    one(disk.sizeBytes === 0 ? 0 : (disk.usedBytes / disk.sizeBytes) * 100),
  );
  gauge(
    'holdfast_client_host_disk_inodes_percent',
    'In use, of the disk of the data dir',
    one(disk.inodesUsedPercent),
  );
}

function writeAgent({ gauge, counter }: Writer, snapshot: MetricSnapshot): void {
  const { commits, version } = snapshot;
  gauge('holdfast_agent_info', 'Always 1', [[{ version }, 1]]);
  gauge(
    'holdfast_agent_event_loop_lag_seconds',
    'How late the event loop came to this scrape',
    one(snapshot.eventLoopLagMs / 1000),
  );
  gauge('holdfast_agent_resident_memory_bytes', 'Of the agent itself', one(snapshot.agentRssBytes));
  counter('holdfast_agent_cpu_seconds_total', 'Of the agent itself', one(snapshot.agentCpuMs / 1000));
  gauge('holdfast_agent_feed_readers', 'Readers of the feed that are connected', one(snapshot.feedReaders));
  counter('holdfast_store_commits_total', 'Transactions, refused ones among them', one(commits.count));
  counter('holdfast_store_commit_seconds_total', 'Time they took', one(commits.totalMs / 1000));
  gauge('holdfast_store_commit_seconds_longest', 'The longest of them', one(commits.longestMs / 1000));
  gauge(
    'holdfast_store_kept_changes',
    'Changes that wait for a disk that refuses writes',
    one(snapshot.keptChanges),
  );
}
