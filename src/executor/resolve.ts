/**
 * Owns the carrying out of a verdict: looks again while things settle, takes over a workload whose executor died,
 * kills what a dead run left. Gives the caller one of five answers; decides nothing that recover.ts has not decided.
 */
import { sleep, type Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import { isAlive, type ProcessRef } from '../base/host.js';
import type { ExitReport, UnknownExitReason } from '../events/exit-result.js';
import { killLeaf, type CgroupLeaf } from './cgroup-leaf.js';
import type { ExecutorClient } from './client.js';
import type { ExecutorStatus, StartFailedRecord } from './exit-record.js';
import { gatherFacts, type Gathered, type KnownRun } from './facts.js';
import { EXECUTOR_EXIT, runForeground } from './foreground.js';
import type { Launcher } from './launcher.js';
import { findProcessesOfRun } from './processes.js';
import { decideVerdict, type Verdict } from './recover.js';

export interface ResolveDeps {
  readonly clock: Clock;
  /** Of this boot. */
  readonly bootId: string;
  readonly executorPath: string;
  /** How long things may take to settle before a run is called unreachable; for tests. */
  readonly settleWithinMs?: number;
  readonly launcher?: Launcher | undefined;
}

/** What became of a run. `leaf` is what is to be removed once its end is stored. */
export type Resolved =
  | {
      readonly kind: 'running';
      /** Passes to the caller. */
      readonly client: ExecutorClient;
      readonly status: ExecutorStatus | undefined;
      /** True when its executor had died and another one has just taken over. */
      readonly tookOver: boolean;
      readonly leaf: CgroupLeaf | undefined;
    }
  | { readonly kind: 'ended'; readonly report: ExitReport; readonly leaf: CgroupLeaf | undefined }
  | {
      readonly kind: 'start_failed';
      readonly record: StartFailedRecord;
      readonly leaf: CgroupLeaf | undefined;
    }
  | { readonly kind: 'never_started'; readonly detail: string; readonly leaf: CgroupLeaf | undefined }
  | { readonly kind: 'unreachable'; readonly detail: string };

const SETTLE_WITHIN_MS = 3_000;
const SETTLE_EVERY_MS = 50;
/** An executor that has just left, or is about to listen, is clear by then. */
const WAKE_AT_LOOK = 3;
const WAKE_WITHIN_MS = 2_000;
/** How long the remains of a run may take to die; a process in the kernel's hands can take for ever. */
const KILL_WITHIN_MS = 5_000;
const ADOPT_WITHIN_MS = 10_000;

/** Finds out what became of a run. Idempotent; never starts anything but an executor that takes over. */
export async function resolveRun(deps: ResolveDeps, run: KnownRun): Promise<Resolved> {
  const deadlineMs = deps.clock.monoMs() + (deps.settleWithinMs ?? SETTLE_WITHIN_MS);
  let tookOver = false;
  let seenUnclaimed = false;
  let looks = 0;
  for (;;) {
    const gathered = await gatherFacts(deps, run).catch(describeError);
    // What could not be looked at may be running.
    if (typeof gathered === 'string') return { kind: 'unreachable', detail: gathered };
    const verdict = decideVerdict(gathered.facts);
    if (verdict.kind !== 'running') gathered.client?.close();
    const late = deps.clock.monoMs() > deadlineMs;
    if (verdict.kind === 'adopt' && !late) {
      const taken = await takeOver(deps, run.runDir);
      if (taken.kind === 'refused') return { kind: 'unreachable', detail: taken.detail };
      tookOver ||= taken.kind === 'taken';
    } else if (verdict.kind === 'unreachable' && verdict.settling && !late) {
      looks += 1;
      // Most of them settle by themselves. One that was stopped, or whose socket was removed, does not.
      if (verdict.wake && (looks === WAKE_AT_LOOK || gathered.facts.socket === 'mute'))
        await wakeExecutor(deps, run.runDir);
      await sleep(deps.clock, SETTLE_EVERY_MS);
    } else if (verdict.kind === 'never_started' && gathered.facts.claim.kind === 'taken' && !seenUnclaimed) {
      // Between two forks of a starting executor one look can miss it; it cannot hide from two.
      seenUnclaimed = true;
      await sleep(deps.clock, SETTLE_EVERY_MS);
    } else {
      return conclude(deps, run, { verdict, gathered, tookOver });
    }
  }
}

async function conclude(
  deps: ResolveDeps,
  run: KnownRun,
  seen: { readonly verdict: Verdict; readonly gathered: Gathered; readonly tookOver: boolean },
): Promise<Resolved> {
  const { verdict, gathered, tookOver } = seen;
  const { leaf } = gathered;
  if ('killFirst' in verdict && verdict.killFirst && !(await killRemains(deps, run, leaf)))
    return { kind: 'unreachable', detail: `${verdict.detail}; what it left behind cannot be killed` };
  switch (verdict.kind) {
    case 'running': {
      const { client } = gathered;
      if (client === undefined) return { kind: 'unreachable', detail: 'its executor has just gone' };
      const { status } = gathered.facts;
      return {
        kind: 'running',
        client,
        status: status.kind === 'ok' ? status.value : undefined,
        tookOver,
        leaf,
      };
    }
    case 'exited':
      return { kind: 'ended', report: verdict.record.report, leaf };
    case 'start_failed':
      return { kind: 'start_failed', record: verdict.record, leaf };
    case 'never_started':
      return { kind: 'never_started', detail: verdict.detail, leaf };
    case 'gone':
      return { kind: 'ended', report: unseenEnd(deps.clock, gathered, verdict.reason, verdict.detail), leaf };
    case 'unknown':
      return {
        kind: 'ended',
        report: unseenEnd(deps.clock, gathered, 'record_unreadable', verdict.detail),
        leaf,
      };
    case 'adopt':
      return { kind: 'unreachable', detail: 'its executor is dead and no other one could take over in time' };
    case 'unreachable':
      return { kind: 'unreachable', detail: verdict.detail };
  }
}

/** The report about an end that nobody saw. */
function unseenEnd(clock: Clock, gathered: Gathered, reason: UnknownExitReason, detail: string): ExitReport {
  return {
    result: { kind: 'unknown', reason, detail },
    startedAtMs: gathered.startedAtMs,
    endedAtMs: clock.wallMs(),
    ranForMs: undefined,
    usage: undefined,
    logComplete: false,
    leftoversKilled: 0,
  };
}

type TakeOver =
  | { readonly kind: 'taken' }
  /** Things have changed since they were looked at. */
  | { readonly kind: 'look_again' }
  | { readonly kind: 'refused'; readonly detail: string };

/** Asks a silent executor to go on and to make its socket anew. Harmless when there is none. */
export async function wakeExecutor(deps: ResolveDeps, runDir: string): Promise<void> {
  await runForeground({
    ...deps,
    launcher: deps.launcher,
    command: 'wake',
    runDir,
    withinMs: WAKE_WITHIN_MS,
  });
}

/** Kills an executor that stays silent, so that another one can take over. Its workload goes on meanwhile. */
export async function unseatExecutor(deps: ResolveDeps, runDir: string): Promise<void> {
  await runForeground({
    ...deps,
    launcher: deps.launcher,
    command: 'unseat',
    runDir,
    withinMs: WAKE_WITHIN_MS,
  });
}

async function takeOver(deps: ResolveDeps, runDir: string): Promise<TakeOver> {
  const end = await runForeground({
    clock: deps.clock,
    executorPath: deps.executorPath,
    launcher: deps.launcher,
    command: 'adopt',
    runDir,
    withinMs: ADOPT_WITHIN_MS,
  });
  if (end.kind === 'exited' && end.code === EXECUTOR_EXIT.ok) return { kind: 'taken' };
  if (end.kind === 'exited' && end.code !== EXECUTOR_EXIT.claimed && end.code !== EXECUTOR_EXIT.workloadGone)
    return { kind: 'refused', detail: `its executor is dead and no other one can take over: ${end.said}` };
  await sleep(deps.clock, SETTLE_EVERY_MS);
  return { kind: 'look_again' };
}

/** Kills what is in the run's cgroup, and the processes that carry its run id. @returns true when nothing is left */
export async function killRemains(
  deps: ResolveDeps,
  run: Pick<KnownRun, 'runId'>,
  leaf: CgroupLeaf | undefined,
): Promise<boolean> {
  if (leaf !== undefined && !(await killLeaf(deps.clock, leaf, KILL_WITHIN_MS))) return false;
  const deadlineMs = deps.clock.monoMs() + KILL_WITHIN_MS;
  for (;;) {
    const { workload } = findProcessesOfRun(run.runId, deps.executorPath);
    if (workload.length === 0) return true;
    if (deps.clock.monoMs() > deadlineMs) return false;
    for (const process of workload) killProcess(process);
    await sleep(deps.clock, SETTLE_EVERY_MS);
  }
}

function killProcess(ref: ProcessRef): void {
  if (!isAlive(ref)) return;
  try {
    process.kill(ref.pid, 'SIGKILL');
  } catch {
    // Gone meanwhile, or not ours to kill: the caller looks again.
  }
}
