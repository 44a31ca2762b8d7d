import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import { stopRun, type StoppableRun } from '../../../src/drivers/stop-run.js';
import type { ExecutorClient } from '../../../src/executor/client.js';
import { REPLY_WITHIN_MS } from '../../../src/executor/client.js';
import { FakeClock } from '../../helpers/fake-clock.js';

/** A run whose executor is as the test says; notes what was done to it. */
class Scene {
  readonly clock = new FakeClock();
  readonly done: string[] = [];
  over = false;
  /** What is asked of the executor: it answers, or lets the reply time out. */
  answers = true;
  stuck: string | undefined;
  executor: ExecutorClient | undefined = this.#client();
  /** What waking and replacing change. */
  onWake: () => void = () => undefined;
  onUnseat: () => void = () => undefined;
  onKill: () => void = () => undefined;

  readonly run: StoppableRun = {
    isOver: () => this.over,
    client: () => this.executor,
    endedWithin: (ms) => this.#pass(ms),
    wake: () => this.#note('wake', this.onWake),
    unseat: () => this.#note('unseat', this.onUnseat),
    killRemains: () => this.#note('kill', this.onKill),
  };

  replace(): void {
    this.executor = this.#client();
  }

  async #pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
  }

  #note(what: string, then: () => void): Promise<void> {
    this.done.push(what);
    then();
    return Promise.resolve();
  }

  #client(): ExecutorClient {
    const ask = async <T>(what: string, answer: T): Promise<T> => {
      this.done.push(what);
      if (this.answers) return answer;
      await this.#pass(REPLY_WITHIN_MS);
      throw new AgentError('executor_unreachable', 'no answer', { recoverable: true });
    };
    const part = {
      stop: ({ graceMs }: { graceMs: number }) => ask(`stop ${graceMs}`, undefined),
      status: () => ask('status', { kind: 'ok', value: { stuck: this.stuck } }),
    };
    return part as unknown as ExecutorClient;
  }

  stop(graceMs: number): Promise<void> {
    return stopRun(this.clock, this.run, { signal: 15, graceMs });
  }
}

describe('the stop of a run', () => {
  it('is handed over once, and no more is done about it', async () => {
    const scene = new Scene();
    scene.clock.setTimer(3000, () => (scene.over = true));
    await scene.stop(5000);
    assert.deepEqual(scene.done, ['stop 5000']);
  });

  it('is handed to an executor that takes over, with what is left of its time', async () => {
    const scene = new Scene();
    scene.clock.setTimer(1000, () => {
      scene.replace();
    });
    scene.clock.setTimer(2000, () => (scene.over = true));
    await scene.stop(5000);
    assert.deepEqual(scene.done, ['stop 5000', 'stop 4000']);
  });

  it('wakes an executor that does not answer', async () => {
    const scene = new Scene();
    scene.answers = false;
    scene.onWake = () => {
      scene.answers = true;
      scene.clock.setTimer(500, () => (scene.over = true));
    };
    await scene.stop(10_000);
    assert.deepEqual(scene.done, ['stop 10000', 'wake', 'stop 7900']);
  });

  it('replaces one that stays silent, but not before the deadline', async () => {
    const scene = new Scene();
    scene.answers = false;
    scene.onUnseat = () => {
      scene.answers = true;
      scene.replace();
      scene.clock.setTimer(500, () => (scene.over = true));
    };
    await scene.stop(3000);
    assert.deepEqual(scene.done, ['stop 3000', 'wake', 'stop 900', 'unseat', 'stop 0']);
  });

  it('kills by itself what nobody else can', async () => {
    const scene = new Scene();
    scene.answers = false;
    scene.onKill = () => {
      scene.over = true;
    };
    await scene.stop(0);
    assert.deepEqual(
      scene.done.filter((what) => !what.startsWith('stop')),
      ['wake', 'unseat', 'kill'],
    );
    const alone = new Scene();
    alone.executor = undefined;
    alone.onKill = () => {
      alone.over = true;
    };
    await alone.stop(0);
    assert.deepEqual(alone.done, ['kill']);
  });

  it('G16: that fails names what is stuck', async () => {
    const scene = new Scene();
    scene.stuck = '7 (dd) in nfs_wait';
    await assert.rejects(
      scene.stop(0),
      (error) =>
        error instanceof AgentError &&
        error.code === 'kill_failed' &&
        error.recoverable &&
        /does not let go of 7 \(dd\) in nfs_wait/.test(error.message),
    );
  });
});
