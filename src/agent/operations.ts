/** Owns what the API asks of the agent: hands it to the scheduler or to the alloc that is meant. */
import type { AllocRunner } from '../allocrunner/alloc-runner.js';
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { AgentOperations, JobChange, NodeFacts } from '../api/operations.js';
import { AgentError } from '../base/errors.js';
import type { Collector } from '../scheduler/collector.js';
import type { Drainer } from '../scheduler/drainer.js';
import type { Evaluated } from '../scheduler/evaluated.js';
import type { Scheduler } from '../scheduler/scheduler.js';
import type { StateStore } from '../state/store.js';
import type { Doctor } from './doctor.js';
import type { HostSampler } from '../stats/host.js';
import type { UsageWatch } from './usage-watch.js';

export interface OperationsDeps {
  readonly store: StateStore;
  readonly scheduler: Scheduler;
  readonly drainer: Drainer;
  readonly allocs: AllocTable;
  readonly node: NodeFacts;
  readonly collector: Collector;
  readonly doctor: Doctor;
  readonly host: HostSampler;
  readonly usage: UsageWatch;
  readonly warnings: () => readonly string[];
}

/** Builds the operations of a running agent. */
export function createOperations(deps: OperationsDeps): AgentOperations {
  const { store, scheduler, allocs } = deps;

  /** @throws AgentError not_found, not_running */
  const running = (allocId: string, task: string | undefined): AllocRunner => {
    const known = store.getAlloc(allocId);
    if (known === undefined) throw new AgentError('not_found', `no alloc ${allocId}: see holdfast ps -a`);
    const runner = allocs.get(allocId);
    if (task !== undefined && store.getTask(allocId, task) === undefined) {
      const names = store.listTasks(allocId).map((record) => record.task);
      throw new AgentError('not_found', `alloc ${allocId} has no task ${task}; it has ${names.join(', ')}`);
    }
    if (runner !== undefined) return runner;
    throw new AgentError('not_running', `alloc ${allocId} is over (${known.record.clientStatus})`);
  };

  return {
    registerJob: async (job, { checkIndex }) => toChange(job.id, await scheduler.register(job, checkIndex)),
    planJob: (job) => scheduler.plan(job),
    stopJob: async (jobId, options) => toChange(jobId, await scheduler.stop(jobId, options)),
    stopAlloc: (allocId, { noShutdownDelay }) => scheduler.stopAlloc(allocId, noShutdownDelay),
    dispatchJob: (jobId, dispatch) => scheduler.dispatch(jobId, dispatch),
    forcePeriodic: (jobId) => scheduler.forcePeriodic(jobId),
    nextLaunchMs: (jobId) => scheduler.nextLaunchMs(jobId),
    failDeployment: (id) => scheduler.deploymentRequests.fail(id),
    pauseDeployment: (id, pause) => scheduler.deploymentRequests.pause(id, pause),
    setAllocHealth: (id, said) => scheduler.deploymentRequests.setHealth(id, said),
    collectGarbage: () => deps.collector.collectAll(),
    collectAlloc: (allocId) => deps.collector.collect(allocId),
    restartAlloc: (allocId, { task, allTasks }) => {
      const runner = running(allocId, task);
      return allTasks ? runner.restartAll() : runner.restart(task, 'restart was requested');
    },
    signalAlloc: (allocId, { task, signal }) =>
      running(allocId, task).signal(task, signal, 'signal was requested'),
    allocChecks: (allocId) => allocs.get(allocId)?.checks() ?? [],
    openSession: (allocId, task, request, by) => running(allocId, task).openSession(task, request, by),
    allocUsage: async (allocId) => (await allocs.get(allocId)?.usage()) ?? {},
    usageHistory: (allocId) => deps.usage.history.of(allocId),
    onUsage: (listener) => deps.usage.onRound(listener),
    hostUsage: () => deps.host.sample(),
    node: () => deps.node,
    scheduling: () => deps.drainer.scheduling,
    drain: (request) => deps.drainer.enable(request),
    endDrain: (options) => deps.drainer.disable(options),
    setEligible: (eligible) => deps.drainer.setEligible(eligible),
    doctor: (options) => deps.doctor.run(options),
    warnings: deps.warnings,
  };
}

function toChange(jobId: string, evaluated: Evaluated): JobChange {
  return { jobId, ...evaluated };
}
