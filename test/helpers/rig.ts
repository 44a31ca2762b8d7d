/**
 * One host for tests of the run loop: a disk, a world of workloads and a clock that outlive the agents living on it one
 * after the other. An agent here is the real store, alloc table and scheduler; it can leave, or be killed at any moment.
 */
import { sleep, type Clock } from '../../src/base/clock.js';
import { silentLogger, type Logger } from '../../src/base/log.js';
import { AllocTable } from '../../src/allocrunner/alloc-table.js';
import type { Probe } from '../../src/allocrunner/checks/probe.js';
import type { Driver } from '../../src/drivers/driver.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import { DEFAULT_STORE_LIMITS } from '../../src/state/limits.js';
import { MemoryHistory } from '../../src/state/memory-history.js';
import { MemoryRecords } from '../../src/state/memory-records.js';
import { MemoryScheduling } from '../../src/state/memory-scheduling.js';
import type { FeedRow, QuarantinedRow, StateStore, TaskEventRow, TaskRecord } from '../../src/state/store.js';
import { TableStore } from '../../src/state/table-store.js';
import type { Tables } from '../../src/state/tables.js';
import { UndoLog } from '../../src/state/undo-log.js';
import type { TaskHook } from '../../src/taskrunner/hooks/hook.js';
import { FakeClock } from './fake-clock.js';
import { World, type Life } from './scripted-driver.js';

class Refusal extends Error {}

/** The rows of the feed are told, but not kept: to copy them takes a lot of time. */
class HistoryWithoutFeed extends MemoryHistory {
  override addFeedRow(row: FeedRow): void {
    super.addFeedRow({ ...row, payload: NOTHING });
  }
}
const NOTHING: FeedRow['payload'] = { topic: 'Node', type: 'NodeSchedulingUpdated', scheduling: '' };

