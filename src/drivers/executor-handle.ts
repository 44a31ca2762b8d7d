/**
 * Owns one run that is under an executor, as the task runner sees it: watches for the end over one idle connection,
 * survives the death of the executor, hands stops and signals on. Shared by the drivers that stand on the executor. A
 * little over 300 lines because watching, asking and letting go share one state: which executor answers for the run now.
 */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { sleep } from '../base/clock.js';
import { Deferred } from '../base/deferred.js';
import { AgentError } from '../base/errors.js';
import type { ProcessRef } from '../base/host.js';
import type { Logger } from '../base/log.js';
import type { ExitReport } from '../events/exit-result.js';
import { joinFilesOf, removeLeaf, type CgroupLeaf } from '../executor/cgroup-leaf.js';
import { enterRun } from '../executor/enter.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { Cgroups } from '../executor/cgroups.js';
import { cgroupLimits, type CgroupLimits, type HostCpus } from '../executor/cgroup-limits.js';
import { IN_FORCE_KEY, lookAtLeaf, lookAtWorkload } from '../executor/in-force.js';
import type { InForce } from '../executor/in-force-record.js';
import type { Resources } from '../jobspec/types.js';
import { ExecutorClient, REPLY_WITHIN_MS } from '../executor/client.js';
import type { ExecutorStatus } from '../executor/exit-record.js';
import {
  killRemains,
  resolveRun,
  unseatExecutor,
  wakeExecutor,
  type ResolveDeps,
  type Resolved,
} from '../executor/resolve.js';
import { readExitFile, removeRunDir, rewriteJoinProcs } from '../executor/run-dir.js';
import type { RunHandle } from '../state/store.js';
import type { ProcessTable } from '../stats/process-table.js';
import { UsageSampler } from '../stats/sampler.js';
import type { TaskUsage } from '../stats/usage.js';
import type { DriverHandle, EmitTaskEvent } from './driver.js';
import { stopRun } from './stop-run.js';
import { execToEnd, type ExecOptions, type ExecResult } from './sessions.js';

export interface HandleDeps extends ResolveDeps {
  readonly hostCpus: HostCpus;
  readonly cgroups: Pick<Cgroups, 'changeLimits' | 'settleCores' | 'wholeLeaf'>;
  readonly log: Logger;
  readonly table: ProcessTable;
}

/** What the driver knows of a run when it makes a handle for it. */
export interface HandledRun {
  readonly runId: string;
  readonly runDir: string;
  readonly bootId: string;
  readonly leaf: CgroupLeaf | undefined;
  readonly status: ExecutorStatus | undefined;
  /** Connected already, or undefined: the handle finds its executor by itself. Passes to the handle. */
  readonly client: ExecutorClient | undefined;
  readonly emit: EmitTaskEvent;
  /** The limits it was given, when all of them are in force; undefined = that is not known. */
  readonly limits: CgroupLimits | undefined;
  /** What was stored when it was looked at; undefined = it is looked at now. */
  readonly inForce: InForce | undefined;
}

/** Where the limits that are in force are kept in the state of the driver. */
export const LIMITS_KEY = 'limits';
/** Each is a process or two: enough for people and checks, not enough to fill the task's limits. */
const MOST_SESSIONS = 32;
const LET_GO_WITHIN_MS = 2_000;
/** Waits between looks at an executor that cannot be spoken to. */
const UNREACHABLE_RETRY_MS = { first: 500, most: 30_000 };

/** Use `detach` to leave the run alone, `release` after its end is stored. */
export class ExecutorHandle implements DriverHandle {
  readonly runId: string;
  readonly startedAtMs: number;
  readonly #deps: HandleDeps;
  readonly #run: HandledRun;
  readonly #ended: Promise<ExitReport>;
  readonly #leaving = new AbortController();
  readonly #sampler: UsageSampler;
  #executor: ProcessRef | undefined;
  #workload: ProcessRef | undefined;
  #client: ExecutorClient | undefined;
  /** Replaced each time a connection is made. */
  #connected = new Deferred<ExecutorClient>();
  #over = false;
  /** Resolves when the executor has nothing more to write, and lets go of its directory. */
  #left: Promise<unknown> = Promise.resolve();
  #inForce: InForce;
  #limits: CgroupLimits | undefined;
  #leaf: CgroupLeaf | undefined;
  readonly #sessions = new Set<Session>();

