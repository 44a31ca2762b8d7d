/** Owns the measures of a task's life beside its plain start: many at once, shut in, stopped, on record. */
import { join } from 'node:path';
import { encodeFrame, FRAME } from '../src/executor/protocol.js';
import { EXECUTOR, Run } from '../test/native/harness.js';
import { spread } from '../src/base/spare-dirs.js';
import { readLoadKib } from '../test/helpers/elf.js';
import { until } from '../test/helpers/until.js';
import { readEnd, readStarts } from './floor.js';
import { FORK, job, makeDir, purge, quantile, SHIM, type Bench, type Row } from './measures.js';

const NO_RESTART = { Attempts: 0, Mode: 'fail' };

/** One API call for many tasks that stay → the first instruction of the last of them. */
export async function measureBurst({ agent, floor, sizes, dir }: Bench): Promise<readonly Row[]> {
  const tookMs: number[] = [];
  const forkMs: number[] = [];
  const shimMs: number[] = [];
  for (let round = 0; round < sizes.rounds; round += 1) {
    const stamps = join(dir, `burst-${round}`);
    const config = { command: floor.program, args: ['wait', stamps] };
    const fromNs = process.hrtime.bigint();
    await agent.register(job('burst', 'service', sizes.burst, config, NO_RESTART));
    const starts = await until(
      'all have started',
      () => {
        const seen = readStarts(stamps);
        return seen.length >= sizes.burst ? seen : undefined;
      },
      { timeoutMs: 60_000 },
    );
    const lastNs = starts.reduce((last, ns) => (ns > last ? ns : last), 0n);
    tookMs.push(Number(lastNs - fromNs) / 1e6);
    await purge(agent, 'burst');
    forkMs.push(floor.measureBurst(sizes.burst));
    shimMs.push(floor.measureShimBurst(sizes.burst));
  }
  const floors = [
    [FORK, forkMs],
    [SHIM, shimMs],
  ] as const;
  return floors.map(([against, floorMs]) => ({
    what: `${sizes.burst} tasks at once`,
    holdfast: quantile(tookMs, 0.5),
    floor: quantile(floorMs, 0.5),
    unit: 'ms',
    against,
    isRate: false,
  }));
}

/** API call → first act of a workload with namespaces and a root of its own. */
export async function measureExecStart({ agent, floor, sizes }: Bench): Promise<readonly Row[]> {
  // Shut in without the limits that it asks for, a task does not start.
  if (process.getuid?.() !== 0) return [];
  const tookMs: number[] = [];
  for (let number = 0; number < sizes.stops; number += 1) {
    const id = `exec-${number}`;
    const fromMs = performance.timeOrigin + performance.now();
    await agent.register(job(id, 'batch', 1, { command: '/bin/date', args: ['+%s%N'] }, NO_RESTART, 'exec'));
    const [view] = await agent.untilTasks(id, 'is over', (tasks) =>
      tasks.some(({ state }) => state.State === 'dead'),
    );
    tookMs.push(Number(agent.output(view?.allocId ?? '', 'task').trim()) / 1e6 - fromMs);
    await purge(agent, id);
  }
  if (tookMs.some((ms) => !(ms > 0))) throw new Error(`not all of them ran: ${tookMs.join(', ')}`);
  return [
    {
      what: 'start of exec, p50',
      holdfast: quantile(tookMs, 0.5),
      floor: quantile(floor.measureDates(sizes.stops), 0.5),
      unit: 'ms',
      against: 'fsync + fork + exec of date in C',
      isRate: false,
    },
  ];
}

/** API call that stops a task → the last act of a task that ends at once. */
export async function measureStop({ agent, floor, sizes, dir }: Bench): Promise<readonly Row[]> {
  const tookMs: number[] = [];
  for (let number = 0; number < sizes.stops; number += 1) {
    const id = `stop-${number}`;
    const stamps = join(dir, id);
    const config = { command: floor.program, args: ['wait', stamps] };
    await agent.register(job(id, 'service', 1, config, NO_RESTART));
    await agent.untilTasks(id, 'runs', (tasks) =>
      tasks.some(({ state }) => state.State === 'running' && state.Holdfast.Pid !== null),
    );
    await until('it waits', () => readStarts(stamps).length > 0);
    const fromNs = process.hrtime.bigint();
    await agent.request('DELETE', `/v1/job/${id}?purge=true`);
    const endNs = await until('it has ended', () => readEnd(stamps));
    tookMs.push(Number(endNs - fromNs) / 1e6);
    await agent.untilTasks(id, 'is gone', (tasks) => tasks.length === 0);
  }
  return [
    {
      what: 'stop asked → gone, p50',
      holdfast: quantile(tookMs, 0.5),
      floor: quantile(floor.measureStops(sizes.stops), 0.5),
      unit: 'ms',
      against: 'kill + wait in C',
      isRate: false,
    },
  ];
}

/** Last act of a task → its record is durable, and whoever waits has been told. */
export async function measureRecord({ floor, sizes, dir }: Bench): Promise<readonly Row[]> {
  const tookMs: number[] = [];
  // As the agent's own.
  const runs = makeDir(dir, 'runs');
  await spread(runs);
  for (let number = 0; number < sizes.records; number += 1) {
    const stamps = join(dir, `record-${number}`);
    await using run = await new Run(
      { argv: [floor.program, 'crash', stamps], path: floor.program, gate: true },
      runs,
    ).started();
    const asked = [FRAME.go, FRAME.wait].map((type, place) =>
      encodeFrame({ type, request: place + 1, fields: [] }),
    );
    const toldNs = await floor.lastAnswerNs(run.dir, asked);
    tookMs.push(Number(toldNs - (readEnd(stamps) ?? 0n)) / 1e6);
  }
  const floorMs = floor.measureRecords(sizes.records);
  const row = { unit: 'ms', against: 'wait + durable file in C', isRate: false };
  return [
    { what: 'exit → on record, p50', holdfast: quantile(tookMs, 0.5), floor: quantile(floorMs, 0.5), ...row },
    {
      what: 'exit → on record, p99',
      holdfast: quantile(tookMs, 0.99),
      floor: quantile(floorMs, 0.99),
      ...row,
    },
  ];
}

/** What a program file has to be loaded. */
export function measureSize({ floor }: Bench): Promise<readonly Row[]> {
  return Promise.resolve([
    {
      what: 'executor, text + data',
      holdfast: readLoadKib(EXECUTOR),
      floor: readLoadKib(floor.dynamic),
      unit: 'KiB',
      against: 'the floor program, linked dynamically',
      isRate: false,
    },
  ]);
}
