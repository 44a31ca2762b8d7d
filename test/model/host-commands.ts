/**
 * What can happen to a host, as commands of fast-check, and what must be true of it whatever happened. Over 300 lines because
 * each command is a few lines, and all of them speak of one model.
 */
import assert from 'node:assert/strict';
import fc from '../helpers/properties.js';
import { AgentError } from '../../src/base/errors.js';
import type { ExitResult } from '../../src/events/exit-result.js';
import type { Job, RestartPolicy } from '../../src/jobspec/types.js';
import type { TaskEventRow } from '../../src/state/store.js';
import { faultInHistory } from '../helpers/event-order.js';
import type { Rig } from '../helpers/rig.js';
import { EXIT_0, EXIT_1, signaled, type StartScript } from '../helpers/scripted-driver.js';

/** All that is needed to say what can happen next and how things must end up; the wish itself is on the disk. */
export interface Model {
  readonly jobId: string;
  agentUp: boolean;
}

export type Command = fc.AsyncCommand<Model, Rig>;

/** Of the errors that a request may be answered with, those that are no fault. */
const ANSWERS = new Set(['not_running', 'store_unavailable', 'not_found']);

/** Makes a request, without waiting for its answer: an agent that dies never gives one. */
function ask(request: () => Promise<unknown>): void {
  void (async () => request())().catch((error: unknown) => {
    if (!(error instanceof AgentError) || !ANSWERS.has(error.code)) throw error;
  });
}

export abstract class OnLivingAgent implements Command {
  check(model: Readonly<Model>): boolean {
    return model.agentUp;
  }
  async run(model: Model, rig: Rig): Promise<void> {
    await this.act(model, rig);
    afterwards(model, rig);
  }
  protected abstract act(model: Model, rig: Rig): Promise<void> | void;
  abstract toString(): string;
}

abstract class Always extends OnLivingAgent {
  override check(): boolean {
    return true;
  }
}

function afterwards(model: Model, rig: Rig): void {
  if (model.agentUp && rig.bury()) model.agentUp = false;
  assert.deepEqual(rig.world.violations, []);
}

