/**
 * Owns what the doctor looks for. Each check looks and changes nothing; a finding that can be cured from here brings
 * its cure along, which looks again before it acts. Nothing that may belong to another data directory has one.
 */
import { lstatSync } from 'node:fs';
import { readdir, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Finding } from '../api/operations.js';
import { isAnswered } from '../api/unix-socket.js';
import { sleep, type Clock } from '../base/clock.js';
import { errnoOf } from '../base/errors.js';
import { isAlive } from '../base/host.js';
import { isPopulated, removeLeaf } from '../executor/cgroup-leaf.js';
import { leafName } from '../executor/cgroups.js';
import {
  findMarkedProcesses,
  isStillMarked,
  type MarkedProcess,
  type MarkedProcesses,
} from '../executor/processes.js';
import { readStatusFile, runDirOf } from '../executor/run-dir.js';
import { isBeingSetUp } from '../executor/launch.js';
import { listRunDirs, mayBeAlive, sweepRunDir } from '../executor/sweep.js';
import { checkMounts } from './doctor-mounts.js';
import {
  doubtAbout,
  hasRunDir,
  isOpen,
  keepsLeftovers,
  openRuns,
  type DoctorDeps,
} from './doctor-questions.js';

/** A finding, and what cures it. */
export interface Diagnosis {
  readonly finding: Finding;
  /** Resolves to what went wrong; undefined = cured. Absent: a person has to decide. */
  readonly cure?: () => Promise<string | undefined>;
}

const KILL_WITHIN_MS = 5_000;
const ALLOC_DIR = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const LEAF = /^([0-9a-f]{8})\..*\.[0-9a-f]{8}$/;
const FIX = 'holdfast doctor --fix';
/** Less free than both is told: tasks' logs and the store share the disk. */
const LITTLE_SHARE = 0.05;
const LITTLE_BYTES = 2 ** 30;

/** Everything that is not as it should be at this moment; work in progress may look like it too. */
export async function examine(deps: DoctorDeps): Promise<readonly Diagnosis[]> {
  const marked = findMarkedProcesses(deps.executorPath);
  return [
    ...checkStore(deps),
    ...(await checkDisk(deps)),
    ...(await checkSockets(deps)),
    ...checkProcesses(deps, marked),
    // Before the directories that they are in.
    ...checkMounts(deps),
    ...(await checkRunDirs(deps, marked)),
    ...checkLeaves(deps),
    ...(await checkAllocDirs(deps)),
    ...checkExecutors(deps),
  ];
}

function checkStore({ store }: DoctorDeps): readonly Diagnosis[] {
  const found: Finding[] = [];
  const trouble = store.trouble();
  if (trouble !== undefined) {
    found.push({
      kind: 'kept_changes',
      subject: 'state.db',
      problem: `the disk refuses writes, ${trouble.keptChanges} changes wait in memory: ${trouble.error}`,
      advice: 'make room, or see to the disk; what waits is then written by itself',
    });
  }
  const rows = store.listQuarantined();
  const [first] = rows;
  if (first !== undefined) {
    found.push({
      kind: 'quarantine',
      subject: 'state.db',
      problem: `${rows.length} rows could not be read and were moved aside, as ${first.table} ${first.key}: ${first.error}`,
      advice: 'they are in the table quarantine, as JSON: look what they knew, then delete them there',
    });
  }
  return found.map((finding) => ({ finding }));
}

async function checkDisk({ dataDir }: DoctorDeps): Promise<readonly Diagnosis[]> {
  const { bsize, blocks, bavail, files, ffree } = await statfs(dataDir.path);
  const found: string[] = [];
  const freeBytes = bavail * bsize;
  if (bavail < blocks * LITTLE_SHARE && freeBytes < LITTLE_BYTES)
    found.push(`only ${Math.floor(freeBytes / 2 ** 20)} MiB are free`);
  if (files > 0 && ffree < files * LITTLE_SHARE) found.push(`only ${ffree} of ${files} inodes are free`);
  return found.map((problem) => ({
    finding: {
      kind: 'disk_space',
      subject: dataDir.path,
      problem,
      advice: 'make room; holdfast purge JOB removes a job with its logs',
    },
  }));
}

