/**
 * Owns what the drivers that stand on the executor have in common: start, recovery, and what a program is handed. What
 * one of them runs, and how it is shut in, is its plan. Over 300 lines: all ways from a request to a handle stand together.
 */
import { isDeepStrictEqual } from 'node:util';
import { sleep } from '../base/clock.js';
import { AgentError } from '../base/errors.js';
import type { ProcessRef } from '../base/host.js';
import type { MakeDir } from '../base/spare-dirs.js';
import type { Pace } from '../base/pace.js';
import { shortId } from '../base/ids.js';
import type { ProgramConfig } from '../jobspec/driver-config.js';
import type { CgroupLeaf } from '../executor/cgroup-leaf.js';
import { cgroupLimits, type CgroupLimits, type LimitName } from '../executor/cgroup-limits.js';
import { leafName, type Cgroups } from '../executor/cgroups.js';
import type { KnownRun } from '../executor/facts.js';
import { IN_FORCE_KEY } from '../executor/in-force.js';
import type { InForce } from '../executor/in-force-record.js';
import { DEFAULT_UMASK, type SpecIsolation } from '../executor/isolation.js';
import { prepareRun, type LaunchRequest, type PreparedRun } from '../executor/launch.js';
import { RUN_ID_VARIABLE } from '../executor/processes.js';
import { resolveRun } from '../executor/resolve.js';
import { runDirOf } from '../executor/run-dir.js';
import { isRecord } from '../state/row.js';
import type { RunRecord } from '../state/store.js';
import { startFailure } from './command.js';
import type {
  Driver,
  DriverFingerprint,
  DriverHandle,
  EmitTaskEvent,
  PreparedStart,
  Recovered,
  TaskConfig,
} from './driver.js';
import {
  ExecutorHandle,
  LIMITS_KEY,
  releaseRun,
  SUPERVISION_LOST,
  type HandledRun,
  type HandleDeps,
} from './executor-handle.js';

export interface ExecutorDriverDeps extends HandleDeps {
  readonly cgroups: Cgroups;
  /** `<data>/run`. */
  readonly runsDir: string;
  /** How run directories are made. */
  readonly makeDir: MakeDir;
  /** Of all set-ups of the agent: what is left to do for a task that runs comes after those that wait to be started. */
  readonly pace?: Pace;
}

/** What nearly every program knows; the same as in sessions. */
const DEFAULT_TERM = 'xterm';
const BYTES_PER_MIB = 1024 * 1024;

/** What one driver makes of one task. */
export interface ProgramPlan {
  readonly config: ProgramConfig;
  /** Absolute, or a bare name that is looked for in the task's root. */
  readonly path: string;
  readonly cwd: string;
  /** Undefined = as the agent. */
  readonly user: string | undefined;
  readonly isolation: SpecIsolation | undefined;
  /** Limits without which it must not run; others are only told of. */
  readonly demanded: readonly LimitName[];
}

export abstract class ExecutorDriver implements Driver {
  abstract readonly name: string;
  readonly defaultKillSignal = 'SIGINT';
  readonly #deps: ExecutorDriverDeps;

  constructor(deps: ExecutorDriverDeps) {
    this.#deps = deps;
  }

  abstract fingerprint(): Promise<DriverFingerprint>;

  /** @throws AgentError driver_config_invalid, start_failed */
  protected abstract plan(config: TaskConfig): Promise<ProgramPlan>;

