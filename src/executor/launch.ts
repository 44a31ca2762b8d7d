/**
 * Owns the start of one run: run directory, cgroup leaf, executor. All of it may be set up while the intent is being stored,
 * behind a gate that is opened afterwards. On failure nothing is left behind; when it is not clear what happened, it says so
 * and leaves everything in place for resolve.ts.
 */
import { isAbsolute } from 'node:path';
import type { Clock } from '../base/clock.js';
import { AgentError, describeError, errnoOf } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import type { MakeDir } from '../base/spare-dirs.js';
import { joinFilesOf, removeLeaf, type CgroupLeaf } from './cgroup-leaf.js';
import type { CgroupLimits, LimitName } from './cgroup-limits.js';
import type { Cgroups, CreatedLeaf, PlannedLeaf } from './cgroups.js';
import type { ExecutorStatus, StartFailedRecord } from './exit-record.js';
import { EXECUTOR_EXIT, runForeground } from './foreground.js';
import type { HeldStart, Launcher } from './launcher.js';
import { encodeSpec, type ExecutorSpec } from './protocol.js';
import { readExitFile, readStatusFile, removeRunDir, makeRunDir, writeSpec } from './run-dir.js';

export interface LaunchDeps {
  readonly clock: Clock;
  /** How run directories are made. */
  readonly makeDir: MakeDir;
  readonly bootId: string;
  readonly executorPath: string;
  readonly cgroups: Pick<Cgroups, 'planLeaf' | 'createLeaf' | 'executorProcs'>;
  readonly launcher?: Launcher | undefined;
}

export interface LaunchRequest {
  readonly runDir: string;
  readonly leafName: string;
  readonly limits: CgroupLimits;
  /** Limits that were asked for: when one cannot be had, the run does not start. */
  readonly demanded: readonly LimitName[];
  /** The cgroup fields are filled in here. */
  readonly spec: Omit<
    ExecutorSpec,
    'bootId' | 'cgroup' | 'joinProcs' | 'selfProcs' | 'memoryEvents' | 'memoryPeak' | 'memoryHits'
  >;
}

export type LaunchOutcome =
  | {
      readonly kind: 'started';
      readonly status: ExecutorStatus;
      readonly leaf: CgroupLeaf | undefined;
      /** Limits that are not in force, and why. */
      readonly notes: readonly string[];
    }
  /** The workload's exec did not happen; nothing is left behind. */
  | { readonly kind: 'start_failed'; readonly record: StartFailedRecord }
  /** It may or may not run: ask `resolveRun`. Everything is still in place. */
  | { readonly kind: 'unclear'; readonly detail: string; readonly leaf: CgroupLeaf | undefined };

/** A start takes milliseconds; a disk that hangs may make it seconds. */
const LAUNCH_WITHIN_MS = 30_000;

/** A run of which everything is there, mostly its executor too, but the task. One of the two is called, once. */
export interface PreparedRun {
  /** The launcher holds it, and takes it along when it dies; then nothing has run. */
  readonly isHeld: boolean;
  /** Starts the task. The intent is durable before this is called. Never rejects. */
  launch(): Promise<LaunchOutcome>;
  /** Removes all of it; nothing has run. What cannot be removed now is left to the next sweep. */
  giveUp(): Promise<void>;
}

/**
 * Sets up one run. The intent may still be on its way to the store: until `launch` nothing of the task runs, and when this
 * agent dies first the executor leaves by itself, and the sweep removes what is there.
 * @throws AgentError executor_failed, start_failed; nothing is left behind then
 */
export async function prepareRun(deps: LaunchDeps, request: LaunchRequest): Promise<PreparedRun> {
  if (!isAbsolute(request.spec.path) && (request.spec.isolation?.search.length ?? 0) === 0)
    throw new AgentError('start_failed', `the path of a program must be absolute: ${request.spec.path}`);
  const { runId } = request.spec;
  unstored.add(runId);
  const { created, held } = await prepare(deps, request).catch((cause: unknown) => {
    unstored.delete(runId);
    throw cause;
  });
  return {
    isHeld: held !== undefined,
    launch: () => {
      unstored.delete(runId);
      // From here on it may run: a fault of ours must not look like a start that failed.
      return startTask(deps, request, { created, held }).catch((error: unknown): LaunchOutcome => ({
        kind: 'unclear',
        detail: describeError(error),
        leaf: created?.leaf,
      }));
    },
    giveUp: async () => {
      const end = await held?.drop(LAUNCH_WITHIN_MS);
      // What cannot be removed now is somebody's to find.
      unstored.delete(runId);
      if (end?.kind !== 'unclear') await cleanUp(deps, request, created);
    },
  };
}

/** Runs that are set up, and of which the store may not know yet. */
const unstored = new Set<string>();

/** Whether this process is setting up the run: what is there of it is not left over. */
export function isBeingSetUp(runId: string): boolean {
  return unstored.has(runId);
}

interface Prepared {
  readonly created: CreatedLeaf | undefined;
  readonly held: HeldStart | undefined;
}

