/** Owns watching one job: its allocs as they are now, and what happened to their tasks since the last look. */
import type { FeedAllocation, FeedEvent, TaskEventRow } from '../api/wire.js';
import { sleep } from '../base/clock.js';
import type { Cli } from './cli.js';
import { readFeed } from './feed.js';
import { jobPath } from './fetch.js';

export interface JobUpdate {
  /** All allocs of the job. */
  readonly allocs: readonly FeedAllocation[];
  /** Since the update before, oldest first. */
  readonly events: readonly TaskEventRow[];
  /** The job was forgotten. */
  readonly isPurged: boolean;
  /** False while the events lag behind `allocs`: what led to this state is still to be told. */
  readonly isCurrent: boolean;
}

/**
 * Yields the state at once, and again after each change, until `signal` aborts.
 * @param after index of the feed after which events are told
 * @throws CliError
 */
export async function* watchJob(
  cli: Cli,
  jobId: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const topics = ['Job', 'Allocation', 'TaskEvent'].map((topic) => `${topic}:${jobId}`);
  const allocs = new Map<string, FeedAllocation>();
  // The state is read at a later index than the feed begins at: what is older than what is known is passed over.
  const put = (alloc: FeedAllocation): void => {
    const known = allocs.get(alloc.ID);
    if (known === undefined || known.ModifyIndex < alloc.ModifyIndex) allocs.set(alloc.ID, alloc);
  };
  const ledger = new EventLedger();
  const readAll = async (): Promise<void> => {
    const all = await cli.client.get<readonly FeedAllocation[]>(jobPath(jobId, '/allocations'));
    allocs.clear();
    all.forEach(put);
    ledger.begin(all);
  };
  await readAll();
  // The last change of an alloc is in the feed as well: once it was told, so was everything before it.
  let currentAt = Math.max(after, ...[...allocs.values()].map(({ ModifyIndex }) => ModifyIndex));
  yield { allocs: [...allocs.values()], events: [], isPurged: false, isCurrent: currentAt === after };
  for await (const news of readFeed(cli, { topics, after }, signal)) {
    const events: TaskEventRow[] = [];
    let isPurged = false;
    if ('Lost' in news) {
      await readAll();
      currentAt = news.Index;
    }
    if ('Events' in news) {
      for (const event of ownEvents(news.Events, jobId)) {
        if (event.Topic === 'TaskEvent') {
          events.push(event.Payload.TaskEvent);
          ledger.told(event.Payload.TaskEvent);
        } else if (event.Type === 'AllocationUpdated') {
          put(event.Payload.Allocation);
          ledger.owe(event.Payload.Allocation);
        } else if (event.Type === 'AllocationPurged') {
          allocs.delete(event.Key);
          ledger.forget(event.Key);
        } else if (event.Type === 'JobPurged') isPurged = true;
      }
    }
    yield {
      allocs: [...allocs.values()],
      events,
      isPurged,
      isCurrent: news.Index >= currentAt && ledger.isSettled(),
    };
  }
}

/** The next update. It may never be looked at: then its failure means nothing. */
export function nextOf(
  updates: AsyncGenerator<JobUpdate, void, void>,
): Promise<IteratorResult<JobUpdate, void>> {
  const next = updates.next();
  next.catch(() => undefined);
  return next;
}

/** Waits for the next update, but not longer. */
export async function withinMs<T>(cli: Cli, work: Promise<T>, ms: number): Promise<T | 'time is up'> {
  if (ms === Infinity) return work;
  const cancel = new AbortController();
  try {
    return await Promise.race([work, sleep(cli.clock, ms, cancel.signal).then(() => 'time is up' as const)]);
  } finally {
    cancel.abort();
  }
}

/** Which events an alloc's state speaks of that were not told yet: within one commit the state comes first. */
class EventLedger {
  readonly #told = new Map<string, number>();
  readonly #owed = new Map<string, number>();

  /** From a state that was read; what led to it is not owed. */
  begin(allocs: readonly FeedAllocation[]): void {
    this.#owed.clear();
    for (const alloc of allocs) for (const [key, seq] of newestEvents(alloc)) this.#told.set(key, seq);
  }

  owe(alloc: FeedAllocation): void {
    for (const [key, seq] of newestEvents(alloc)) {
      if (seq > (this.#told.get(key) ?? 0)) this.#owed.set(key, seq);
    }
  }

  told({ AllocID, Task, Holdfast: { Seq } }: TaskEventRow): void {
    const key = `${AllocID}/${Task}`;
    this.#told.set(key, Math.max(Seq, this.#told.get(key) ?? 0));
    if ((this.#owed.get(key) ?? Infinity) <= Seq) this.#owed.delete(key);
  }

  forget(allocId: string): void {
    for (const key of this.#owed.keys()) if (key.startsWith(`${allocId}/`)) this.#owed.delete(key);
  }

  isSettled(): boolean {
    return this.#owed.size === 0;
  }
}

function newestEvents({ ID, TaskStates }: FeedAllocation): (readonly [string, number])[] {
  return Object.entries(TaskStates).map(
    ([task, { Events }]) => [`${ID}/${task}`, Events.at(-1)?.Holdfast.Seq ?? 0] as const,
  );
}

/** A key that is asked for may be another thing's key as well. */
function ownEvents(events: readonly FeedEvent[], jobId: string): readonly FeedEvent[] {
  return events.filter(({ Key, FilterKeys }) => Key === jobId || FilterKeys.includes(jobId));
}