class Pass extends Always {
  readonly #ms: number;
  constructor(ms: number) {
    super();
    this.#ms = ms;
  }
  act(_model: Model, rig: Rig): Promise<void> {
    return rig.pass(this.#ms);
  }
  toString(): string {
    return `pass(${this.#ms})`;
  }
}

/** A few turns of the event loop: too few for things to settle, so that the next command comes in between. */
class Turns extends Always {
  readonly #turns: number;
  constructor(turns: number) {
    super();
    this.#turns = turns;
  }
  async act(): Promise<void> {
    for (let turn = 0; turn < this.#turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  toString(): string {
    return `turns(${this.#turns})`;
  }
}

class Exit extends Always {
  readonly #pick: number;
  readonly #result: ExitResult;
  constructor(pick: number, result: ExitResult) {
    super();
    this.#pick = pick;
    this.#result = result;
  }
  act(_model: Model, rig: Rig): void {
    const live = rig.world.live();
    const run = live[this.#pick % Math.max(1, live.length)];
    if (run !== undefined) rig.world.exit(run, this.#result);
  }
  toString(): string {
    return `exit(${this.#pick}, ${JSON.stringify(this.#result)})`;
  }
}

class Stop extends OnLivingAgent {
  readonly #noShutdownDelay: boolean;
  constructor(noShutdownDelay: boolean) {
    super();
    this.#noShutdownDelay = noShutdownDelay;
  }
  async act(model: Model, rig: Rig): Promise<void> {
    const { scheduler } = rig.agent;
    const stopped = scheduler.stop(model.jobId, { purge: false, noShutdownDelay: this.#noShutdownDelay });
    await answered(rig, stopped);
    if (rig.agent.dead || rig.disk.refusing) return;
    assert.equal(rig.disk.records.getJob(model.jobId)?.record.stopped, true, 'what was answered is stored');
  }
  toString(): string {
    return `stop(${this.#noShutdownDelay ? 'at once' : ''})`;
  }
}

/** Waits for an answer as long as the agent lives to give it. */
export async function answered(rig: Rig, work: Promise<unknown>): Promise<void> {
  const waiting = { over: false };
  const done = work.then(
    () => {
      waiting.over = true;
    },
    (error: unknown) => {
      waiting.over = true;
      if (!(error instanceof AgentError) || !ANSWERS.has(error.code)) throw error;
    },
  );
  for (let turn = 0; turn < 50 && !waiting.over && !rig.agent.dead; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (waiting.over) await done;
}

class Restart extends OnLivingAgent {
  readonly #task: string | undefined;
  constructor(task: string | undefined) {
    super();
    this.#task = task;
  }
  act(_model: Model, rig: Rig): void {
    for (const { record } of rig.disk.records.listAllocs()) {
      const runner = rig.agent.allocs.get(record.id);
      if (runner !== undefined) ask(() => runner.restart(this.#task, 'asked for'));
    }
  }
  toString(): string {
    return `restart(${this.#task ?? 'all'})`;
  }
}

class RestartAll extends OnLivingAgent {
  act(_model: Model, rig: Rig): void {
    for (const { record } of rig.disk.records.listAllocs()) {
      const runner = rig.agent.allocs.get(record.id);
      if (runner !== undefined) ask(() => runner.restartAll());
    }
  }
  toString(): string {
    return 'restart all tasks';
  }
}

class Signal extends OnLivingAgent {
  act(_model: Model, rig: Rig): void {
    for (const { record } of rig.disk.records.listAllocs()) {
      const runner = rig.agent.allocs.get(record.id);
      if (runner !== undefined) ask(() => runner.signal(undefined, 'SIGHUP', ''));
    }
  }
  toString(): string {
    return 'signal';
  }
}

/** Changes what the world or the disk does from now on. */
export class Weather extends Always {
  readonly #name: string;
  readonly #change: (rig: Rig) => void;
  constructor(name: string, change: (rig: Rig) => void) {
    super();
    this.#name = name;
    this.#change = change;
  }
  act(_model: Model, rig: Rig): void {
    this.#change(rig);
  }
  toString(): string {
    return this.#name;
  }
}

class KillAgent extends OnLivingAgent {
  act(model: Model, rig: Rig): void {
    rig.kill();
    model.agentUp = false;
  }
  toString(): string {
    return 'SIGKILL the agent';
  }
}

class KillAgentAtAct extends OnLivingAgent {
  readonly #n: number;
  constructor(n: number) {
    super();
    this.#n = n;
  }
  act(_model: Model, rig: Rig): void {
    rig.killAtAct(this.#n);
  }
  toString(): string {
    return `SIGKILL the agent at act ${this.#n}`;
  }
}

class Leave extends OnLivingAgent {
  async act(model: Model, rig: Rig): Promise<void> {
    await rig.leave();
    model.agentUp = false;
  }
  toString(): string {
    return 'leave';
  }
}

class Reboot extends Always {
  act(model: Model, rig: Rig): void {
    rig.reboot();
    model.agentUp = false;
  }
  toString(): string {
    return 'reboot';
  }
}

class StartAgent extends OnLivingAgent {
  override check(model: Readonly<Model>): boolean {
    return !model.agentUp;
  }
  async act(model: Model, rig: Rig): Promise<void> {
    model.agentUp = true;
    await answered(rig, rig.start());
  }
  toString(): string {
    return 'start the agent';
  }
}

const arbResult: fc.Arbitrary<ExitResult> = fc.constantFrom(EXIT_0, EXIT_1, signaled(11), signaled(15));
const arbStart: fc.Arbitrary<StartScript> = fc.oneof(
  fc.record({ kind: fc.constant('fails' as const), recoverable: fc.constantFrom(true, true, true, false) }),
  fc.record({ kind: fc.constant('uncertain' as const), started: fc.boolean() }),
);
const always = (command: Command): fc.Arbitrary<Command> => fc.constant(command);
const weather = (name: string, change: (rig: Rig) => void): fc.Arbitrary<Command> =>
  always(new Weather(name, change));

/** Everything that can happen to a job that was registered once. */
export const hostCommands: fc.Arbitrary<Command>[] = [
  fc.constantFrom(0, 1, 500, 1_000, 5_000, 20_000, 130_000, 300_000).map((ms) => new Pass(ms)),
  fc.integer({ min: 1, max: 6 }).map((turns) => new Turns(turns)),
  fc.tuple(fc.nat(3), arbResult).map(([pick, result]) => new Exit(pick, result)),
  fc.tuple(fc.nat(3), arbResult).map(([pick, result]) => new Exit(pick, result)),
  fc.boolean().map((at) => new Stop(at)),
  fc.constantFrom('main', undefined).map((task) => new Restart(task)),
  always(new RestartAll()),
  always(new Signal()),
  arbStart.map((script) => {
    return new Weather(`next start ${JSON.stringify(script)}`, (rig) => rig.world.starts.push(script));
  }),
  fc.constantFrom(0, 20).map((ms) => {
    return new Weather(`starting takes ${ms}`, (rig) => (rig.world.startMs = ms));
  }),
  fc.constantFrom(0, 700, 60_000).map((ms) => {
    return new Weather(`stopping takes ${ms}`, (rig) => (rig.world.obeysAfterMs = ms));
  }),
  fc.constantFrom(0, 30, 3_000).map((ms) => {
    return new Weather(`hooks take ${ms}`, (rig) => (rig.hooksTakeMs = ms));
  }),
  fc.integer({ min: 1, max: 7 }).map((n) => {
    return new Weather(`${n} stops fail`, (rig) => (rig.world.stopsThatFail = n));
  }),
  weather('disk refuses', (rig) => (rig.disk.refusing = true)),
  weather('disk takes', (rig) => (rig.disk.refusing = false)),
  weather('executors out of reach', (rig) => (rig.world.reachable = false)),
  weather('executors in reach', (rig) => (rig.world.reachable = true)),
  always(new KillAgent()),
  fc.integer({ min: 1, max: 9 }).map((n) => new KillAgentAtAct(n)),
  fc.integer({ min: 1, max: 9 }).map((n) => new KillAgentAtAct(n)),
  always(new Leave()),
  always(new Reboot()),
  always(new StartAgent()),
  always(new StartAgent()),
  always(new StartAgent()),
];

/** What an agent that is up may be asked beyond that: other versions of the job, other instances of its allocs. */
export function jobCommands(jobs: readonly Job[]): fc.Arbitrary<Command>[] {
  class Register extends OnLivingAgent {
    readonly #job: Job;
    constructor(job: Job) {
      super();
      this.#job = job;
    }
    async act(model: Model, rig: Rig): Promise<void> {
      await answered(rig, rig.agent.scheduler.register(this.#job));
      if (rig.agent.dead || rig.disk.refusing) return;
      assert.deepEqual(
        rig.disk.records.getJob(model.jobId)?.record.spec,
        this.#job,
        'what was answered is stored',
      );
    }
    toString(): string {
      return `register(${jobs.indexOf(this.#job)})`;
    }
  }
  class StopAlloc extends OnLivingAgent {
    readonly #pick: number;
    constructor(pick: number) {
      super();
      this.#pick = pick;
    }
    async act(_model: Model, rig: Rig): Promise<void> {
      const allocs = rig.disk.records.listAllocs();
      const picked = allocs[this.#pick % Math.max(1, allocs.length)];
      if (picked !== undefined)
        await answered(rig, rig.agent.scheduler.stopAlloc(picked.record.id, this.#pick % 2 === 0));
    }
    toString(): string {
      return `stop alloc ${this.#pick}`;
    }
  }
  return [fc.constantFrom(...jobs).map((job) => new Register(job)), fc.nat(5).map((n) => new StopAlloc(n))];
}

/** Makes everything work again and gives it all the time it needs. */
export async function comeToRest(model: Model, rig: Rig): Promise<void> {
  rig.disk.refusing = false;
  Object.assign(rig.world, { reachable: true, stopsThatFail: 0, startMs: 0, obeysAfterMs: 0 });
  rig.hooksTakeMs = 0;
  rig.world.starts.length = 0;
  // A kill that is still to come would come in the middle of the proof.
  if (model.agentUp) rig.kill();
  await rig.start();
  model.agentUp = true;
  await rig.pass(1_000);
  for (let minutes = 0; minutes < 60 && !isAtRest(rig); minutes++) await rig.pass(60_000);
  assert.ok(isAtRest(rig), `not at rest after an hour: ${describe(rig)}`);
}

function isAtRest(rig: Rig): boolean {
  if (rig.agent.store.keptChanges() > 0) return false;
  return rig.disk.records.listAllocs().every(({ record }) => {
    const tasks = rig.disk.records.listTasks(record.id);
    if (tasks.every(({ phase }) => phase === 'complete')) return true;
    const isEnding = record.desiredStatus === 'stop' || record.endingSince !== undefined;
    if (isEnding || tasks.every(({ phase }) => phase === 'dead')) return false;
    return tasks.every(({ phase, failed }) => phase === 'running' || (phase === 'dead' && !failed));
  });
}

function describe(rig: Rig): string {
  const allocs = rig.disk.records.listAllocs().map(({ record }) => ({
    wished: record.desiredStatus,
    isLive: rig.agent.allocs.isLive(record.id),
    tasks: rig.disk.records.listTasks(record.id).map(({ task, phase, phaseDetail }) => {
      const told = rig.toldOf(record.id, task).slice(-12);
      return { task, phase, phaseDetail, told, live: rig.world.live().length };
    }),
  }));
  const jobs = rig.disk.records
    .listJobs()
    .map(({ record }) => ({ version: record.version, stopped: record.stopped }));
  return JSON.stringify({ jobs, allocs, kept: rig.agent.store.keptChanges() });
}

/** What is wished for: the newest job that was registered, unless it was stopped. */
export function wishOf(model: Model, rig: Rig): Job | undefined {
  const stored = rig.disk.records.getJob(model.jobId)?.record;
  return stored === undefined || stored.stopped ? undefined : stored.spec;
}

/** What must be true once everything is at rest. */
export function assertTruthAtRest(model: Model, rig: Rig): void {
  assert.deepEqual(rig.world.violations, []);
  for (const { record: alloc } of rig.disk.records.listAllocs()) {
    const tasks = rig.disk.records.listTasks(alloc.id);
    for (const task of tasks) {
      const live = rig.world.live().filter((run) => run.allocId === alloc.id && run.task === task.task);
      assert.equal(live.length, task.phase === 'running' ? 1 : 0, 'the record agrees with the world');
      assert.equal(live[0]?.runId, task.runId);
      assertHistory(
        rig,
        rig.told.filter((row) => row.allocId === alloc.id && row.task === task.task),
        live.length,
      );
      const newest = rig.disk.records.listRuns(alloc.id, task.task).at(-1);
      assert.equal(newest?.outcome === undefined && newest !== undefined, task.phase === 'running');
    }
    const alive = tasks.some((task) => task.phase !== 'complete');
    assert.equal(rig.agent.allocs.isLive(alloc.id), alive);
    const failed = tasks.some((task) => task.failed);
    const isTimeOver = alloc.runTime?.isOver === true && !alive;
    assert.equal(
      alloc.clientStatus,
      isTimeOver ? 'complete' : failed ? 'failed' : alive ? 'running' : 'complete',
    );
    for (const task of alive ? tasks : []) {
      assert.equal(
        task.generation ?? 0,
        alloc.generation ?? 0,
        'all have got to the generation of the alloc',
      );
      assert.equal(task.renewTo, undefined);
    }
  }
  if (wishOf(model, rig) !== undefined) return;
  const left = rig.world
    .live()
    .filter(({ allocId }) => (rig.disk.records.jobIdOf(allocId) ?? model.jobId) === model.jobId);
  assert.deepEqual(left, [], 'what was stopped does not live');
}

function assertHistory(rig: Rig, history: readonly TaskEventRow[], live: number): void {
  assert.equal(faultInHistory(history), undefined);
  const [first] = history;
  if (first === undefined) return;
  const count = (type: string): number => history.filter(({ event }) => event.type === type).length;
  const runs = rig.disk.records
    .listRuns(first.allocId, first.task)
    .filter((run) => run.startedAtMs !== undefined);
  assert.equal(count('Started'), runs.length, 'Started once a run');
  assert.equal(count('Terminated'), runs.length - live, 'Terminated once a run');
}

/** The restart policy once more, in ten lines, replayed over what was told: interval and attempts are kept. */
export function assertPolicyKept(policy: RestartPolicy, history: readonly TaskEventRow[]): void {
  let window = { openedAtMs: -Infinity, used: 0 };
  let asked = false;
  let ofAll = false;
  const isOfAll = (reason: string): boolean => reason.startsWith('all tasks of the alloc');
  for (const { atMs, event } of history) {
    if (event.type === 'Restart Signaled') {
      asked = true;
      ofAll = isOfAll(event.reason);
    }
    // A task that is just starting starts first, and is ended then.
    if (event.type === 'Started' && !ofAll) asked = false;
    if (event.type !== 'Restarting' && event.type !== 'Not Restarting') continue;
    if (event.reason === 'asked for' || isOfAll(event.reason)) {
      assert.ok(asked, 'outside the policy only what was asked for since it started');
      ofAll = false;
      continue;
    }
    if (atMs - window.openedAtMs >= policy.intervalMs) window = { openedAtMs: atMs, used: 0 };
    window.used += 1;
    if (event.type === 'Restarting' && event.reason.startsWith('Restart within policy')) {
      assert.ok(window.used <= policy.attempts, `restart ${window.used} of ${policy.attempts}`);
      assert.equal(event.delayMs, policy.delayMs);
    } else if (event.type === 'Restarting') {
      assert.equal(policy.mode, 'delay');
      assert.equal(atMs + event.delayMs, window.openedAtMs + policy.intervalMs);
    } else {
      assert.ok(window.used > policy.attempts || event.reason === 'Error was unrecoverable');
    }
  }
}
