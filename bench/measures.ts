/** Owns what is measured: each function gives one line of the table, holdfast and its floor in the same run. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RealAgent } from '../test/helpers/real-agent.js';
import type { TaskView } from '../test/helpers/agent-api.js';
import { until } from '../test/helpers/until.js';
import { readStarts, type Floor } from './floor.js';

export interface Row {
  readonly what: string;
  readonly holdfast: number;
  readonly floor: number;
  readonly unit: string;
  /** What the floor is. */
  readonly against: string;
  /** True for a rate: the ratio is floor / holdfast then, so that smaller is better in every line. */
  readonly isRate: boolean;
}

/** How much of each is done. */
export interface Sizes {
  readonly starts: number;
  /** Tasks that are asked for at once. */
  readonly burst: number;
  /** How often what is done at once, or takes long, is done; the median counts. */
  readonly rounds: number;
  /** Stops, and starts of isolated tasks. */
  readonly stops: number;
  readonly records: number;
  readonly executors: number;
  readonly reattached: number;
  readonly logBytes: number;
  /** How often that is written, by turns with its floors. */
  readonly logRounds: number;
  readonly restarts: number;
  readonly feedEvents: number;
}

export interface Bench {
  readonly agent: RealAgent;
  readonly floor: Floor;
  readonly sizes: Sizes;
  /** For what tasks write. */
  readonly dir: string;
}

/** By then all that a start leads to is done. */
const SETTLE_MS = 20;

/** What starts are measured against. */
export const FORK = 'fork + exec in C';
export const SHIM = 'a shim a task in C, output spliced';

/** API call → first instruction of the workload, one after the other: each when nothing is left of the one before, as in the floor's loop. */
export async function measureStart({ agent, floor, sizes, dir }: Bench): Promise<readonly Row[]> {
  const tookMs: number[] = [];
  for (let number = 0; number < sizes.starts; number += 1) {
    const stamps = join(dir, `start-${number}`);
    const id = `start-${number}`;
    const fromNs = process.hrtime.bigint();
    await agent.register(batch(id, floor.program, ['stamp', stamps]));
    const [startNs] = await until('the task has started', () => {
      const seen = readStarts(stamps);
      return seen.length > 0 ? seen : undefined;
    });
    tookMs.push(Number((startNs ?? 0n) - fromNs) / 1e6);
    await purge(agent, id);
  }
  const floors = [
    [FORK, floor.measureStarts(sizes.starts)],
    [SHIM, floor.measureShims(sizes.starts)],
  ] as const;
  return floors.flatMap(([against, floorMs]) =>
    [0.5, 0.99].map((q) => ({
      what: `start, p${100 * q}`,
      holdfast: quantile(tookMs, q),
      floor: quantile(floorMs, q),
      unit: 'ms',
      against,
      isRate: false,
    })),
  );
}

/** Memory of one executor, shared pages divided among those who share them. Executors let only root look into them. */
export async function measureMemory({ agent, floor, sizes }: Bench): Promise<readonly Row[]> {
  if (process.getuid?.() !== 0) return [];
  // What has never been said has cost nothing yet.
  const config = { command: '/bin/sh', args: ['-c', 'echo something; exec sleep 1000'] };
  const tasks = await runIdle(agent, 'memory', sizes.executors, config);
  const executors = tasks.map((view) => agent.processesOfRun(view.state.Holdfast.RunID ?? '').executor.pid);
  await until('all have said something', () =>
    executors.every((pid) => readFileSync(`/proc/${pid}/maps`, 'utf8').includes('/pumped')),
  );
  const holdfast = quantile(executors.map(readPssKib), 0.5);
  await purge(agent, 'memory');
  const shims = await Promise.all(Array.from({ length: sizes.executors }, () => floor.startShim()));
  const pss = shims.map(({ shim }) => readPssKib(shim.pid ?? 0));
  for (const { shim, childPid } of shims) {
    process.kill(childPid, 'SIGKILL');
    shim.kill('SIGKILL');
  }
  return [
    {
      what: 'executor memory',
      holdfast,
      floor: quantile(pss, 0.5),
      unit: 'KiB',
      against: 'sleeping parent in C, linked dynamically',
      isRate: false,
    },
  ];
}

/** Start of the daemon → all tasks supervised again, as its log says; and → its API tells so. */
export function measureReattach(bench: Bench): Promise<readonly Row[]> {
  return reattach(bench, bench.sizes.reattached);
}

/** The same with ten times as many. Starting them takes a while: only when it is asked for. */
export function measureManyReattached(bench: Bench): Promise<readonly Row[]> {
  return reattach(bench, bench.sizes.reattached * 10);
}

