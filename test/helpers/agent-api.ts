/** Owns how tests speak to an agent by its API, wherever it runs: what they ask, and what they wait for. */
import assert from 'node:assert/strict';
import type { AllocListStub, Run, TaskEventRow, TaskState } from '../../src/api/wire.js';
import { until } from './until.js';

/** One task as the API tells of it. */
export interface TaskView {
  readonly allocId: string;
  readonly job: string;
  readonly task: string;
  readonly state: TaskState;
}

/** How long a fact of this agent is waited for, and how often it is looked for. */
export interface Patience {
  readonly timeoutMs: number;
  readonly everyMs: number;
}

export abstract class AgentApi {
  readonly #patience: Patience;

  constructor(patience: Patience) {
    this.#patience = patience;
  }

  /** One HTTP request. */
  abstract request(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly text: string }>;

  /** The body of a GET. Typed by the caller: what the API sends is tested where the API is. */
  async get(path: string): Promise<unknown> {
    const { status, text } = await this.request('GET', path);
    assert.equal(status, 200, `GET ${path}: ${text}`);
    return JSON.parse(text) as unknown;
  }

  async register(job: object): Promise<void> {
    const { status, text } = await this.request('PUT', '/v1/jobs', { Job: job });
    assert.equal(status, 200, text);
  }

  /** Every task of every alloc, or of one job. */
  async tasks(job?: string): Promise<readonly TaskView[]> {
    const allocs = (await this.get('/v1/allocations')) as readonly AllocListStub[];
    return allocs
      .filter((alloc) => job === undefined || alloc.JobID === job)
      .flatMap((alloc) =>
        Object.entries(alloc.TaskStates).map(([task, state]) => ({
          allocId: alloc.ID,
          job: alloc.JobID,
          task,
          state,
        })),
      );
  }

  /** Waits until `fact` holds of the tasks of a job, and gives them. */
  async untilTasks(
    job: string,
    what: string,
    fact: (tasks: readonly TaskView[]) => boolean,
  ): Promise<readonly TaskView[]> {
    let seen: readonly TaskView[] = [];
    return await until(
      `${job}: ${what}`,
      async () => {
        seen = await this.tasks(job);
        return fact(seen) ? seen : undefined;
      },
      {
        ...this.#patience,
        lastSeen: () => seen.map(({ task, state }) => [task, state.State, state.Holdfast]),
      },
    );
  }

  async runs(allocId: string, task: string): Promise<readonly Run[]> {
    return (await this.get(`/v1/holdfast/allocation/${allocId}/runs?task=${task}`)) as readonly Run[];
  }

  async events(job: string): Promise<readonly TaskEventRow[]> {
    return (await this.get(`/v1/holdfast/events?job=${job}&limit=10000`)) as readonly TaskEventRow[];
  }
}