async function checkSockets({ dataDir, socket }: DoctorDeps): Promise<readonly Diagnosis[]> {
  const found: Diagnosis[] = [];
  if (lstatSync(socket, { throwIfNoEntry: false })?.isSocket() !== true) {
    found.push({
      finding: {
        kind: 'socket',
        subject: socket,
        problem: 'the socket of this agent is gone: nobody new finds it',
        advice: 'restart the agent; no task notices',
      },
    });
  }
  for (const entry of await readdir(dataDir.path, { withFileTypes: true })) {
    const path = join(dataDir.path, entry.name);
    if (!entry.isSocket() || path === socket || (await isAnswered(path))) continue;
    found.push({
      finding: { kind: 'socket', subject: path, problem: 'nobody listens on this socket', advice: FIX },
      cure: async () => {
        if (await isAnswered(path)) return 'somebody listens on it now';
        await rm(path, { force: true });
        return undefined;
      },
    });
  }
  return found;
}

function checkProcesses(deps: DoctorDeps, marked: MarkedProcesses): readonly Diagnosis[] {
  return marked.workload.flatMap((process): readonly Diagnosis[] => {
    const { runId, pid } = process;
    const run = deps.store.getRun(runId);
    if (isOpen(deps, run) || keepsLeftovers(deps, runId, run)) return [];
    const isOurs = hasRunDir(deps, runId);
    // Whoever's it is, it is looked after.
    if (!isOurs && run === undefined && marked.executorOf.has(runId)) return [];
    const told =
      run === undefined ? `run ${runId}, which this agent does not know` : `run ${runId}, which is over`;
    const finding = { kind: 'process', subject: `pid ${pid}`, problem: `it belongs to ${told}` } as const;
    if (!isOurs) {
      const advice = `nothing shows that it is ours; if it is no other agent's either: kill ${pid}`;
      return [{ finding: { ...finding, advice } }];
    }
    const doubt = doubtAbout(deps, runId);
    if (doubt !== undefined) return [{ finding: { ...finding, advice: doubt } }];
    return [
      {
        finding: { ...finding, advice: `${FIX} ends it with SIGKILL` },
        cure: () => killMarked(deps, process),
      },
    ];
  });
}

async function checkRunDirs(deps: DoctorDeps, marked: MarkedProcesses): Promise<readonly Diagnosis[]> {
  const found: Diagnosis[] = [];
  for (const { runId, runDir } of await listRunDirs(deps.dataDir.runDir)) {
    const run = deps.store.getRun(runId);
    if (isBeingSetUp(runId) || isOpen(deps, run)) continue;
    const problem = `run directory of a run that ${run === undefined ? 'is not known' : 'is over'}`;
    const finding = { kind: 'run_dir', subject: runDir, problem } as const;
    const doubt = doubtAbout(deps, runId);
    const isAliveNow = mayBeAlive(deps, runDir);
    // What still lives can be ended only if it carries the mark of the run.
    const isCurable = !isAliveNow || marked.workload.some((process) => process.runId === runId);
    if (doubt !== undefined || !isCurable) {
      const advice = doubt ?? `something of it is alive: ${join(runDir, 'status')} names the processes`;
      found.push({ finding: { ...finding, advice } });
      continue;
    }
    const cure = async (): Promise<string | undefined> => {
      if (isOpen(deps, deps.store.getRun(runId))) return 'it is in use';
      // Its executor needs a moment to write its record when the workload was ended just now.
      await within(deps.clock, () => !mayBeAlive(deps, runDir));
      return (await sweepRunDir(deps, runDir)) ? undefined : 'something of it is alive';
    };
    found.push({ finding: { ...finding, advice: FIX }, cure });
  }
  return found;
}

