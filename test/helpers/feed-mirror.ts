/** The jobs and allocs of a host as a client of its feed knows them that follows the rules of docs/feed.md. */
import assert from 'node:assert/strict';
import type {
  Deployment,
  FeedAllocation,
  FeedEvent,
  FeedJob,
  FeedMessage,
  FeedSnapshot,
} from '../../src/api/wire.js';

/** What a client that follows the rules knows. */
export class FeedMirror {
  jobs = new Map<string, FeedJob>();
  allocs = new Map<string, FeedAllocation>();
  deployments = new Map<string, Deployment>();
  index = 0;

  /** @returns false when it has to begin again with a snapshot */
  take(message: FeedMessage): boolean {
    if (!('Index' in message)) return true;
    if ('Lost' in message) return false;
    if ('Snapshot' in message) this.#replace(message.Snapshot);
    else {
      assert.ok(message.Index > this.index, `${message.Index} after ${this.index}: a repeat`);
      for (const event of message.Events) this.#apply(event);
    }
    this.index = message.Index;
    return true;
  }

  state(): unknown {
    const byId = (a: { ID: string }, b: { ID: string }): number => (a.ID < b.ID ? -1 : 1);
    // Of older ones the agent forgets some without saying so.
    const newest = new Map<string, Deployment>();
    for (const one of [...this.deployments.values()].sort((a, b) => a.ModifyIndex - b.ModifyIndex))
      newest.set(one.JobID, one);
    return {
      jobs: [...this.jobs.values()].sort(byId),
      allocs: [...this.allocs.values()].sort(byId),
      deployments: [...newest.values()].sort(byId),
    };
  }

  #replace(snapshot: FeedSnapshot): void {
    this.jobs = new Map(snapshot.Jobs.map((job) => [job.ID, job]));
    this.allocs = new Map(snapshot.Allocations.map((alloc) => [alloc.ID, alloc]));
    this.deployments = new Map(snapshot.Deployments.map((one) => [one.ID, one]));
  }

  #apply(event: FeedEvent): void {
    if (event.Topic === 'Job') {
      if (event.Payload.Job === null) {
        this.jobs.delete(event.Key);
        for (const one of this.deployments.values())
          if (one.JobID === event.Key) this.deployments.delete(one.ID);
      } else this.jobs.set(event.Key, event.Payload.Job);
    } else if (event.Topic === 'Allocation') {
      if (event.Payload.Allocation === null) this.allocs.delete(event.Key);
      else this.allocs.set(event.Key, event.Payload.Allocation);
    } else if (event.Topic === 'Deployment') {
      this.deployments.set(event.Key, event.Payload.Deployment);
    }
  }
}
