/**
 * Owns the topic `Stats` of the feed: samples of what tasks use. They are not events of the store: not numbered, not kept,
 * not replayed. A reader gets the newest of each task; what it was too slow for is left out.
 */
import type { UsageSample } from '../stats/history.js';
import type { FeedFilter } from './feed-request.js';
import { sampleToWire } from './usage-view.js';
import type { NodeFacts } from './operations.js';
import { msToNs, type FeedEvent, type FeedMessage } from './wire.js';

/** What waits for one reader. */
export class StatsMailbox {
  readonly #filter: FeedFilter;
  readonly #node: NodeFacts;
  readonly #waiting = new Map<string, UsageSample>();

  constructor(filter: FeedFilter, node: NodeFacts) {
    this.#filter = filter;
    this.#node = node;
  }

  put(round: readonly UsageSample[]): void {
    for (const sample of round) {
      const { allocId, jobId, task } = sample;
      const key = `${allocId}/${task}`;
      if (this.#filter.wants('Stats', [key, allocId, jobId])) this.#waiting.set(key, sample);
    }
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** @param index of the newest event that the reader has: resuming after it loses nothing */
  take(index: number): FeedMessage {
    const events = [...this.#waiting].map(([key, { allocId, jobId, usage }]): FeedEvent => ({
      Topic: 'Stats',
      Type: 'TaskUsage',
      Key: key,
      FilterKeys: [allocId, jobId],
      Namespace: 'default',
      Index: index,
      Time: msToNs(usage.atMs),
      Payload: { Usage: sampleToWire(usage, this.#node) },
    }));
    this.#waiting.clear();
    return { Index: index, Events: events };
  }
}
