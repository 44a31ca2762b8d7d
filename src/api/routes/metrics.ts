/** Owns the route of the metrics: gathers what a scrape shows. */
import { AgentError } from '../../base/errors.js';
import type { Clock } from '../../base/clock.js';
import { NAMESPACE } from '../alloc-to-wire.js';
import type { Feed } from '../feed.js';
import type { MetricCounts } from '../metric-counts.js';
import { renderMetrics, type MetricSnapshot, type UsageOfTask } from '../metrics.js';
import type { Call, Route, StreamAnswer } from '../route.js';
import type { Services } from '../services.js';

/** Series grow with running tasks: far above what one host runs, and a bound all the same. */
const MOST_TASKS = 2_000;

interface Sources {
  readonly feed: Feed;
  readonly counts: MetricCounts;
}

export function metricRoutes(services: Services, sources: Sources): readonly Route[] {
  return [
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/metrics',
      summary: "Metrics of tasks, host and agent in Prometheus' text format",
      query: ['format'],
      open: (call) => scrape(services, sources, call),
    },
  ];
}

async function scrape(services: Services, sources: Sources, { query }: Call): Promise<StreamAnswer> {
  const format = query.text('format') ?? '';
  if (format !== '' && format !== 'prometheus') {
    throw new AgentError('bad_request', 'query parameter format: prometheus is the only one');
  }
  const { contentType, text } = await renderMetrics(await takeSnapshot(services, sources));
  return { contentType, body: once(text) };
}

// eslint-disable-next-line @typescript-eslint/require-await -- a stream of one piece
async function* once(text: string): AsyncGenerator<string, void, void> {
  yield text;
}

async function takeSnapshot(services: Services, { feed, counts }: Sources): Promise<MetricSnapshot> {
  const { store, operations, clock } = services;
  const eventLoopLagMs = await measureLag(clock);
  const allocs = store.listAllocs().map(({ record }) => record);
  const { user, system } = process.cpuUsage();
  return {
    allocs,
    tasks: allocs.flatMap(({ id }) => store.listTasks(id)),
    usages: await gatherUsages(services),
    host: await operations.hostUsage(),
    counts,
    commits: store.commitTimes(),
    keptChanges: store.keptChanges(),
    feedReaders: feed.readers,
    eventLoopLagMs,
    agentRssBytes: process.memoryUsage.rss(),
    agentCpuMs: (user + system) / 1000,
    version: operations.node().version,
  };
}

/** How long a turn of the event loop takes now. */
async function measureLag(clock: Clock): Promise<number> {
  const beganMonoMs = clock.monoMs();
  await new Promise<void>((resolve) => {
    setImmediate(resolve);
  });
  return clock.monoMs() - beganMonoMs;
}

async function gatherUsages({ store, operations }: Services): Promise<UsageOfTask[]> {
  const usages: UsageOfTask[] = [];
  for (const { record } of store.listAllocs()) {
    if (
      record.clientStatus !== 'running' &&
      record.clientStatus !== 'unknown' &&
      record.clientStatus !== 'pending'
    )
      continue;
    for (const [task, usage] of Object.entries(await operations.allocUsage(record.id))) {
      if (usages.length === MOST_TASKS) return usages;
      const labels = {
        namespace: NAMESPACE,
        alloc_id: record.id,
        job: record.jobId,
        task_group: record.group,
        task,
      };
      const restarts = store.getTask(record.id, task)?.restarts ?? 0;
      usages.push({ labels, usage, restarts });
    }
  }
  return usages;
}
