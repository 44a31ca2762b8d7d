/** Owns what the doctor asks before it calls a thing a leftover: is it in use, is it ours, can the store be relied upon. */
import { lstatSync } from 'node:fs';
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { Clock } from '../base/clock.js';
import { errnoOf } from '../base/errors.js';
import type { Cgroups } from '../executor/cgroups.js';
import { readSpecFile, runDirOf } from '../executor/run-dir.js';
import type { RunRecord, StateStore } from '../state/store.js';
import type { DataDir } from './data-dir.js';

export interface DoctorDeps {
  readonly clock: Clock;
  readonly bootId: string;
  readonly store: StateStore;
  readonly allocs: AllocTable;
  readonly dataDir: DataDir;
  readonly cgroups: Cgroups;
  readonly executorPath: string;
  /** Where the API is served. */
  readonly socket: string;
  /** The boot in which a run began, if the store knows it. */
  readonly bootOf: (runId: string) => string | undefined;
  /** Version of this agent. */
  readonly version: string;
}

/** True while the agent has the run in hand. */
export function isOpen({ allocs, store }: DoctorDeps, run: RunRecord | undefined): boolean {
  if (run === undefined) return false;
  if (run.outcome === undefined) return true;
  return allocs.isLive(run.allocId) && store.getTask(run.allocId, run.task)?.runId === run.runId;
}

/** Every run that a task has in hand. */
export function openRuns({ store }: DoctorDeps): readonly RunRecord[] {
  return store
    .listAllocs()
    .flatMap(({ record }) => store.listTasks(record.id))
    .flatMap(({ runId }) => (runId === undefined ? [] : (store.getRun(runId) ?? [])));
}

/** True when what outlives the task was asked to stay. */
export function keepsLeftovers(
  { store, dataDir }: DoctorDeps,
  runId: string,
  run: RunRecord | undefined,
): boolean {
  const spec = readSpecFile(runDirOf(dataDir.runDir, runId));
  if (spec.kind === 'ok') return spec.value.leftovers === 'keep';
  const alloc = run === undefined ? undefined : store.getAlloc(run.allocId)?.record;
  if (run === undefined || alloc === undefined) return false;
  const group = store
    .getJobVersion(alloc.jobId, alloc.jobVersion)
    ?.record.spec.groups.find(({ name }) => name === alloc.group);
  return group?.tasks.find(({ name }) => name === run.task)?.leftovers === 'keep';
}

/** True when the run has a directory below our data directory. */
export function hasRunDir({ dataDir }: DoctorDeps, runId: string): boolean {
  const runDir = runDirOf(dataDir.runDir, runId);
  try {
    return lstatSync(runDir).isDirectory();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Why the store cannot be relied upon in a question about this id; undefined = it can. */
export function doubtAbout({ store }: DoctorDeps, id: string): string | undefined {
  if (store.keptChanges() > 0)
    return 'not to be touched while the disk refuses writes: the store may not know of it yet';
  const isAside = store.listQuarantined().some(({ key, raw }) => key.includes(id) || raw.includes(id));
  return isAside ? 'a row about it is in quarantine: look there what it was' : undefined;
}