function checkLeaves(deps: DoctorDeps): readonly Diagnosis[] {
  const { store, cgroups, clock } = deps;
  if (cgroups.mode === 'none') return [];
  const allocs = store.listAllocs().map(({ record }) => record.id);
  const inUse = (): Set<string> => new Set(openRuns(deps).map(leafName));
  const expected = inUse();
  return cgroups.listLeaves().flatMap((name): readonly Diagnosis[] => {
    const prefix = LEAF.exec(name)?.[1];
    const leaf = cgroups.leafOf(name);
    // With something in it, it is told by its processes, or is another agent's.
    if (prefix === undefined || expected.has(name) || isPopulated(leaf)) return [];
    const subject = leaf.unified ?? leaf.v1[0] ?? name;
    const finding = { kind: 'cgroup', subject, problem: 'an empty cgroup that no run needs' } as const;
    if (!allocs.some((id) => id.startsWith(prefix))) {
      const advice = `nothing shows that it is ours; if it is no other agent's either: rmdir ${subject}`;
      return [{ finding: { ...finding, advice } }];
    }
    const cure = async (): Promise<string | undefined> => {
      if (inUse().has(name)) return 'it is in use';
      return (await removeLeaf(clock, leaf)) ? undefined : 'something is in it';
    };
    return [{ finding: { ...finding, advice: FIX }, cure }];
  });
}

async function checkAllocDirs(deps: DoctorDeps): Promise<readonly Diagnosis[]> {
  const { store, allocs, dataDir } = deps;
  const isKnown = (id: string): boolean => store.getAlloc(id) !== undefined || allocs.isLive(id);
  const names = await readdir(dataDir.allocDir);
  return names
    .filter((name) => !isKnown(name))
    .map((name): Diagnosis => {
      const subject = join(dataDir.allocDir, name);
      const finding = {
        kind: 'alloc_dir',
        subject,
        problem: 'no alloc of this agent has this directory',
      } as const;
      const doubt = ALLOC_DIR.test(name) ? doubtAbout(deps, name) : 'holdfast has not made it: look at it';
      if (doubt !== undefined) return { finding: { ...finding, advice: doubt } };
      return {
        finding: { ...finding, advice: `${FIX} removes it, with its logs` },
        cure: async () => {
          if (isKnown(name)) return 'it is in use';
          await dataDir.removeAlloc(name);
          return undefined;
        },
      };
    });
}

/** One finding for each other version: after an upgrade there may be thousands. */
function checkExecutors(deps: DoctorDeps): readonly Diagnosis[] {
  const counts = new Map<string, number>();
  for (const { runId } of openRuns(deps)) {
    const status = readStatusFile(runDirOf(deps.dataDir.runDir, runId));
    if (status.kind !== 'ok' || status.value.bootId !== deps.bootId) continue;
    const { version, executor } = status.value;
    if (version === undefined || version === deps.version || !isAlive(executor)) continue;
    counts.set(version, (counts.get(version) ?? 0) + 1);
  }
  return [...counts].map(([version, count]) => ({
    finding: {
      kind: 'executor_version',
      subject: `version ${version}`,
      problem: `${count === 1 ? '1 task runs' : `${count} tasks run`} under executors of version ${version}, this agent is ${deps.version}`,
      advice: 'that works; holdfast restart TARGET when a restart suits',
    },
  }));
}

async function killMarked(deps: DoctorDeps, marked: MarkedProcess): Promise<string | undefined> {
  const { runId, pid } = marked;
  if (isBeingSetUp(runId) || isOpen(deps, deps.store.getRun(runId)) || !hasRunDir(deps, runId))
    return 'it is not ours to end any more';
  if (!isStillMarked(marked)) return undefined;
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') return `it cannot be ended: ${errnoOf(error) ?? 'unknown error'}`;
  }
  return (await within(deps.clock, () => !isAlive(marked))) ? undefined : 'it is still there after SIGKILL';
}

async function within(clock: Clock, fact: () => boolean): Promise<boolean> {
  const deadlineMs = clock.monoMs() + KILL_WITHIN_MS;
  while (!fact()) {
    if (clock.monoMs() > deadlineMs) return false;
    await sleep(clock, 10);
  }
  return true;
}
