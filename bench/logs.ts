/** Owns the measure of output: how fast a task can write its lines when somebody captures and rotates them. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../test/helpers/until.js';
import { batch, makeDir, purge, quantile, type Bench, type Row } from './measures.js';

/**
 * Lines of 100 bytes from one writer, captured and rotated. By turns, and the medians: what a disk does by itself is more than what is
 * measured here.
 */
export async function measureLogs(bench: Bench): Promise<readonly Row[]> {
  const { floor, sizes } = bench;
  const hasSupervisord = spawnSync('supervisord', ['--version']).status === 0;
  const tookMs: { own: number; shim: number; cat: number; supervisord: number }[] = [];
  for (let round = 0; round < sizes.logRounds; round += 1) {
    tookMs.push({
      own: await afterSync(() => captureLines(bench, `logs-${round}`)),
      shim: await afterSync(() => floor.measureShimLines(sizes.logBytes)),
      cat: await afterSync(() => catLines(bench)),
      supervisord: hasSupervisord ? await afterSync(() => superviseLines(bench)) : Number.NaN,
    });
  }
  const megabytes = sizes.logBytes / 1e6;
  const rate = (which: 'own' | 'shim' | 'cat' | 'supervisord'): number =>
    megabytes /
    (quantile(
      tookMs.map((round) => round[which]),
      0.5,
    ) /
      1e3);
  const floors = [
    ['a shim in C, spliced, not rotated', rate('shim')],
    ['cat > file, not rotated', rate('cat')],
    ...(hasSupervisord ? [['supervisord, rotated', rate('supervisord')] as const] : []),
  ] as const;
  return floors.map(([against, of]) => ({
    what: `${megabytes} MB of log lines`,
    holdfast: rate('own'),
    floor: of,
    unit: 'MB/s',
    against,
    isRate: true,
  }));
}

/** What was written before is not to be paid for by whoever comes next. */
async function afterSync(measure: () => number | Promise<number>): Promise<number> {
  execFileSync('sync');
  return await measure();
}

/** Milliseconds that a task takes to write its lines, as its record has it. */
async function captureLines({ agent, floor, sizes }: Bench, id: string): Promise<number> {
  await agent.register(batch(id, floor.program, ['lines', String(sizes.logBytes)]));
  const [view] = await agent.untilTasks(id, 'is over', (tasks) =>
    tasks.some(({ state }) => state.State === 'dead'),
  );
  const [run] = await agent.runs(view?.allocId ?? '', 'task');
  if (run?.LogComplete !== true || run.RanFor === null)
    throw new Error(`log not complete: ${JSON.stringify(run)}`);
  await purge(agent, id);
  return run.RanFor / 1e6;
}

/** The same by supervisord, where it is installed. */
async function superviseLines({ floor, sizes, dir }: Bench): Promise<number> {
  const own = makeDir(dir, 'supervisord');
  const stamps = join(own, 'stamps');
  const conf = join(own, 'supervisord.conf');
  const script = `date +%%s%%N >> ${stamps}; ${floor.program} lines ${sizes.logBytes}; date +%%s%%N >> ${stamps}`;
  writeFileSync(
    conf,
    `[supervisord]\nnodaemon=true\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile=${own}/pid\n` +
      `[program:lines]\ncommand=/bin/sh -c "${script}"\nautorestart=false\nstartsecs=0\n` +
      `stdout_logfile=${own}/out\nstdout_logfile_maxbytes=16000000\nstdout_logfile_backups=10\n`,
  );
  const supervisord = spawn('supervisord', ['-n', '-c', conf], { stdio: 'ignore' });
  const left = once(supervisord, 'exit');
  const readNs = (): number[] =>
    existsSync(stamps) ? readFileSync(stamps, 'utf8').trim().split('\n').map(Number) : [];
  const [fromNs = 0, toNs = 0] = await until('all is written', () =>
    readNs().length > 1 ? readNs() : undefined,
  );
  supervisord.kill('SIGTERM');
  await left;
  rmSync(own, { recursive: true });
  return (toNs - fromNs) / 1e6;
}

function catLines({ floor, sizes, dir }: Bench): number {
  const file = join(dir, 'cat');
  const fromMs = performance.now();
  spawnSync('/bin/sh', ['-c', `${floor.program} lines ${sizes.logBytes} | cat > ${file}`]);
  const tookMs = performance.now() - fromMs;
  rmSync(file);
  return tookMs;
}
