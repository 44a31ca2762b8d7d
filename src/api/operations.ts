/** Owns what the HTTP API may ask of the agent besides reading the store. Implemented in the composition root. */
import type { KnownCheck } from '../allocrunner/checks/alloc-checks.js';
import type { DriverFingerprint } from '../drivers/driver.js';
import type { CgroupMode } from '../executor/cgroups.js';
import type { Session, SessionRequest } from '../executor/session.js';
import type { Job } from '../jobspec/types.js';
import type { Dispatch } from '../scheduler/launch.js';
import type { NodeScheduling } from '../scheduler/drain.js';
import type { DrainRequest } from '../scheduler/drainer.js';
import type { JobPlan } from '../scheduler/plan.js';
import type { HostUsage } from '../stats/host.js';
import type { UsageSample } from '../stats/history.js';
import type { TaskUsage } from '../stats/usage.js';

/** What a registration or a stop did. */
export interface JobChange {
  readonly jobId: string;
  readonly version: number;
  /** Id of the evaluation that carried it out; stand-alone, it is complete when the call returns. */
  readonly evalId: string;
  /** Store index before and after the change. */
  readonly beganAfter: number;
  readonly index: number;
  /** Feed index at which the job itself was last changed (Nomad's JobModifyIndex, for `check_index`). */
  readonly jobModifyIndex: number;
  /** True when the job was already exactly so and nothing was done. */
  readonly unchanged: boolean;
}

/** What a change of a deployment did. */
export interface DeploymentChange {
  readonly evalId: string;
  readonly beganAfter: number;
  readonly index: number;
  /** The version that the job has gone on to, with the spec of the last good one. */
  readonly revertedTo?: number | undefined;
}

/** One thing that a host lets us do to tasks, or does not. */
export interface HostCapability {
  readonly name: string;
  readonly available: boolean;
  /** How it is done; or what follows from its want. */
  readonly detail: string;
  /** What the operator can do about it; '' when it is available. */
  readonly cure: string;
}

/** Facts about this host that do not change while the agent runs. */
export interface NodeFacts {
  readonly nodeId: string;
  readonly name: string;
  readonly version: string;
  readonly bootId: string;
  readonly dataDir: string;
  /** Path of the API's unix socket. */
  readonly socket: string;
  /** Of Node.js: `v20.19.0`. */
  readonly nodeVersion: string;
  readonly cgroupMode: CgroupMode;
  /** Subtrees handed over to an agent that is not root, which its cgroups are in. */
  readonly cgroupsDelegated: readonly string[];
  readonly capabilities: readonly HostCapability[];
  readonly startedAtMs: number;
  readonly attributes: Readonly<Record<string, string>>;
  readonly drivers: Readonly<Record<string, DriverFingerprint>>;
  readonly cpuMhzTotal: number;
  readonly memoryMibTotal: number;
}

/** Something on this host that is not as it should be. */
export interface Finding {
  readonly kind:
    | 'kept_changes'
    | 'quarantine'
    | 'disk_space'
    | 'socket'
    | 'process'
    | 'run_dir'
    | 'cgroup'
    | 'alloc_dir'
    | 'mount'
    | 'executor_version';
  /** What it is about: a path, a pid. */
  readonly subject: string;
  readonly problem: string;
  /** What to do, for people. */
  readonly advice: string;
}

/** A finding, and what came of curing it. */
export interface TreatedFinding extends Finding {
  /** True when it can be cured from here. */
  readonly canFix: boolean;
  readonly outcome:
    | { readonly kind: 'open' }
    | { readonly kind: 'fixed' }
    | { readonly kind: 'failed'; readonly why: string };
}

