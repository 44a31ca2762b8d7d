/**
 * A client that follows the rules of docs/feed.md, with a real agent that is killed in the middle: it ends with exactly
 * the server's state, and what it was told of evaluations, deployments and the node is what the routes say.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import WebSocket from 'ws';
import type {
  Deployment,
  Evaluation,
  FeedEvent,
  FeedMessage,
  Node,
  NodeSchedulingJson,
} from '../../src/api/wire.js';
import { FeedMirror } from '../helpers/feed-mirror.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const RUNS = Number(process.env['HOLDFAST_FEED_RUNS'] ?? 2);

type Step =
  | { readonly kind: 'register'; readonly id: string; readonly turn: number }
  | { readonly kind: 'stop'; readonly id: string }
  | { readonly kind: 'eligibility'; readonly word: string }
  | { readonly kind: 'kill' }
  | { readonly kind: 'disconnect' }
  | { readonly kind: 'pause' };

const anyId = fc.constantFrom('a', 'b');
const anySteps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('register'), id: anyId, turn: fc.nat(9) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('stop'), id: anyId }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('eligibility'),
        word: fc.constantFrom('eligible', 'ineligible'),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ kind: 'kill' }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'disconnect' }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'pause' }) },
  ),
  { minLength: 8, maxLength: 14 },
);

function job(id: string, turn: number): object {
  return {
    ID: id,
    Type: 'service',
    Meta: { turn: String(turn) },
    Update: { MaxParallel: 2, HealthCheck: 'task_states', MinHealthyTime: 1e8 },
    TaskGroups: [
      {
        Name: 'g',
        Count: 2,
        RestartPolicy: { Attempts: 0, Mode: 'fail' },
        Tasks: [
          {
            Name: 'main',
            Driver: 'mock_driver',
            Config: turn % 4 === 3 ? { run_for: '20ms', exit_code: 1 } : { run_for: '1000s' },
          },
        ],
      },
    ],
  };
}

/** A client of the feed that comes back whenever its connection ends. */
class Follower {
  readonly mirror = new FeedMirror();
  readonly evaluations = new Map<string, Evaluation>();
  readonly deployments = new Map<string, Deployment>();
  node: NodeSchedulingJson | undefined;
  /** Index of the newest snapshot. */
  begunAt = 0;
  /** Beginnings after the first: by index, or anew. */
  readonly returns = { resumed: 0, anew: 0 };
  readonly #agent: RealAgent;
  #socket: WebSocket | undefined;
  #isOver = false;

  constructor(agent: RealAgent) {
    this.#agent = agent;
    this.#connect();
  }

  #connect(): void {
    if (this.#isOver) return;
    const { index } = this.mirror;
    const socket = new WebSocket(
      `ws://localhost/v1/feed?${index === 0 ? 'snapshot=true' : `index=${index}`}`,
      {
        createConnection: () => connect(this.#agent.socket),
      },
    );
    this.#socket = socket;
    socket.on('error', () => undefined);
    socket.on('message', (data: Buffer) => {
      if (socket === this.#socket) this.#take(JSON.parse(data.toString()) as FeedMessage);
    });
    socket.on('close', (code) => {
      if (code === 1008) this.mirror.index = 0;
      this.returns[this.mirror.index === 0 ? 'anew' : 'resumed'] += 1;
      // It comes back a little later, as clients do.
      setTimeout(() => {
        this.#connect();
      }, 20);
    });
  }

  #take(message: FeedMessage): void {
    if ('Snapshot' in message) {
      // What the routes tell of and the snapshot does not: asked anew, as the rules say.
      this.evaluations.clear();
      this.deployments.clear();
      this.node = message.Snapshot.Node;
      this.begunAt = message.Index;
    }
    if (!this.mirror.take(message)) {
      this.mirror.index = 0;
      this.#socket?.terminate();
      return;
    }
    if ('Events' in message) for (const event of message.Events) this.#note(event);
  }

  #note(event: FeedEvent): void {
    if (event.Topic === 'Evaluation') this.evaluations.set(event.Key, event.Payload.Evaluation);
    else if (event.Topic === 'Deployment') this.deployments.set(event.Key, event.Payload.Deployment);
    else if (event.Topic === 'Node') this.node = event.Payload.Node;
  }

  disconnect(): void {
    this.#socket?.terminate();
  }

  pause(): void {
    const socket = this.#socket;
    socket?.pause();
    // The disturbance itself, not a wait for something.
    setTimeout(() => socket?.resume(), 150);
  }

  close(): void {
    this.#isOver = true;
    this.#socket?.terminate();
  }
}

/** The state as a new client gets it. */
async function freshState(agent: RealAgent): Promise<{ readonly index: number; readonly state: unknown }> {
  const reader = new Follower(agent);
  try {
    await until('a snapshot', () => reader.mirror.index > 0);
    return { index: reader.mirror.index, state: reader.mirror.state() };
  } finally {
    reader.close();
  }
}

async function take(agent: RealAgent, follower: Follower, step: Step): Promise<void> {
  switch (step.kind) {
    case 'register':
      await agent.request('PUT', '/v1/jobs', { Job: job(step.id, step.turn) });
      return;
    case 'stop':
      await agent.request('DELETE', `/v1/job/${step.id}?purge=true`);
      return;
    case 'eligibility': {
      const [node] = (await agent.get('/v1/nodes')) as readonly Node[];
      await agent.request('PUT', `/v1/node/${String(node?.ID)}/eligibility`, { Eligibility: step.word });
      return;
    }
    case 'kill':
      await agent.kill();
      await agent.start();
      return;
    case 'disconnect':
      follower.disconnect();
      return;
    case 'pause':
      follower.pause();
  }
}

