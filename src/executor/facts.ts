/**
 * Owns the gathering of RunFacts: reads files, looks at processes, greets the executor. Changes nothing but one thing:
 * it takes the claim on a run that nobody has claimed (the fence), so that what it saw stays true.
 */
import type { Clock } from '../base/clock.js';
import { isAlive, type ProcessRef } from '../base/host.js';
import { isPopulated, leafOfSpec, type CgroupLeaf } from './cgroup-leaf.js';
import { ExecutorClient } from './client.js';
import { errnoOf } from '../base/errors.js';
import type { ExecutorStatus, Read } from './exit-record.js';
import { findProcessesOfRun } from './processes.js';
import type { Life, RunFacts } from './recover.js';
import { fence, readClaim, readExitFile, readSpecFile, readStatusFile } from './run-dir.js';

/** A run as the store knows it. */
export interface KnownRun {
  readonly runId: string;
  readonly runDir: string;
  /** Boot in which it was meant to start. */
  readonly bootId: string;
  /** What the stored handle says; undefined when the agent never saw it start. */
  readonly handle:
    | {
        readonly executor: ProcessRef | undefined;
        readonly workload: ProcessRef | undefined;
        readonly leaf: CgroupLeaf | undefined;
      }
    | undefined;
}

/** Facts, and what was found on the way to them. */
export interface Gathered {
  readonly facts: RunFacts;
  /** Connected when the executor answers; passes to the caller. */
  readonly client: ExecutorClient | undefined;
  readonly leaf: CgroupLeaf | undefined;
  readonly strays: readonly ProcessRef[];
  readonly startedAtMs: number | undefined;
}

/** @param deps.executorPath how executors of this agent are called in the process list */
export async function gatherFacts(
  deps: { readonly clock: Clock; readonly bootId: string; readonly executorPath: string },
  run: KnownRun,
): Promise<Gathered> {
  const greeting = run.bootId === deps.bootId ? await greet(deps.clock, run) : NOBODY;
  try {
    return byItsWord(deps, run, greeting) ?? lookEverywhere(deps, run, greeting);
  } catch (error) {
    greeting.client?.close();
    throw error;
  }
}

/**
 * The short way, which nearly every run takes when an agent comes back: it was seen to start, and its executor says that
 * it runs. Undefined = it takes a closer look.
 */
function byItsWord(
  deps: { readonly bootId: string },
  run: KnownRun,
  { client, told }: Greeting,
): Gathered | undefined {
  if (run.handle === undefined || client === undefined || told?.kind !== 'ok') return undefined;
  const { bootId, runId, state, startedAtMs } = told.value;
  if (bootId !== deps.bootId || runId !== run.runId || state !== 'running') return undefined;
  const facts: RunFacts = { ...NOT_LOOKED_AT, ...IT_ANSWERS, status: told };
  return { facts, client, leaf: run.handle.leaf, strays: [], startedAtMs };
}

function lookEverywhere(
  deps: { readonly bootId: string; readonly executorPath: string },
  run: KnownRun,
  greeting: Greeting,
): Gathered {
  // The record first: one that is written while we look is found by looking again, never believed by half.
  const status = readStatusFile(run.runDir);
  const spec = readSpecFile(run.runDir);
  const leaf = spec.kind === 'ok' ? leafOfSpec(spec.value) : run.handle?.leaf;
  const sameBoot =
    run.bootId === deps.bootId && (status.kind !== 'ok' || status.value.bootId === deps.bootId);
  const base = {
    sameBoot,
    status: ownStatus(status, run.runId),
    seenStarted: run.handle !== undefined,
    keepLeftovers: spec.kind === 'ok' && spec.value.leftovers === 'keep',
  };
  // Until its exec was seen nobody knows that it ran at all.
  const execSeen = status.kind === 'ok' && status.value.state !== 'starting';
  const startedAtMs = execSeen ? status.value.startedAtMs : undefined;
  if (!sameBoot) {
    greeting.client?.close();
    const facts: RunFacts = { ...NOT_LOOKED_AT, ...base, record: readExitFile(run.runDir, run.runId) };
    return { facts, client: undefined, leaf, strays: [], startedAtMs };
  }
  const claim = readClaim(run.runDir);
  const { client, socket } = greeting;
  // What an executor says itself counts more than its file, which a full disk keeps as it was.
  const told = greeting.told?.kind === 'ok' ? greeting.told : base.status;
  const named = told.kind === 'ok' ? told.value : run.handle;
  const executor = client === undefined ? lifeOf(named?.executor) : lifeOf(client.executor);
  const workload = lifeOf(named?.workload);
  // Processes are looked for only when nobody known is left; the record is read after they were seen dead.
  const found =
    executor === 'alive' || client !== undefined
      ? { executors: [], workload: [] }
      : findProcessesOfRun(run.runId, deps.executorPath);
  const record = readExitFile(run.runDir, run.runId);
  const facts: RunFacts = {
    ...base,
    status: told,
    claim: claim.kind === 'free' ? fence(run.runDir) : claim,
    record,
    executor,
    workload,
    socket,
    leafPopulated: leaf !== undefined && isPopulated(leaf),
    otherExecutors: found.executors.length > 0,
    strays: found.workload.length > 0,
  };
  return { facts, client, leaf, strays: found.workload, startedAtMs };
}

/** Of a run that its executor speaks for: nothing else is asked. */
const IT_ANSWERS = {
  sameBoot: true,
  claim: { kind: 'taken' },
  executor: 'alive',
  socket: 'answers',
  seenStarted: true,
} as const;

/** What is not looked at after a restart of the host, or when it would change nothing. */
const NOT_LOOKED_AT = {
  claim: { kind: 'free' },
  record: { kind: 'absent' },
  keepLeftovers: false,
  executor: 'unnamed',
  workload: 'unnamed',
  socket: 'closed',
  leafPopulated: false,
  otherExecutors: false,
  strays: false,
} as const;

function ownStatus(status: Read<ExecutorStatus>, runId: string): Read<ExecutorStatus> {
  if (status.kind !== 'ok' || status.value.runId === runId) return status;
  return { kind: 'unreadable', why: `the status is of another run, ${status.value.runId}` };
}

/** How an executor took our greeting. */
interface Greeting {
  readonly client: ExecutorClient | undefined;
  readonly socket: RunFacts['socket'];
  /** What it says of its run; undefined = it went away, and what that means is seen when it is followed. */
  readonly told: Read<ExecutorStatus> | undefined;
}

const NOBODY: Greeting = { client: undefined, socket: 'closed', told: undefined };

async function greet(clock: Clock, run: KnownRun): Promise<Greeting> {
  try {
    const { client, status } = await ExecutorClient.connectAndAsk({
      clock,
      runDir: run.runDir,
      runId: run.runId,
    });
    return { client, socket: 'answers', told: status };
  } catch (error) {
    const errno = error instanceof Error ? errnoOf(error.cause) : undefined;
    // Only these say that nobody listens; everything else may be somebody who does not speak.
    const isClosed = errno === 'ENOENT' || errno === 'ECONNREFUSED';
    return { client: undefined, socket: isClosed ? 'closed' : 'mute', told: undefined };
  }
}

function lifeOf(process: ProcessRef | undefined): Life {
  if (process === undefined) return 'unnamed';
  return isAlive(process) ? 'alive' : 'dead';
}
