/** Owns Job → Nomad's JSON, the body that PUT /v1/jobs takes; `parseJobJson` reads it back to the same job. */
import type { Job, RestartPolicy, Task, TaskGroup } from './types.js';

const NS_PER_MS = 1e6;

/** The job in Nomad's keys: CamelCase, durations in nanoseconds. What is undefined in the job is left out. */
export function jobToJson(job: Job): Readonly<Record<string, unknown>> {
  return {
    ID: job.id,
    Name: job.name,
    Namespace: job.namespace,
    Region: job.region,
    Datacenters: job.datacenters,
    Type: job.type,
    Priority: job.priority,
    Meta: job.meta,
    TaskGroups: job.groups.map(groupToJson),
  };
}

function groupToJson(group: TaskGroup) {
  return { Name: group.name, Count: group.count, Meta: group.meta, Tasks: group.tasks.map(taskToJson) };
}

function taskToJson(task: Task) {
  const { resources, logs } = task;
  return withoutUndefined({
    Name: task.name,
    Driver: task.driver,
    Config: task.config,
    Env: task.env,
    User: task.user,
    Meta: task.meta,
    Resources: withoutUndefined({
      CPU: resources.cpuMhz,
      CPUPercent: resources.cpuPercent,
      MemoryMB: resources.memoryMib,
      MemoryMaxMB: resources.memoryMaxMib,
      Pids: resources.pids,
    }),
    RestartPolicy: restartToJson(task.restart),
    KillTimeout: task.killTimeoutMs * NS_PER_MS,
    KillSignal: task.killSignal,
    ShutdownDelay: task.shutdownDelayMs * NS_PER_MS,
    LogConfig: { MaxFiles: logs.maxFiles, MaxFileSizeMB: logs.maxFileSizeMib, Disabled: logs.disabled },
    Leftovers: task.leftovers,
  });
}

function restartToJson(policy: RestartPolicy) {
  return withoutUndefined({
    Attempts: policy.attempts,
    Interval: policy.intervalMs * NS_PER_MS,
    Delay: policy.delayMs * NS_PER_MS,
    Mode: policy.mode,
    Factor: policy.factor,
    MaxDelay: policy.maxDelayMs === undefined ? undefined : policy.maxDelayMs * NS_PER_MS,
    Jitter: policy.jitter,
    ResetAfter: policy.resetAfterMs === undefined ? undefined : policy.resetAfterMs * NS_PER_MS,
  });
}

function withoutUndefined(record: Record<string, unknown>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
