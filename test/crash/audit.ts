/** Owns the invariants: compares what the agent says with what the workloads wrote down. Each fault is one line. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Run } from '../../src/api/wire.js';
import { until } from '../helpers/until.js';
import { BUDGET, readEvidence, type Evidence, type Workload } from './workloads.js';
import { pause, type CrashWorld } from './world.js';

const SETTLE_MS = 60_000;

/** Waits until nothing is in doubt any more, then checks everything. Then purges, and looks for what is left. */
export async function audit(world: CrashWorld): Promise<readonly string[]> {
  const faults: string[] = [...world.faults];
  await settle(world).catch((error: unknown) => faults.push(String(error)));
  // What had started before we ask must be known; what is known to have ended must have been written down by then.
  const before = new Map(world.workloads.map(({ id }) => [id, readEvidence(world.home, id)]));
  await world.look();
  for (const workload of world.workloads) {
    const evidence = readEvidence(world.home, workload.id);
    const starts = before.get(workload.id)?.starts ?? evidence.starts;
    for (const runId of starts.keys())
      if (!world.runs.has(runId) && !world.purged.has(workload.id))
        faults.push(`${workload.id}: run ${runId} is not in the history`);
    faults.push(...checkRuns(world, workload, evidence));
    if (workload.kind === 'budget') faults.push(...checkBudget(world, workload));
  }
  faults.push(...checkLogs(world), ...(await checkWishes(world)));
  faults.push(...(await purgeAll(world)));
  await caughtUp(world);
  faults.push(...checkRestarts(world), ...world.feed.faults);
  return faults;
}

/**
 * Every end that was written down by now is stored, and no task is on its way anywhere for long. Tasks that end again and
 * again go on doing so: what a look over a busy machine finds is older than what they have written meanwhile.
 */
async function settle(world: CrashWorld): Promise<void> {
  const unsettled = new Set(world.workloads.map(({ id }) => id));
  const owed = new Set(world.workloads.flatMap(({ id }) => [...readEvidence(world.home, id).exits.keys()]));
  await until(
    'every task is where it can stay, and every end is known',
    async () => {
      await world.look();
      for (const { job, state } of await world.agent.tasks()) {
        const { Phase, PhaseDetail } = state.Holdfast;
        const restful = ['running', 'backoff', 'dead', 'complete'].includes(Phase);
        if (restful && !PhaseDetail.includes('cannot be reached')) unsettled.delete(job);
      }
      for (const id of unsettled) if (!world.allocs().some(({ JobID }) => JobID === id)) unsettled.delete(id);
      const open = new Set(openEnds(world));
      for (const runId of owed) if (!open.has(runId)) owed.delete(runId);
      return unsettled.size === 0 && owed.size === 0;
    },
    {
      timeoutMs: SETTLE_MS,
      everyMs: 200,
      lastSeen: () => ({ unsettled: [...unsettled], open: [...owed].map((id) => world.runs.get(id)) }),
    },
  );
}

/** Runs that wrote down their exit, and are not known to have ended. */
function openEnds(world: CrashWorld): readonly string[] {
  const remembered = new Set(world.allocs().map(({ ID }) => ID));
  return world.workloads.flatMap(({ id }) =>
    [...readEvidence(world.home, id).exits.keys()].filter((runId) => {
      const run = world.runs.get(runId);
      return run?.Outcome === 'open' && remembered.has(run.AllocID);
    }),
  );
}

function checkRuns(world: CrashWorld, workload: Workload, evidence: Evidence): readonly string[] {
  const faults = evidence.copies.map((runId) => `${workload.id}: run ${runId} found another copy alive`);
  for (const [runId, times] of evidence.starts) {
    if (times > 1) faults.push(`${workload.id}: run ${runId} was started ${times} times`);
  }
  for (const run of world.runs.values()) {
    if (run.job !== workload.id) continue;
    const fault = checkRun(world, workload, evidence, run);
    if (fault !== undefined) faults.push(`${workload.id}: run ${run.RunID}: ${fault}`);
  }
  return faults;
}