/** Rows that stay, on a disk that refuses writes when told to. */
export class Disk implements Tables {
  readonly #undo = new UndoLog();
  readonly records = new MemoryRecords(this.#undo);
  readonly history: MemoryHistory;
  readonly scheduling = new MemoryScheduling(this.#undo);
  refusing = false;
  /** Its agent was killed and not buried yet. */
  ownerDead = false;
  onWritten: () => void = () => undefined;
  onWrite: () => void = () => undefined;
  #depth = 0;

  constructor(keepsFeed: boolean) {
    const History = keepsFeed ? MemoryHistory : HistoryWithoutFeed;
    this.history = new History(this.#undo, (allocId) => this.records.jobIdOf(allocId));
  }

  transact<T>(work: () => T): T {
    if (this.#depth === 0) {
      this.onWrite();
      if (this.refusing || this.ownerDead) throw new Refusal('no space left on device');
    }
    this.#depth += 1;
    try {
      return this.#undo.transact(work);
    } finally {
      this.#depth -= 1;
      if (this.#depth === 0) this.onWritten();
    }
  }

  isRefusal(error?: unknown): boolean {
    return error instanceof Refusal;
  }

  hostId(): string {
    return 'host';
  }

  listQuarantined(): readonly QuarantinedRow[] {
    return [];
  }

  close(): void {
    // It outlives the store.
  }
}

/** An agent that lives, or did. */
export interface Agent extends Life {
  readonly store: StateStore;
  readonly allocs: AllocTable;
  readonly scheduler: Scheduler;
}

export interface RigOptions {
  readonly hooks?: readonly TaskHook[];
  readonly maxKillTimeoutMs?: number;
  readonly logger?: Logger;
  /** How checks ask. */
  readonly probe?: Probe;
  readonly mayPlace?: () => boolean;
  /** What runs tasks, instead of the world. */
  readonly driver?: Driver;
  /** False when nobody reads the feed again: then it takes less time. */
  readonly keepsFeed?: boolean;
}

export class Rig {
  readonly clock = new FakeClock();
  readonly world = new World(this.clock);
  readonly disk: Disk;
  /** Every event that was told, in the order told. */
  readonly told: TaskEventRow[] = [];
  readonly removedDirs: string[] = [];
  /** Directories of allocs cannot be removed. */
  dirsStay = false;
  /** How long each phase of a hook that all tasks have takes. */
  hooksTakeMs = 0;
  readonly #options: RigOptions;
  #bootedAtMonoMs = 0;
  #actsLeft: number | undefined;
  agent: Agent;

  constructor(options: RigOptions = {}) {
    this.#options = options;
    this.disk = new Disk(options.keepsFeed ?? true);
    const countDown = (): void => {
      this.#countDown();
    };
    this.disk.onWrite = countDown;
    this.disk.onWritten = countDown;
    this.world.onActed = countDown;
    this.world.mayRelease = (runId) =>
      this.disk.records.getRun(runId)?.outcome === undefined && this.disk.records.getRun(runId) !== undefined
        ? 'its end is not stored'
        : undefined;
    this.world.mayStart = ({ runId, allocId, task }) => {
      if (this.disk.records.getRun(runId) === undefined) return 'its intent is not stored';
      const reason = this.disk.records.getTask(allocId, task)?.killReason;
      return reason === undefined ? undefined : `its task was killed before: ${reason}`;
    };
    this.world.mayGiveUp = ({ runId }) =>
      this.disk.records.getRun(runId) === undefined ? undefined : 'its intent is stored';
    this.agent = this.#newAgent();
  }

  /** Starts an agent; what was there before must be dead or gone. */
  async start(): Promise<void> {
    this.agent = this.#newAgent();
    await this.agent.scheduler.restore();
    await this.agent.scheduler.start();
  }

  /** SIGKILL, now. */
  kill(): void {
    this.agent.dead = true;
    this.disk.ownerDead = true;
    this.#bury();
  }

  /**
   * SIGKILL at the n-th act from now: just before or after something is written, or after a driver did something and
   * before it answers. `bury` must follow.
   */
  killAtAct(n: number): void {
    this.#actsLeft = n;
  }

  /** What is left of a killed agent goes. @returns true when it was dead */
  bury(): boolean {
    if (!this.agent.dead) return false;
    this.#bury();
    return true;
  }

  /** The agent leaves in order. */
  async leave(): Promise<void> {
    await this.agent.allocs.shutdown();
    await this.agent.store.close();
    this.kill();
  }

  /** Power off and on. No agent runs afterwards. */
  reboot(): void {
    this.kill();
    this.world.reboot();
    this.#bootedAtMonoMs = this.clock.monoMs() - 7;
  }

  /** Lets everything settle that needs no time. */
  async settle(): Promise<void> {
    for (let calm = 0, last = ''; calm < 2;) {
      await this.clock.settle();
      const now = this.#fingerprint();
      calm = now === last ? calm + 1 : 0;
      last = now;
    }
  }

  /** Moves time in steps, so that what takes several rounds of promises happens when it is due. */
  async pass(ms: number): Promise<void> {
    await this.settle();
    await this.clock.advance(ms);
    await this.settle();
  }

  task(allocId: string, task = 'main'): TaskRecord {
    const record = this.disk.records.getTask(allocId, task);
    if (record === undefined) throw new Error(`no task ${allocId}/${task}`);
    return record;
  }

  /** Types of the events that were told of one task, in order. */
  toldOf(allocId: string, task = 'main'): readonly string[] {
    return this.told
      .filter((row) => row.allocId === allocId && row.task === task)
      .map((row) => row.event.type);
  }

  #newAgent(): Agent {
    const life: Life = { dead: false };
    const clock = this.#clockOf(life);
    const logger = this.#options.logger ?? silentLogger;
    const store = new TableStore({ tables: this.disk, clock, logger, limits: DEFAULT_STORE_LIMITS });
    store.onCommitted((rows) => {
      this.#tell(rows);
    });
    const driver = this.world.driver(life);
    const allocs = new AllocTable({
      ...(this.#options.probe === undefined ? {} : { probe: this.#options.probe }),
      clock,
      logger,
      store,
      bootId: this.world.bootId,
      driver: () => this.#options.driver ?? driver,
      hooks: [this.#slowHook(clock), ...(this.#options.hooks ?? [])],
      maxKillTimeoutMs: () => this.#options.maxKillTimeoutMs ?? 30_000,
      agentEnv: {},
      nodeFacts: {},
      taskDirs: (allocId, task) => ({
        allocDir: `/data/${allocId}/alloc`,
        taskDir: `/data/${allocId}/${task}`,
        localDir: `/data/${allocId}/${task}/local`,
        secretsDir: `/data/${allocId}/${task}/secrets`,
        logDir: `/data/${allocId}/alloc/logs`,
      }),
    });
    const scheduler = new Scheduler({
      clock,
      bootId: this.world.bootId,
      logger,
      store,
      allocs,
      mayPlace: this.#options.mayPlace ?? (() => true),
      removeAllocDir: (allocId) => {
        if (this.dirsStay) return Promise.reject(new Error('a directory is in use'));
        this.removedDirs.push(allocId);
        return Promise.resolve();
      },
    });
    return Object.assign(life, { store, allocs, scheduler });
  }

  #slowHook(clock: Clock): TaskHook {
    const wait = async ({ signal }: { signal: AbortSignal }): Promise<undefined> => {
      if (this.hooksTakeMs > 0) await sleep(clock, this.hooksTakeMs, signal);
      return undefined;
    };
    const pass = async (context: { signal: AbortSignal }): Promise<void> => {
      await wait(context);
    };
    return { name: 'slow', prestart: wait, poststart: pass, preKill: pass, exited: pass, stop: pass };
  }

  #clockOf(life: Life): Clock {
    return {
      wallMs: () => this.clock.wallMs(),
      monoMs: () => this.clock.monoMs() - this.#bootedAtMonoMs,
      roll: () => this.clock.roll(),
      setTimer: (delayMs, fire) =>
        this.clock.setTimer(delayMs, () => {
          if (!life.dead) fire();
        }),
    };
  }

  #tell(rows: readonly FeedRow[]): void {
    for (const { payload } of rows) {
      if (payload.topic !== 'TaskEvent') continue;
      const { allocId, task, seq } = payload.event;
      const stored = this.disk.records.getTask(allocId, task)?.lastEventSeq ?? 0;
      if (stored < seq) this.world.violations.push(`event ${seq} of ${task} is told before it is stored`);
      this.told.push(payload.event);
    }
  }

  #countDown(): void {
    if (this.#actsLeft === undefined || this.agent.dead) return;
    this.#actsLeft -= 1;
    if (this.#actsLeft > 0) return;
    this.agent.dead = true;
    this.disk.ownerDead = true;
  }

  #bury(): void {
    this.#actsLeft = undefined;
    // Closing would write what is queued: a killed agent writes nothing.
    void this.agent.store.close();
    this.disk.ownerDead = false;
  }

  #fingerprint(): string {
    return JSON.stringify([
      this.disk.history.index(),
      this.world.spawned,
      this.world.live().length,
      this.clock.pendingMs().length,
      this.agent.dead,
    ]);
  }
}
