/** SQLite and memory cannot be told apart: the same commits give the same answers, whatever is reopened in between. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../helpers/properties.js';
import { AgentError } from '../../src/base/errors.js';
import { openMemoryStore } from '../../src/state/memory-store.js';
import type { Change, StateStore } from '../../src/state/store.js';
import { ALLOC_IDS, anyChange, JOB_IDS } from '../helpers/arbitrary-changes.js';
import { putAlloc, putJob } from '../helpers/records.js';
import { imageOf } from '../helpers/store-image.js';
import { StoreOnDisk } from '../helpers/stores.js';

/** Small enough for every bound to be met within one run. */
const LIMITS = {
  feedRows: 8,
  feedAgeMs: 500,
  feedBytes: 12_000,
  eventsPerTask: 2,
  eventBytesPerTask: 600,
  runsPerTask: 2,
  versionsPerJob: 2,
  deploymentsPerJob: 2,
  evaluations: 3,
};

interface Model {
  readonly memory: StateStore;
}
interface Real {
  readonly disk: StoreOnDisk;
  sqlite: StateStore;
}

async function outcome(store: StateStore, changes: readonly Change[]): Promise<string> {
  try {
    return await store.commit(changes);
  } catch (error) {
    return error instanceof AgentError ? error.code : String(error);
  }
}

/** Every job and alloc that changes speak of, so that most of them are good. */
const GROUND: readonly Change[] = [
  ...JOB_IDS.map((id) => putJob({ id })),
  ...ALLOC_IDS.map((id) => putAlloc({ id })),
];

/** Numbers that must grow are drawn as steps: most go on from what is stored, a few go back and must be refused. */
function placeNumbers(store: StateStore, commit: readonly Change[]): readonly Change[] {
  const newest = new Map<string, number>();
  return commit.map((change) => {
    if (change.kind === 'put_job') {
      const { id, version: step } = change.job;
      const version = Math.max(0, (newest.get(id) ?? store.getJob(id)?.record.version ?? 0) + step);
      newest.set(id, version);
      return { ...change, job: { ...change.job, version } };
    }
    if (change.kind !== 'add_task_event') return change;
    const { allocId, task, event } = change;
    const key = `${allocId}/${task}`;
    const last = newest.get(key) ?? store.listTaskEvents({ allocId, task }).at(-1)?.seq ?? 0;
    newest.set(key, last + event.seq);
    return { ...change, event: { ...event, seq: last + event.seq } };
  });
}

/** Commits handed in during one turn: one transaction. */
class CommitGroup implements fc.AsyncCommand<Model, Real> {
  readonly #group: readonly (readonly Change[])[];

  constructor(group: readonly (readonly Change[])[]) {
    this.#group = group;
  }

  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    const group = this.#group.map((commit) => placeNumbers(model.memory, commit));
    const wanted = await Promise.all(group.map((changes) => outcome(model.memory, changes)));
    const got = await Promise.all(group.map((changes) => outcome(real.sqlite, changes)));
    assert.deepEqual(got, wanted);
    assert.deepEqual(imageOf(real.sqlite), imageOf(model.memory));
  }

  toString(): string {
    return `commit ${JSON.stringify(this.#group)}`;
  }
}

class Reopen implements fc.AsyncCommand<Model, Real> {
  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    const hostId = real.sqlite.hostId();
    await real.sqlite.close();
    real.sqlite = real.disk.open({ limits: LIMITS });
    assert.equal(real.sqlite.hostId(), hostId);
    assert.deepEqual(imageOf(real.sqlite), imageOf(model.memory));
  }

  toString(): string {
    return 'reopen';
  }
}

class PassTime implements fc.AsyncCommand<Model, Real> {
  readonly #ms: number;

  constructor(ms: number) {
    this.#ms = ms;
  }

  check(): boolean {
    return true;
  }

  async run(_model: Model, real: Real): Promise<void> {
    if (this.#ms < 0) real.disk.clock.stepWall(this.#ms);
    else await real.disk.clock.advance(this.#ms);
  }

  toString(): string {
    return `pass ${this.#ms} ms`;
  }
}

describe('sqlite and memory', () => {
  it('give the same answers after the same commits', async () => {
    const commands = fc.commands(
      [
        fc
          .array(fc.array(anyChange, { maxLength: 6 }), { minLength: 1, maxLength: 4 })
          .map((group) => new CommitGroup(group)),
        fc.integer({ min: -300, max: 900 }).map((ms) => new PassTime(ms)),
        fc.constant(new Reopen()),
      ],
      { maxCommands: 40, size: 'max' },
    );
    await fc.assert(
      fc.asyncProperty(commands, async (run) => {
        const disk = new StoreOnDisk();
        const memory = openMemoryStore({ clock: disk.clock, limits: LIMITS });
        try {
          const real: Real = { disk, sqlite: disk.open({ limits: LIMITS }) };
          await Promise.all([memory.commit(GROUND), real.sqlite.commit(GROUND)]);
          await fc.asyncModelRun(() => ({ model: { memory }, real }), run);
        } finally {
          await disk.remove();
        }
      }),
      { numRuns: 80 },
    );
  });
});
