/** Owns watching one job: its allocs as they are now, and what happened to their tasks since the last look. */
import type { FeedAllocation, TaskEventRow } from '../api/wire.js';
import type { Cli } from './cli.js';
import { readFeed, type FeedNews } from './feed.js';
import { jobPath } from './fetch.js';

export interface JobUpdate {
  /** All allocs of the job. */
  readonly allocs: readonly FeedAllocation[];
  /** Since the update before, oldest first. */
  readonly events: readonly TaskEventRow[];
  /** The job was forgotten. */
  readonly isPurged: boolean;
}

/** Yields the state at once, and again after each change, until `signal` aborts. @throws CliError */
export async function* watchJob(
  cli: Cli,
  jobId: string,
  signal: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const topics = ['Job', 'Allocation', 'TaskEvent'].map((topic) => `${topic}:${jobId}`);
  const allocs = new Map<string, FeedAllocation>();
  const put = (all: readonly FeedAllocation[]): void => {
    allocs.clear();
    for (const alloc of all) if (alloc.JobID === jobId) allocs.set(alloc.ID, alloc);
  };
  for await (const news of readFeed(cli, { topics, snapshot: true }, signal)) {
    const events: TaskEventRow[] = [];
    let isPurged = false;
    if ('Snapshot' in news) put(news.Snapshot.Allocations);
    else if ('Lost' in news)
      put(await cli.client.get<readonly FeedAllocation[]>(jobPath(jobId, '/allocations')));
    else {
      for (const event of ownEvents(news, jobId)) {
        if (event.Topic === 'TaskEvent') events.push(event.Payload.TaskEvent);
        else if (event.Type === 'AllocationUpdated') allocs.set(event.Key, event.Payload.Allocation);
        else if (event.Type === 'AllocationPurged') allocs.delete(event.Key);
        else if (event.Type === 'JobPurged') isPurged = true;
      }
    }
    yield { allocs: [...allocs.values()], events, isPurged };
  }
}

type Events = Extract<FeedNews, { readonly Events: unknown }>['Events'];

/** A key that is asked for may be another thing's key as well. */
function ownEvents(news: Extract<FeedNews, { readonly Events: unknown }>, jobId: string): Events {
  return news.Events.filter(({ Key, FilterKeys }) => Key === jobId || FilterKeys.includes(jobId));
}