  async prepare(config: TaskConfig): Promise<PreparedStart> {
    const request = await this.#request(config);
    const prepared = await prepareRun(this.#deps, request);
    return {
      start: (emit) => this.#start(config, { request, prepared }, emit),
      giveUp: () => prepared.giveUp(),
    };
  }

  async start(config: TaskConfig, emit: EmitTaskEvent): Promise<DriverHandle> {
    const prepared = await this.prepare(config);
    return prepared.start(emit);
  }

  async #start(
    config: TaskConfig,
    { request, prepared }: { readonly request: LaunchRequest; readonly prepared: PreparedRun },
    emit: EmitTaskEvent,
  ): Promise<DriverHandle> {
    const launched = await prepared.launch();
    await this.#deps.pace?.after();
    const run = {
      runId: config.runId,
      runDir: request.runDir,
      bootId: this.#deps.bootId,
      emit,
      limits: undefined,
      inForce: undefined,
    };
    switch (launched.kind) {
      case 'started':
        for (const note of launched.notes)
          this.#deps.log.warn({ run_id: config.runId, note }, 'a limit is not in force');
        if (launched.notes.length > 0)
          emit({ type: 'Driver', message: `Not in force: ${launched.notes.join('; ')}` });
        return new ExecutorHandle(this.#deps, {
          ...run,
          limits: launched.notes.length === 0 ? request.limits : undefined,
          leaf: launched.leaf,
          status: launched.status,
          client: undefined,
        });
      case 'start_failed':
        throw startFailure(launched.record);
      case 'unclear': {
        const cleared = this.#clearUp(config, { ...run, handle: undefined }, launched.detail);
        // With a launcher die all that it holds. That is no fault of the task, and must not count as one.
        return prepared.isHeld
          ? cleared.catch((fault: unknown) => this.#startAgain(config, fault, emit))
          : cleared;
      }
    }
  }

  /** Once, after a fault that says that nothing has run and nothing is left of it. Only where there is no launcher any more. */
  async #startAgain(config: TaskConfig, fault: unknown, emit: EmitTaskEvent): Promise<DriverHandle> {
    const isOver = fault instanceof AgentError && fault.code === 'executor_failed';
    if (!isOver || this.#deps.launcher?.isReady === true) throw fault;
    return this.start(config, emit);
  }

  async recover(run: RunRecord, emit: EmitTaskEvent): Promise<Recovered> {
    const known: KnownRun = {
      runId: run.runId,
      runDir: runDirOf(this.#deps.runsDir, run.runId),
      bootId: run.bootId,
      handle:
        run.handle === undefined ? undefined : { ...run.handle, leaf: leafOfState(run.handle.driverState) },
    };
    const resolved = await resolveRun(this.#deps, known);
    const release = (leaf: CgroupLeaf | undefined) => (): Promise<void> =>
      releaseRun(this.#deps, known.runDir, leaf ?? this.#expectedLeaf(run));
    switch (resolved.kind) {
      case 'running':
        if (resolved.tookOver) emit(SUPERVISION_LOST);
        return {
          kind: 'running',
          handle: new ExecutorHandle(this.#deps, {
            ...known,
            ...keptOf(run, resolved.status?.workload),
            leaf: resolved.leaf,
            status: resolved.status,
            client: resolved.client,
            emit,
          }),
        };
      case 'ended':
        return { kind: 'ended', report: resolved.report, release: release(resolved.leaf) };
      case 'start_failed': {
        const { message, recoverable } = startFailure(resolved.record);
        return { kind: 'start_failed', error: message, recoverable, release: release(resolved.leaf) };
      }
      case 'never_started':
        return { kind: 'never_started', detail: resolved.detail, release: release(resolved.leaf) };
      case 'unreachable':
        return resolved;
    }
  }

  /** Where the leaf would be of a run that got no further than making it. */
  #expectedLeaf(run: RunRecord): CgroupLeaf | undefined {
    return this.#deps.cgroups.mode === 'none' ? undefined : this.#deps.cgroups.leafOf(leafName(run));
  }

  /**
   * It was asked to start, and it is not clear whether it did: nothing may be said before that is known. This can
   * take as long as the trouble lasts; a start that is claimed to have failed could make a second copy.
   */
  async #clearUp(
    config: TaskConfig,
    run: KnownRun & Pick<HandledRun, 'emit' | 'limits' | 'inForce'>,
    why: string,
  ): Promise<DriverHandle> {
    const { clock, log } = this.#deps;
    for (;;) {
      const resolved = await resolveRun(this.#deps, run);
      switch (resolved.kind) {
        case 'running':
          return new ExecutorHandle(this.#deps, {
            ...run,
            ...resolved,
            leaf: resolved.leaf,
            status: resolved.status,
          });
        case 'ended':
          return new ExecutorHandle(this.#deps, {
            ...run,
            leaf: resolved.leaf,
            status: undefined,
            client: undefined,
          });
        case 'start_failed':
          await releaseRun(this.#deps, run.runDir, resolved.leaf);
          throw startFailure(resolved.record);
        case 'never_started':
          await releaseRun(
            this.#deps,
            run.runDir,
            resolved.leaf ?? this.#deps.cgroups.leafOf(leafName(config)),
          );
          throw new AgentError('executor_failed', `the executor did not start: ${why}`, {
            recoverable: true,
          });
        case 'unreachable':
          log.warn(
            { run_id: run.runId, why, detail: resolved.detail },
            'whether a task has started is not known yet',
          );
          await sleep(clock, 1_000);
      }
    }
  }