async function reattach({ agent, sizes }: Bench, count: number): Promise<readonly Row[]> {
  const before = await runIdle(agent, 'reattach', count);
  const supervisedMs: number[] = [];
  const toldMs: number[] = [];
  const nodeMs: number[] = [];
  for (let round = 0; round < sizes.rounds; round += 1) {
    await agent.kill();
    const fromMs = Date.now();
    await agent.start();
    const after = await agent.untilTasks(
      'reattach',
      'all run',
      (tasks) => runningOf(tasks) === before.length,
    );
    toldMs.push(Date.now() - fromMs);
    const pids = (views: readonly TaskView[]): string =>
      JSON.stringify(views.map(({ state }) => state.Holdfast.Pid).sort());
    if (pids(after) !== pids(before)) throw new Error('re-attached to other processes than before');
    supervisedMs.push(supervisedAtMs(agent.log()) - fromMs);
    const nodeFromMs = performance.now();
    execFileSync(process.execPath, ['-e', '0']);
    nodeMs.push(performance.now() - nodeFromMs);
  }
  await purge(agent, 'reattach');
  const row = { floor: quantile(nodeMs, 0.5), unit: 'ms', against: 'start of bare Node', isRate: false };
  return [
    { what: `re-attach ${count} tasks`, holdfast: quantile(supervisedMs, 0.5), ...row },
    { what: '… and the API tells so', holdfast: quantile(toldMs, 0.5), ...row },
  ];
}

/** When the daemon that was started last had found out about all its tasks; wall time. */
function supervisedAtMs(log: string): number {
  const line = log.split('\n').findLast((each) => each.includes('"tasks are supervised"'));
  return Date.parse((JSON.parse(line ?? '{}') as { time?: string }).time ?? '');
}

/** SIGKILL to a task from outside → first instruction of its next run, with no delay in the policy. */
export async function measureRestart({ agent, floor, sizes, dir }: Bench): Promise<readonly Row[]> {
  const stamps = join(dir, 'restarts');
  const policy = { Attempts: sizes.restarts + 1, Interval: 3600e9, Delay: 0, Mode: 'fail', Jitter: 0 };
  const config = { command: floor.program, args: ['wait', stamps] };
  await agent.register(job('restart', 'service', 1, config, policy));
  const tookMs: number[] = [];
  let killedNs = 0n;
  for (let number = 0; number <= sizes.restarts; number += 1) {
    const startNs = await until('it runs', () => readStarts(stamps)[number]);
    if (number > 0) tookMs.push(Number(startNs - killedNs) / 1e6);
    // Its start is on record before it is killed: what is measured is the restart alone.
    const pid = await until('it is told', async () => {
      const [view] = await agent.tasks('restart');
      return view?.state.Restarts === number ? (view.state.Holdfast.Pid ?? undefined) : undefined;
    });
    await sleep(SETTLE_MS);
    killedNs = process.hrtime.bigint();
    process.kill(pid, 'SIGKILL');
    // Looking for it at once would take a CPU from what is measured.
    await sleep(SETTLE_MS);
  }
  await purge(agent, 'restart');
  return [
    {
      what: 'killed → running, p50',
      holdfast: quantile(tookMs, 0.5),
      floor: quantile(floor.measureRestarts(sizes.restarts), 0.5),
      unit: 'ms',
      against: 'wait + fsync + fork + exec in C',
      isRate: false,
    },
  ];
}

export function batch(
  id: string,
  command: string,
  args: readonly string[],
  restart: object = { Attempts: 0 },
): object {
  return job(id, 'batch', 1, { command, args }, { Mode: 'fail', ...restart });
}

export function job(
  id: string,
  type: string,
  count: number,
  config: object,
  restart: object,
  driver = 'raw_exec',
): object {
  const task = { Name: 'task', Driver: driver, Config: config, Resources: { CPU: 20, MemoryMB: 64 } };
  return {
    ID: id,
    Type: type,
    TaskGroups: [{ Name: 'group', Count: count, Tasks: [{ ...task, RestartPolicy: restart }] }],
  };
}

const SLEEP = { command: '/bin/sleep', args: ['1000'] };

async function runIdle(
  agent: RealAgent,
  id: string,
  count: number,
  config: object = SLEEP,
): Promise<readonly TaskView[]> {
  await agent.register(job(id, 'service', count, config, { Attempts: 0, Mode: 'fail' }));
  return await agent.untilTasks(id, 'all run', (tasks) => runningOf(tasks) === count);
}

function runningOf(tasks: readonly TaskView[]): number {
  return tasks.filter(({ state }) => state.State === 'running' && state.Holdfast.Pid !== null).length;
}

export async function purge(agent: RealAgent, id: string): Promise<void> {
  await agent.request('DELETE', `/v1/job/${id}?purge=true`);
  await agent.untilTasks(id, 'is gone', (tasks) => tasks.length === 0);
}

function readPssKib(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss:\s+(\d+) kB$/m.exec(text)?.[1]);
}

/** @param q 0.5 = median. Nearest rank. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}

export function makeDir(parent: string, name: string): string {
  const dir = join(parent, name);
  mkdirSync(dir);
  return dir;
}
