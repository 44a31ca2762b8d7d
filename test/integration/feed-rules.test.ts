/** A client that follows the rules of docs/feed.md knows exactly what the server knows. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import { WebSocket } from 'ws';
import type { Deployment, FeedAllocation, FeedJob, FeedMessage } from '../../src/api/wire.js';
import type { Change } from '../../src/state/store.js';
import { startApi, type ApiUnderTest, type FeedClient } from '../helpers/api-client.js';
import { FeedMirror } from '../helpers/feed-mirror.js';
import { deploymentRecord, putAlloc, putJob, putTask } from '../helpers/records.js';
import { until } from '../helpers/until.js';

/** The state as the server has it now, by a snapshot of its own. */
async function stateOf(api: ApiUnderTest): Promise<unknown> {
  const reader = api.feed('?snapshot=true');
  const [snapshot] = await until('a snapshot', () => reader.said().length > 0 && reader.said());
  reader.socket.close();
  const mirror = new FeedMirror();
  mirror.take(snapshot as FeedMessage);
  return mirror.state();
}

type Step =
  | { readonly kind: 'commit'; readonly changes: readonly Change[] }
  | { readonly kind: 'follow' }
  | { readonly kind: 'disconnect' }
  | { readonly kind: 'restart' };

/** Things that happen to a small world: one job and one alloc come, change, and go. */
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Step>({ kind: 'follow' }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'disconnect' }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'restart' }) },
  {
    weight: 8,
    arbitrary: fc
      .tuple(fc.constantFrom('web', 'db'), fc.nat(3), fc.constantFrom('pending', 'running', 'failed'))
      .map(([id, turn, clientStatus]): Step => {
        const alloc = `${id}-alloc`;
        const changes: Change[] = [
          putJob({ id, stopped: turn === 1, submittedAtMs: 1_700_000_000_000 + turn }),
          putAlloc({ id: alloc, jobId: id, clientStatus }),
          putTask({ allocId: alloc, attempts: turn }),
          {
            kind: 'put_deployment',
            deployment: deploymentRecord({
              id: `${id}-deployment-${clientStatus}`,
              jobId: id,
              status: turn === 0 ? 'running' : 'successful',
            }),
          },
        ];
        const gone: Change[] = [
          { kind: 'delete_alloc', allocId: alloc },
          { kind: 'delete_job', jobId: id },
        ];
        return { kind: 'commit', changes: turn === 3 ? [...changes, ...gone] : changes };
      }),
  },
);

const anySteps = fc.array(anyStep, { minLength: 5, maxLength: 40 });

type Follow = (index?: number) => WebSocket;

/** So tight that rows are lost all the time. */
const TIGHT = { storeLimits: { feedRows: 6, feedAgeMs: -1 }, feedLimits: { recentRows: 3, rowsBehind: 5 } };

/** A server and one client of it. */
class World {
  readonly #mirror = new FeedMirror();
  readonly #restart: (() => Promise<ApiUnderTest>) | undefined;
  #api: ApiUnderTest;
  #reader: FeedClient | undefined;
  #taken = 0;

  /** @param restart opens the same store again once it is closed; without it a restart only disconnects */
  constructor(api: ApiUnderTest, restart?: () => Promise<ApiUnderTest>) {
    this.#api = api;
    this.#restart = restart;
  }

  /** Takes the steps, then compares. */
  async live(steps: readonly Step[]): Promise<void> {
    try {
      for (const step of steps) await this.#step(step);
      await this.#follow();
      assert.deepEqual(this.#mirror.state(), await stateOf(this.#api));
    } finally {
      this.#disconnect();
      await this.#api[Symbol.asyncDispose]();
    }
  }

  async #step(step: Step): Promise<void> {
    if (step.kind === 'commit') await this.#api.store.commit(step.changes);
    else if (step.kind === 'follow') await this.#follow();
    else this.#disconnect();
    if (step.kind !== 'restart' || this.#restart === undefined) return;
    await this.#api[Symbol.asyncDispose]();
    this.#api = await this.#restart();
  }

  #disconnect(): void {
    this.#reader?.socket.terminate();
    this.#reader = undefined;
    this.#taken = 0;
  }

  /** Takes what comes until nothing is missing; begins again when it is told to. */
  async #follow(): Promise<void> {
    const target = this.#api.store.index();
    while (this.#mirror.index < target) {
      const { index } = this.#mirror;
      this.#reader ??= this.#api.feed(index === 0 ? '?snapshot=true' : `?index=${index}`);
      const reader = this.#reader;
      await until('news', () => reader.said().length > this.#taken, {
        lastSeen: () => ({ closed: reader.closed, index, target }),
      });
      const news = reader.said().slice(this.#taken);
      this.#taken += news.length;
      if (news.every((message) => this.#mirror.take(message as FeedMessage))) continue;
      this.#mirror.index = 0;
      this.#disconnect();
    }
  }
}

describe('the rules of the feed', () => {
  it('keep a client at exactly the server’s state', async () => {
    await fc.assert(
      fc.asyncProperty(anySteps, async (steps) => {
        const world = new World(await startApi(TIGHT));
        await world.live(steps);
      }),
      { numRuns: 20 },
    );
  });

  it('keep it also over restarts of the agent', async () => {
    await fc.assert(
      fc.asyncProperty(anySteps, async (steps) => {
        const dir = mkdtempSync(join(tmpdir(), 'hf-feed-'));
        try {
          const again = (): Promise<ApiUnderTest> => startApi({ ...TIGHT, dir });
          const world = new World(await again(), again);
          await world.live(steps);
        } finally {
          rmSync(dir, { recursive: true, force: true });
        }
      }),
      { numRuns: 6 },
    );
  });

  it('is read by the ten lines of docs/feed.md', async () => {
    await using api = await startApi();
    const [, code = ''] = /```js\n([\s\S]*?)```/.exec(readFileSync('docs/feed.md', 'utf8')) ?? [];
    assert.ok(code.trim().split('\n').length <= 16, code);
    const known = new Map<string, unknown>();
    const put = (topic: string, key: string, value: unknown): void => {
      if (topic === 'TaskEvent') return;
      if (value === null) known.delete(key);
      else known.set(key, value);
    };
    const replaceAll = (jobs: FeedJob[], allocs: FeedAllocation[], deployments: Deployment[]): void => {
      known.clear();
      for (const one of [...jobs, ...allocs, ...deployments]) known.set(one.ID, one);
    };
    // The document gives a function that uses these names.
    const names = ['WebSocket', 'url', 'put', 'replaceAll', 'setTimeout'];
    // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the text under test is our own document
    const load = new Function(...names, `${code}\nreturn follow;`) as (...given: unknown[]) => Follow;
    const again: unknown[] = [];
    const later = (_follow: unknown, _delayMs: number, index: unknown): unknown => again.push(index);
    const url = `ws+unix:${api.socketPath}:/v1/feed`;
    const follow = load(WebSocket, url, put, replaceAll, later);
    await api.store.commit([putJob(), putAlloc(), putTask()]);
    const socket = follow();
    await until('the snapshot', () => known.has('web') && known.has('a1'));
    await api.store.commit([putJob({ id: 'db' }), { kind: 'delete_alloc', allocId: 'a1' }]);
    await until('the changes', () => known.has('db') && !known.has('a1'));
    socket.close();
    await until('it would come again', () => again.length === 1);
    assert.deepEqual(again, [api.store.index()]);
  });
});