function checkRun(world: CrashWorld, workload: Workload, evidence: Evidence, run: Run): string | undefined {
  const started = evidence.starts.has(run.RunID);
  const code = evidence.exits.get(run.RunID);
  if (run.Outcome === 'start_failed' || run.Outcome === 'never_started')
    return started ? `is said to be ${run.Outcome} (${run.Error}), and it ran` : undefined;
  if (run.Exit === null) return undefined;
  switch (run.Exit.Kind) {
    case 'exited':
      return run.Exit.Code === code
        ? undefined
        : `is said to have ${run.Exit.Text}, and chose ${code ?? 'nothing'}`;
    case 'signaled':
      return workload.kind === 'budget' ? `is said to be ${run.Exit.Text}, and nobody did that` : undefined;
    case 'unknown':
      return world.mayBeUnknown(run.RunID)
        ? undefined
        : `its end is unknown (${run.Exit.Text}), and nobody killed its executor`;
  }
}

/** Exactly as many attempts as the policy allows, whatever died in between. */
function checkBudget(world: CrashWorld, workload: Workload): readonly string[] {
  return world
    .allocs()
    .filter(({ JobID }) => JobID === workload.id)
    .flatMap((alloc) => {
      const runs = [...world.runs.values()].filter(({ AllocID }) => AllocID === alloc.ID);
      const counted = runs.filter(({ Outcome }) => Outcome === 'ended' || Outcome === 'start_failed').length;
      const over = alloc.ClientStatus === 'failed' && alloc.DesiredStatus === 'run';
      const wrong = counted > BUDGET + 1 || (over && counted !== BUDGET + 1);
      return wrong ? [`${workload.id}: alloc ${alloc.ID} had ${counted} attempts of ${BUDGET + 1}`] : [];
    });
}

// ---- logs --------------------------------------------------------------------------------------------------------

/** Lines of each run whole, in order, without a gap; complete to the end unless it is said that they may not be. */
function checkLogs(world: CrashWorld): readonly string[] {
  return world.allocs().flatMap(({ ID, JobID }) => {
    const workload = world.workloads.find(({ id }) => id === JobID);
    const dir = join(world.agent.dataDir, 'alloc', ID, 'alloc', 'logs');
    if (workload === undefined || !existsSync(dir)) return [];
    const exits = readEvidence(world.home, JobID).exits;
    return checkText(world.agent.output(ID, 't'), isRotated(dir)).flatMap((fault) =>
      typeof fault === 'string' ? [`${JobID}/${ID}: ${fault}`] : checkTail(world, workload, exits, fault),
    );
  });
}

function isRotated(dir: string): boolean {
  return !readdirSync(dir).includes('t.stdout.0');
}

interface Tail {
  readonly runId: string;
  readonly last: number;
}

function checkText(text: string, rotated: boolean): readonly (string | Tail)[] {
  const found: (string | Tail)[] = [];
  const last = new Map<string, number>();
  const lines = text.split('\n');
  const rest = lines.pop();
  lines.forEach((line, at) => {
    const [runId = '', number = ''] = line.split(' ');
    const before = last.get(runId) ?? (rotated && at === 0 ? Number(number) - 1 : 0);
    if (Number(number) !== before + 1)
      found.push(`line ${at + 1} is ${JSON.stringify(line.slice(0, 80))}, and ${before} came before`);
    last.set(runId, Number(number));
  });
  if (rest !== '' && rest !== undefined && last.size > 0 && !rest.startsWith([...last.keys()].at(-1) ?? ''))
    found.push(`it ends in the middle of a line: ${JSON.stringify(rest.slice(0, 80))}`);
  for (const [runId, number] of last) found.push({ runId, last: number });
  return found;
}