  /** @throws AgentError driver_config_invalid, start_failed */
  async #request(config: TaskConfig): Promise<LaunchRequest> {
    const { task, allocId, runId, dirs, logs } = config;
    const plan = await this.plan(config);
    const { command, args, oomScoreAdj, rlimits, umask, nice, terminal, onExecutorDeath } = plan.config;
    return {
      runDir: runDirOf(this.#deps.runsDir, runId),
      leafName: leafName(config),
      limits: cgroupLimits(config.resources, this.#deps.hostCpus),
      demanded: plan.demanded,
      spec: {
        runId,
        // The whole run id, first: it is what tells an executor that has not written its status yet.
        title: `${runId} ${shortId(allocId)}/${task}`,
        path: plan.path,
        argv: [command, ...args],
        // First, where whoever looks for the run's processes finds it soonest; and nobody's to change.
        env: Object.fromEntries([
          [RUN_ID_VARIABLE, runId],
          // A program on a terminal needs to know what kind it is; the task may say otherwise.
          ...(terminal === undefined ? [] : [['TERM', DEFAULT_TERM] as const]),
          ...ownEnv(config.env),
        ]),
        cwd: plan.cwd,
        user: plan.user,
        log: logs.disabled
          ? undefined
          : {
              dir: dirs.logDir,
              name: task,
              maxFiles: logs.maxFiles,
              maxBytes: logs.maxFileSizeMib * BYTES_PER_MIB,
            },
        // The gate of agents is the launcher's word; a frame opens those that are started by hand.
        gate: false,
        leftovers: config.leftovers,
        ...(config.leftoversTimeoutMs === undefined ? {} : { leftoversMs: config.leftoversTimeoutMs }),
        ...(onExecutorDeath === 'kill' ? { onExecutorDeath } : {}),
        oomScoreAdj: oomScoreAdj ?? 0,
        isolation: plan.isolation,
        attributes: { rlimits, umask: umask ?? DEFAULT_UMASK, nice },
        terminal,
      },
    };
  }
}

/** The task's variables, without one that would hide whose process it is. */
function ownEnv(env: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(env).filter(([name]) => name !== RUN_ID_VARIABLE);
}

/** Read by hand: a library for it would have to be loaded before the first task can be found again. */
function leafOfState(state: Readonly<Record<string, unknown>>): CgroupLeaf | undefined {
  const { cgroup, cgroupsV1 } = state;
  const v1 = Array.isArray(cgroupsV1) ? cgroupsV1.filter((dir) => typeof dir === 'string') : [];
  const unified = typeof cgroup === 'string' ? cgroup : undefined;
  return unified === undefined && v1.length === 0 ? undefined : { unified, v1 };
}

/**
 * What is on record of a workload that runs on: it need not be looked at again. Of another process than the one on record
 * nothing is known.
 */
function keptOf(
  { handle }: RunRecord,
  workload: ProcessRef | undefined,
): Pick<HandledRun, 'limits' | 'inForce'> {
  const state = handle?.driverState ?? {};
  const isSame = workload !== undefined && isDeepStrictEqual(handle?.workload, workload);
  const look = state[IN_FORCE_KEY];
  const limits = state[LIMITS_KEY];
  return {
    // As we have stored them; only what a newer version could not work with is not believed.
    inForce:
      isSame && isRecord(look) && 'process' in look && 'cgroups' in look ? (look as InForce) : undefined,
    limits: isSame && isRecord(limits) ? (limits as unknown as CgroupLimits) : undefined,
  };
}