  constructor(deps: HandleDeps, run: HandledRun) {
    this.#deps = deps;
    this.#run = run;
    this.runId = run.runId;
    this.#executor = run.status?.executor;
    this.#workload = run.status?.workload;
    this.#inForce = run.inForce ?? lookAtWorkload(this.#workload, run.leaf);
    this.#limits = run.limits;
    this.#leaf = run.leaf;
    this.startedAtMs = run.status?.startedAtMs ?? deps.clock.wallMs();
    this.#sampler = new UsageSampler(deps.clock, {
      runId: run.runId,
      leaf: () => this.#leaf,
      leader: () => this.#workload,
      table: deps.table,
      startedAtMs: () => this.startedAtMs,
    });
    this.#ended = this.#watch(run.client);
  }

  get ref(): RunHandle {
    return {
      executor: this.#executor,
      workload: this.#workload,
      driverState: {
        runDir: this.#run.runDir,
        cgroup: this.#leaf?.unified ?? null,
        cgroupsV1: this.#leaf?.v1 ?? [],
        [IN_FORCE_KEY]: this.#inForce,
        [LIMITS_KEY]: this.#limits ?? null,
      },
    };
  }

  wait(): Promise<ExitReport> {
    return this.#ended;
  }

  async signal(signal: number): Promise<void> {
    const client = await this.#reach();
    await client.signal(signal, 'leader');
  }

  async stop(how: { readonly signal: number; readonly graceMs: number }): Promise<void> {
    const { runId, runDir } = this.#run;
    await stopRun(
      this.#deps.clock,
      {
        isOver: () => this.#over,
        client: () => this.#client,
        endedWithin: (ms) => this.#endedWithin(ms),
        wake: () => wakeExecutor(this.#deps, runDir),
        unseat: () => unseatExecutor(this.#deps, runDir),
        killRemains: async () => {
          await killRemains(this.#deps, { runId }, this.#leaf);
        },
      },
      how,
    );
  }

  usage(): Promise<TaskUsage | undefined> {
    return this.#over ? Promise.resolve(undefined) : this.#sampler.sample();
  }

  exec(command: string, args: readonly string[], options: ExecOptions): Promise<ExecResult> {
    return execToEnd(this.#deps.clock, (request) => this.openSession(request), [command, ...args], options);
  }

  async openSession(request: SessionRequest): Promise<Session> {
    if (this.#over) throw new AgentError('not_running', 'the task has ended');
    if (this.#sessions.size >= MOST_SESSIONS) {
      throw new AgentError('too_many', `${MOST_SESSIONS} sessions are open in this task: end one of them`);
    }
    const session = await enterRun(this.#deps, this.#run.runDir, request);
    this.#sessions.add(session);
    void session.ended.then(() => this.#sessions.delete(session));
    return session;
  }

  changeLimits(resources: Resources): readonly string[] {
    const leaf = this.#leaf;
    if (this.#over) return [];
    if (leaf === undefined) return ['nothing is limited: this host lets the agent have no cgroup'];
    const limits = cgroupLimits(resources, this.#deps.hostCpus);
    // Nearly always after a restart of the agent: nobody but us writes there.
    if (isDeepStrictEqual(limits, this.#limits)) return [];
    const { runDir } = this.#run;
    const changed = this.#deps.cgroups.changeLimits(leaf, limits, (now) => {
      rewriteJoinProcs(runDir, joinFilesOf(now));
    });
    const { unmet } = changed;
    this.#leaf = changed.leaf;
    this.#limits = unmet.length === 0 ? limits : undefined;
    this.#inForce = { ...this.#inForce, ...lookAtLeaf(this.#leaf) };
    return unmet.map(({ why }) => why);
  }

  async release(): Promise<void> {
    if (!this.#over)
      throw new AgentError('internal', `run ${this.runId} was to be released while it may be running`);
    // They end with the run, and say how in its directory.
    await Promise.race([
      Promise.all([this.#left, ...[...this.#sessions].map(({ ended }) => ended)]),
      sleep(this.#deps.clock, LET_GO_WITHIN_MS, this.#leaving.signal),
    ]);
    await releaseRun(this.#deps, this.#run.runDir, this.#leaf);
  }

  detach(): void {
    this.#leaving.abort();
    this.#client?.close();
    for (const session of this.#sessions) session.end();
  }

  /** The connection, waiting a little for one that is being made. @throws AgentError not_running, executor_unreachable */
  async #reach(): Promise<ExecutorClient> {
    const late = sleep(this.#deps.clock, REPLY_WITHIN_MS, this.#leaving.signal);
    const first = await Promise.race([this.#connected.promise, this.#ended, late]);
    if (this.#over) throw new AgentError('not_running', 'the task has ended');
    const client = this.#client;
    if (first === undefined || client === undefined)
      throw new AgentError('executor_unreachable', 'the executor of the task does not answer', {
        recoverable: true,
      });
    return client;
  }

  async #endedWithin(ms: number): Promise<void> {
    const waiting = new AbortController();
    await Promise.race([this.#ended, sleep(this.#deps.clock, ms, waiting.signal)]);
    waiting.abort();
  }

  /** Follows the run to its end, over as many executors as it takes. After `detach` it never settles. */
  async #watch(first: ExecutorClient | undefined): Promise<ExitReport> {
    let client = first ?? (await this.#connect());
    let retryMs = UNREACHABLE_RETRY_MS.first;
    for (;;) {
      const told = client === undefined ? undefined : await this.#follow(client);
      client = undefined;
      if (this.#leaving.signal.aborted) return new Promise<never>(() => undefined);
      const report = told ?? this.#readEnd();
      if (report !== undefined) return this.#end(report);
      const resolved = await resolveRun(this.#deps, this.#known());
      if (resolved.kind === 'running') {
        client = this.#takeOn(resolved);
        retryMs = UNREACHABLE_RETRY_MS.first;
      } else if (resolved.kind === 'unreachable') {
        this.#deps.log.warn(
          { run_id: this.runId, detail: resolved.detail },
          'a run cannot be reached, trying again',
        );
        await sleep(this.#deps.clock, retryMs, this.#leaving.signal);
        retryMs = Math.min(retryMs * 2, UNREACHABLE_RETRY_MS.most);
      } else {
        return this.#end(reportOf(resolved, this.#deps));
      }
    }
  }

  /** The short way after an end as it should be: the record is there. */
  #readEnd(): ExitReport | undefined {
    try {
      const record = readExitFile(this.#run.runDir, this.runId);
      return record.kind === 'ok' && record.value.kind === 'ended' ? record.value.report : undefined;
    } catch {
      return undefined;
    }
  }

  /** The short way for a run that has just been started; when it fails, the long way finds out why. */
  async #connect(): Promise<ExecutorClient | undefined> {
    try {
      return await ExecutorClient.connect({ ...this.#deps, ...this.#run });
    } catch {
      return undefined;
    }
  }

  /**
   * Stays with an executor until the end, of which it tells at once: it is the store that makes it durable here. Undefined:
   * it has not told, whoever called looks at what is left.
   */
  async #follow(client: ExecutorClient): Promise<ExitReport | undefined> {
    this.#client = client;
    this.#connected.resolve(client);
    if (this.#leaving.signal.aborted) client.close();
    // One of them at least comes to an end with the connection.
    const left = client.wait().catch(() => undefined);
    this.#left = left.finally(() => {
      client.close();
    });
    const record = await client.end().catch(() => left);
    this.#client = undefined;
    this.#connected = new Deferred();
    const isOurs =
      record?.kind === 'ok' && record.value.kind === 'ended' && record.value.runId === this.runId;
    if (isOurs) return record.value.report;
    await left;
    return undefined;
  }

  #takeOn(found: Extract<Resolved, { kind: 'running' }>): ExecutorClient {
    this.#executor = found.client.executor;
    this.#workload = found.status?.workload ?? this.#workload;
    if (found.tookOver) this.#run.emit(SUPERVISION_LOST);
    return found.client;
  }

  #known(): Parameters<typeof resolveRun>[1] {
    return {
      runId: this.runId,
      runDir: this.#run.runDir,
      bootId: this.#run.bootId,
      handle: { executor: this.#executor, workload: this.#workload, leaf: this.#leaf },
    };
  }

  #end(report: ExitReport): ExitReport {
    this.#over = true;
    return report;
  }
}

/** Told when another executor had to take over. Whether it will see the exit status is the kernel's to say. */
export const SUPERVISION_LOST = {
  type: 'Supervision Lost',
  message: 'The executor of the task was killed; another one has taken over, the task goes on',
} as const;

/** Removes what a run holds on this host. The cgroup first: the run directory says where it is. Twice is allowed. */
export async function releaseRun(
  deps: HandleDeps,
  runDir: string,
  leaf: CgroupLeaf | undefined,
): Promise<void> {
  if (leaf !== undefined && !(await removeLeaf(deps.clock, deps.cgroups.wholeLeaf(leaf))))
    deps.log.warn({ cgroup: leaf.unified ?? leaf.v1 }, 'a cgroup is still in use and was left, ignoring');
  deps.cgroups.settleCores();
  await removeRunDir(runDir);
}

/** The end of a run that has started. */
function reportOf(
  resolved: Exclude<Resolved, { kind: 'running' | 'unreachable' }>,
  deps: HandleDeps,
): ExitReport {
  if (resolved.kind === 'ended') return resolved.report;
  const detail =
    resolved.kind === 'never_started'
      ? `it was taken for started, but: ${resolved.detail}`
      : `it was taken for started, but its start failed at ${join(resolved.record.stage, resolved.record.detail)}`;
  return {
    result: { kind: 'unknown', reason: 'driver_error', detail },
    startedAtMs: undefined,
    endedAtMs: deps.clock.wallMs(),
    ranForMs: undefined,
    usage: undefined,
    logComplete: false,
    leftoversKilled: 0,
  };
}