describe('the rules of the feed, with a real agent', { timeout: 60_000 * (1 + RUNS) }, () => {
  it('keep a client at exactly the server’s state, whatever is killed, slowed or reconnected', async () => {
    await fc.assert(
      fc.asyncProperty(anySteps, async (steps) => {
        await using agent = await RealAgent.start();
        // An agent in which nothing has happened is at index 0, which is also that of who knows nothing.
        await agent.register(job('a', 1));
        const follower = new Follower(agent);
        try {
          await until('it has begun', () => follower.mirror.index > 0);
          // In every run the agent is killed at least once, while something goes on.
          const all: readonly Step[] = [{ kind: 'register', id: 'a', turn: 0 }, { kind: 'kill' }, ...steps];
          for (const step of all) await take(agent, follower, step);
          // Quiet: two looks at the same index, and the follower is there as well.
          await until(
            'the same state',
            async () => {
              const first = await freshState(agent);
              if (follower.mirror.index !== first.index) return false;
              const second = await freshState(agent);
              if (second.index !== first.index || follower.mirror.index !== first.index) return false;
              assert.deepEqual(follower.mirror.state(), first.state);
              return true;
            },
            { timeoutMs: 30_000, everyMs: 100, lastSeen: () => [follower.mirror.index, follower.returns] },
          );
          const [stub] = (await agent.get('/v1/nodes')) as readonly Node[];
          assert.equal(follower.node?.SchedulingEligibility, stub?.SchedulingEligibility);
          const told = async <T extends { ID: string; Status: string; ModifyIndex: number }>(
            path: string,
            known: ReadonlyMap<string, T>,
          ) => {
            const served = (await agent.get(path)) as readonly T[];
            for (const { ID, Status, ModifyIndex } of served) {
              if (known.has(ID)) assert.equal(known.get(ID)?.Status, Status, `${path} ${ID}`);
              else assert.ok(ModifyIndex <= follower.begunAt, `${path} ${ID} was not told`);
            }
          };
          await told('/v1/evaluations', follower.evaluations);
          await told('/v1/deployments', follower.deployments);
          assert.ok(follower.returns.resumed > 0);
        } finally {
          follower.close();
        }
      }),
      { numRuns: RUNS, endOnFailure: true, includeErrorInReport: true },
    );
  });
});

/** A message of the feed, as far as it is looked at. */
interface Said {
  readonly Index?: number;
  readonly Events?: readonly {
    readonly Payload: { readonly Job?: { readonly Meta?: Readonly<Record<string, string>> } | null };
  }[];
  readonly Lost?: { readonly From: number; readonly To: number };
}

describe('a reader that sleeps', { timeout: 180_000 }, () => {
  it('is told what it lost when it wakes up, and slowed neither the agent nor the other reader', async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'hf-feed-'));
    t.after(() => {
      rmSync(dir, { recursive: true });
    });
    const config = join(dir, 'agent.yaml');
    writeFileSync(config, 'feed_rows: 1500\nfeed_age: 1ms\nfeed_size: 1\n');
    await using agent = await RealAgent.start({ args: ['--config', config] });
    const readers = ['sleeper', 'quick'].map(() => {
      const socket = new WebSocket(`ws+unix:${agent.socket}:/v1/feed?snapshot=true`);
      const said: Said[] = [];
      socket.on('message', (data: Buffer) => said.push(JSON.parse(data.toString()) as Said));
      return { socket, said };
    });
    const [sleeper, quick] = readers;
    assert.ok(sleeper !== undefined && quick !== undefined);
    const at = ({ said }: { readonly said: readonly Said[] }): number =>
      Math.max(0, ...said.map(({ Index = 0 }) => Index));
    await until('both have begun', () => readers.every(({ said }) => said.length > 0));
    sleeper.socket.pause();
    const begun = at(quick);
    // Far more than what is held, in the table and in memory, and than what fits into the sockets.
    for (let turn = 0; at(quick) < begun + 3000; turn++) {
      assert.ok(turn < 20, `only at ${at(quick)}`);
      await agent.register({
        ID: `many-${turn}`,
        Type: 'batch',
        TaskGroups: [
          { Name: 'g', Count: 80, Tasks: [{ Name: 't', Driver: 'mock_driver', Config: { run_for: '1ms' } }] },
        ],
      });
      await agent.untilTasks(
        `many-${turn}`,
        'are over',
        (tasks) => tasks.length === 80 && tasks.every(({ state }) => state.State === 'dead'),
      );
    }
    assert.ok(!quick.said.some((message) => 'Lost' in message), 'the quick one lost something');
    assert.ok(at(sleeper) < at(quick));
    sleeper.socket.resume();
    await until('the sleeper is where the other is', () => at(sleeper) >= at(quick), {
      timeoutMs: 60_000,
      lastSeen: () => [at(sleeper), at(quick)],
    });
    const lost = sleeper.said.filter((message) => 'Lost' in message);
    assert.ok(lost.length > 0, 'it was not told what it lost');
    // Whatever quick was told, sleeper was told as well, or that it is lost.
    const ranges = lost.flatMap(({ Lost }) => (Lost === undefined ? [] : [Lost]));
    const heard = new Set(sleeper.said.flatMap(({ Events, Index }) => (Events === undefined ? [] : [Index])));
    for (const { Index, Events } of quick.said) {
      if (Events === undefined || Index === undefined) continue;
      const isLost = ranges.some(({ From, To }) => From <= Index && Index <= To);
      assert.notEqual(heard.has(Index), isLost, `index ${Index}`);
    }
    for (const { socket } of readers) socket.close();
  });
});