function checkTail(
  world: CrashWorld,
  workload: Workload,
  exits: ReadonlyMap<string, number>,
  { runId, last }: Tail,
): readonly string[] {
  const run = world.runs.get(runId);
  if (run?.LogComplete === false && !world.mayBeUnknown(runId))
    return [
      `${workload.id}: the output of ${runId} is said to be incomplete, and nobody killed its executor`,
    ];
  const whole = run?.LogComplete === true && exits.get(runId) === workload.code;
  if (!whole || last === workload.lines) return [];
  return [
    `${workload.id}: the output of ${runId} is said to be complete, and has ${last} of ${workload.lines} lines`,
  ];
}

// ---- promises ----------------------------------------------------------------------------------------------------

async function checkWishes(world: CrashWorld): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const [id, wish] of world.wishes) {
    if (wish.stopped === undefined) continue;
    const answer = await world.agent.request('GET', `/v1/job/${id}`);
    const stopped = answer.status === 404 || (JSON.parse(answer.text) as { readonly Stop: boolean }).Stop;
    if (stopped !== wish.stopped)
      faults.push(`${id}: it was said to be ${wish.stopped ? 'stopped' : 'registered'}`);
  }
  return faults;
}

function checkRestarts(world: CrashWorld): readonly string[] {
  return [...world.restartsPromised].flatMap(([allocId, promised]) => {
    const events = world.feed.stories.get(allocId)?.events ?? [];
    const told = events.filter(({ Type }) => Type === 'Restart Signaled').length;
    return told < promised ? [`alloc ${allocId}: ${promised} restarts were promised, ${told} were made`] : [];
  });
}

/** Everything is purged by now: when the reader hears nothing more, it has heard all. */
async function caughtUp(world: CrashWorld): Promise<void> {
  let before: number;
  do {
    before = world.feed.index;
    await pause(500);
  } while (world.feed.index !== before);
}

// ---- what is left ------------------------------------------------------------------------------------------------

async function purgeAll(world: CrashWorld): Promise<readonly string[]> {
  for (const { id } of world.workloads) await world.agent.request('DELETE', `/v1/job/${id}?purge=true`);
  let left: readonly string[] = [];
  try {
    await until(
      'nothing is left after the purge',
      async () => {
        const jobs = (await world.agent.get('/v1/jobs')) as readonly { readonly ID: string }[];
        left = [...jobs.map(({ ID }) => `job ${ID}`), ...leftovers(world)];
        return left.length === 0;
      },
      { timeoutMs: SETTLE_MS, everyMs: 100 },
    );
    return [];
  } catch {
    return left.map((what) => `left after the purge: ${what}`);
  }
}

function leftovers(world: CrashWorld): readonly string[] {
  const { agent } = world;
  return [
    ...world.runDirs().map((runId) => `run directory ${runId}`),
    ...readdirSync(join(agent.dataDir, 'alloc')).map((id) => `alloc directory ${id}`),
    ...processesOf(world).map((process) => `process ${process}`),
    ...cgroupsOf(agent.cgroupRoot).map((dir) => `cgroup ${dir}`),
  ];
}

/** Whatever bears our directory in its environment or command line, but for the agent and this tool. */
function processesOf(world: CrashWorld): readonly string[] {
  const mine = new Set([String(process.pid), String(world.agent.pid)]);
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || mine.has(pid)) return false;
    const text = readOr(`/proc/${pid}/environ`) + readOr(`/proc/${pid}/cmdline`);
    const isExecutor =
      text.startsWith('holdfast-executor: ') && [...world.runs.keys()].some((id) => text.includes(id));
    return isExecutor || (text.includes('HOLDFAST_RUN_ID=') && text.includes(world.agent.dir));
  });
}

function cgroupsOf(root: string): readonly string[] {
  return readOr('/proc/self/mountinfo')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => join(line.split(' ')[4] ?? '', root))
    .filter((dir) => existsSync(dir))
    .flatMap((dir) =>
      readdirSync(dir, { withFileTypes: true })
        .filter((entry) => entry.isDirectory() && entry.name !== 'executors')
        .map((entry) => join(dir, entry.name)),
    );
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