async function startTask(
  deps: LaunchDeps,
  request: LaunchRequest,
  { created, held }: Prepared,
): Promise<LaunchOutcome> {
  const end =
    held === undefined
      ? await runForeground({
          clock: deps.clock,
          executorPath: deps.executorPath,
          launcher: deps.launcher,
          command: 'run',
          runDir: request.runDir,
          withinMs: LAUNCH_WITHIN_MS,
        })
      : await held.go(LAUNCH_WITHIN_MS);
  failpoint('run.after_spawn');
  if (end.kind === 'unclear') return { kind: 'unclear', detail: end.detail, leaf: created?.leaf };
  switch (end.code) {
    case EXECUTOR_EXIT.ok: {
      const status = readStatusFile(request.runDir);
      if (status.kind !== 'ok')
        return { kind: 'unclear', detail: 'it is said to run, but has no status', leaf: created?.leaf };
      return {
        kind: 'started',
        status: status.value,
        leaf: created?.leaf,
        notes: notesOn(created, request.limits),
      };
    }
    case EXECUTOR_EXIT.startFailed: {
      const record = readExitFile(request.runDir, request.spec.runId);
      if (record.kind !== 'ok' || record.value.kind !== 'start_failed')
        return { kind: 'unclear', detail: 'its start failed and left no record', leaf: created?.leaf };
      await cleanUp(deps, request, created);
      return { kind: 'start_failed', record: record.value };
    }
    default:
      // Also when it says that it could not be set up: it says the same when the executor was killed after it had let the
      // workload run. Only what is found on the disk and among the processes tells these apart.
      return {
        kind: 'unclear',
        detail: end.said === '' ? `the executor ended with ${end.code}` : end.said,
        leaf: created?.leaf,
      };
  }
}

/** Run directory, spec, cgroup leaf: all of them or none. The executor sets itself up while the leaf is made. */
async function prepare(deps: LaunchDeps, request: LaunchRequest): Promise<Prepared> {
  try {
    makeRunDir(deps.makeDir, request.runDir);
    failpoint('run.after_dir');
  } catch (cause) {
    if (errnoOf(cause) === 'EEXIST') {
      throw new AgentError('already_running', `run ${request.spec.runId} was started, or given up, before`);
    }
    throw notPrepared(cause);
  }
  let held: HeldStart | undefined;
  try {
    // First the spec, which names the leaf: whoever finds the run directory after a crash knows what to remove.
    const spec = completeSpec(deps, request, deps.cgroups.planLeaf(request.leafName, request.limits));
    writeSpec(request.runDir, encodeSpec(spec));
    failpoint('run.after_spec');
    held = deps.launcher?.hold(request.runDir);
    const created = deps.cgroups.createLeaf(request.leafName, request.limits);
    const fault = demandFault(request.demanded, created);
    if (fault !== undefined) {
      if (created !== undefined) await removeLeaf(deps.clock, created.leaf);
      throw fault;
    }
    failpoint('run.before_spawn');
    held?.made();
    return { created, held };
  } catch (cause) {
    const end = await held?.drop(LAUNCH_WITHIN_MS);
    if (end?.kind !== 'unclear') await removeRunDir(request.runDir);
    throw cause instanceof AgentError ? cause : notPrepared(cause);
  }
}

/** What of the limits is not in force, for people. */
function notesOn(created: CreatedLeaf | undefined, limits: CgroupLimits): string[] {
  if (created !== undefined) return created.unmet.map(({ why }) => why);
  const asked = [
    ...(limits.memoryMaxBytes === undefined ? [] : ['memory']),
    ...(typeof limits.swapMax === 'number' ? ['swap'] : []),
    ...(limits.cpuQuotaPercent === undefined ? [] : ['CPU time']),
    ...(limits.pidsMax === undefined ? [] : ['the number of processes']),
    ...(limits.ioWeight === undefined ? [] : ['the share of the disks']),
    ...(limits.ioReadBps === undefined ? [] : ['reading from disks']),
    ...(limits.ioWriteBps === undefined ? [] : ['writing to disks']),
  ];
  return asked.length === 0 ? [] : [`${asked.join(', ')}: this host lets the agent have no cgroup`];
}

/** The error for a limit that was asked for and cannot be had. */
function demandFault(
  demanded: readonly LimitName[],
  created: CreatedLeaf | undefined,
): AgentError | undefined {
  const cure = '"holdfast node status" says what this host can limit, and how to get it';
  if (created === undefined && demanded.length > 0)
    return new AgentError(
      'start_failed',
      `cannot limit ${demanded.join(', ')}: no cgroup can be had; ${cure}`,
    );
  const unmet =
    created?.unmet.filter(({ limit, isNote }) => isNote !== true && demanded.includes(limit)) ?? [];
  return unmet.length === 0
    ? undefined
    : new AgentError('start_failed', `${unmet.map(({ why }) => why).join('; ')}; ${cure}`, {
        recoverable: unmet.every(({ isPassing }) => isPassing === true),
      });
}

function notPrepared(cause: unknown): AgentError {
  const recoverable = errnoOf(cause) !== 'EACCES';
  return new AgentError('executor_failed', `cannot make the run directory: ${describeError(cause)}`, {
    recoverable,
    cause,
  });
}

async function cleanUp(
  deps: LaunchDeps,
  request: LaunchRequest,
  created: CreatedLeaf | undefined,
): Promise<void> {
  if (created !== undefined) await removeLeaf(deps.clock, created.leaf);
  await removeRunDir(request.runDir);
}

function completeSpec(
  deps: LaunchDeps,
  request: LaunchRequest,
  planned: PlannedLeaf | undefined,
): ExecutorSpec {
  return {
    ...request.spec,
    bootId: deps.bootId,
    cgroup: planned?.leaf.unified,
    joinProcs: joinFilesOf(planned?.leaf),
    selfProcs: deps.cgroups.executorProcs,
    memoryEvents: planned?.memoryEvents,
    memoryPeak: planned?.memoryPeak,
    memoryHits: planned?.memoryHits,
  };
}
