/** Small specs for tests: a valid job, group and task each, with whatever a test cares about put over it. */
import type { Job, RestartPolicy, Task, TaskGroup } from '../../src/jobspec/types.js';

/** 3 restarts in 5 minutes, 1 s apart: the policy that the acceptance list is written with. No jitter unless rolled. */
export function aPolicy(over: Partial<RestartPolicy> = {}): RestartPolicy {
  return {
    attempts: 3,
    intervalMs: 300_000,
    delayMs: 1_000,
    mode: 'fail',
    factor: 1,
    maxDelayMs: undefined,
    jitter: 0.25,
    resetAfterMs: undefined,
    ...over,
  };
}

export function aTask(over: Partial<Task> = {}): Task {
  return {
    name: 'main',
    driver: 'scripted',
    config: {},
    env: {},
    user: undefined,
    meta: {},
    resources: {
      cpuMhz: 100,
      cpuPercent: undefined,
      memoryMib: 64,
      memoryMaxMib: undefined,
      pids: undefined,
    },
    restart: aPolicy(),
    killTimeoutMs: 5_000,
    killSignal: 'SIGTERM',
    shutdownDelayMs: 0,
    logs: { maxFiles: 10, maxFileSizeMib: 10, disabled: false },
    leftovers: 'kill',
    leader: false,
    lifecycle: undefined,
    ...over,
  };
}

export function aGroup(over: Partial<TaskGroup> = {}): TaskGroup {
  return { name: 'group', count: 1, meta: {}, tasks: [aTask()], ...over };
}

export function aJob(over: Partial<Job> = {}): Job {
  return {
    id: 'job',
    name: 'job',
    namespace: 'default',
    region: 'global',
    datacenters: ['dc1'],
    type: 'service',
    priority: 50,
    meta: {},
    groups: [aGroup()],
    ...over,
  };
}