/** All ids are full ids: the API resolves prefixes by the store. */
export interface AgentOperations {
  /**
   * Registers a job: creates it, makes a new version, or does nothing when it is the same.
   * @param options.checkIndex refuse unless the job's jobModifyIndex is this (0 = the job must not exist)
   * @throws AgentError conflict, job_invalid, store_unavailable
   */
  registerJob(job: Job, options: { readonly checkIndex?: number }): Promise<JobChange>;
  /** Says what registering the job would do now. Changes nothing. */
  planJob(job: Job): JobPlan;
  /** Stops a job's allocs; with `purge` the job is forgotten once they have ended. @throws AgentError not_found */
  stopJob(
    jobId: string,
    options: { readonly purge: boolean; readonly noShutdownDelay: boolean },
  ): Promise<JobChange>;
  /** Stops one alloc; its place is filled again by a new one. @throws AgentError not_found */
  stopAlloc(
    allocId: string,
    options: { readonly noShutdownDelay: boolean },
  ): Promise<{ readonly evalId: string; readonly index: number }>;
  /** Runs a parameterized job. @throws AgentError not_found, bad_request, store_unavailable */
  dispatchJob(jobId: string, dispatch: Dispatch): Promise<JobChange>;
  /** Launches a periodic job now. @throws AgentError not_found, bad_request, store_unavailable */
  forcePeriodic(jobId: string): Promise<JobChange>;
  /** When a periodic job is launched next, in wall time; undefined = not by the clock. */
  nextLaunchMs(jobId: string): number | undefined;
  /** @throws AgentError not_found, bad_request (it is over), store_unavailable */
  failDeployment(deploymentId: string): Promise<DeploymentChange>;
  /** @throws AgentError not_found, bad_request (it is over), store_unavailable */
  pauseDeployment(deploymentId: string, pause: boolean): Promise<DeploymentChange>;
  /** Says how allocs are. @throws AgentError not_found, bad_request, store_unavailable */
  setAllocHealth(
    deploymentId: string,
    said: { readonly healthy: readonly string[]; readonly unhealthy: readonly string[] },
  ): Promise<DeploymentChange>;
  /** Forgets all dead allocs and launches that nothing needs. @returns how many allocs */
  collectGarbage(): Promise<number>;
  /** Forgets one. @throws AgentError not_found, bad_request (it is needed) */
  collectAlloc(allocId: string): Promise<void>;
  /**
   * Restarts one task, or the running ones, of an alloc; with `allTasks` the whole of it anew, in the order of its
   * first start, what has ended too. @throws AgentError not_running, not_found, store_unavailable
   */
  restartAlloc(
    allocId: string,
    options: { readonly task: string | undefined; readonly allTasks: boolean },
  ): Promise<void>;
  /** Signals one task, or all running ones. @throws AgentError not_running, not_found, signal_unknown */
  signalAlloc(
    allocId: string,
    options: { readonly task: string | undefined; readonly signal: string },
  ): Promise<void>;
  /** The checks of an alloc and how they stand; none when it is over. */
  allocChecks(allocId: string): readonly KnownCheck[];
  /**
   * Begins a session in a running task; said in an event first.
   * @param by who asks, for the event
   * @throws AgentError not_running, not_found, bad_request (the driver cannot), too_many, executor_failed
   */
  openSession(allocId: string, task: string, request: SessionRequest, by: string): Promise<Session>;
  /** Usage of each running task of an alloc, by task name. */
  allocUsage(allocId: string): Promise<Readonly<Record<string, TaskUsage>>>;
  /** The last samples of each running task of an alloc, by task name, oldest first. */
  usageHistory(allocId: string): ReadonlyMap<string, readonly TaskUsage[]>;
  /** Told of every round of samples of all running tasks. */
  onUsage(listener: (round: readonly UsageSample[]) => void): Disposable;
  /** Usage of the host as a whole. */
  hostUsage(): Promise<HostUsage>;
  node(): NodeFacts;
  /** Whether this host takes new allocs, and what it is getting rid of. */
  scheduling(): NodeScheduling;
  /** Stops what runs here, gracefully; nothing new starts until `endDrain` or `setEligible`. Resolves when it began. */
  drain(request: DrainRequest): Promise<void>;
  /** Ends a drain; what was stopped is started again, unless the host stays ineligible. */
  endDrain(options: { readonly keepIneligible: boolean }): Promise<void>;
  /** @throws AgentError conflict while it drains */
  setEligible(eligible: boolean): Promise<void>;
  /** Looks for leftovers and inconsistencies; with `fix`, cures those that can be. May take seconds. */
  doctor(options: { readonly fix: boolean }): Promise<readonly TreatedFinding[]>;
  /** Agent troubles an operator must know of, worst first: disk refuses writes, quarantined rows, … Empty = well. */
  warnings(): readonly string[];
}
