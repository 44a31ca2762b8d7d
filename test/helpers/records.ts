/** Complete records for tests: a valid one each, with whatever a test cares about put over it. */
import type { StampedTaskEvent, TaskEvent } from '../../src/events/task-event.js';
import type { Job } from '../../src/jobspec/types.js';
import type {
  AllocRecord,
  DeploymentRecord,
  EvaluationRecord,
  Change,
  HookRecord,
  JobRecord,
  RunRecord,
  TaskRecord,
} from '../../src/state/store.js';
import { newTaskRecord } from '../../src/taskrunner/machine.js';

export const BOOT = 'b0070000-0000-4000-8000-000000000001';

export function jobSpec(id: string): Job {
  return {
    id,
    name: id,
    namespace: 'default',
    region: 'global',
    datacenters: ['dc1'],
    type: 'service',
    priority: 50,
    meta: {},
    groups: [],
  };
}

export function jobRecord(over: Partial<JobRecord> = {}): JobRecord {
  const id = over.id ?? 'web';
  return { id, version: 0, spec: jobSpec(id), stopped: false, submittedAtMs: 1_700_000_000_000, ...over };
}

export function allocRecord(over: Partial<AllocRecord> = {}): AllocRecord {
  return {
    id: 'a1',
    jobId: 'web',
    jobVersion: 0,
    group: 'front',
    index: 0,
    desiredStatus: 'run',
    desiredDescription: '',
    noShutdownDelay: false,
    clientStatus: 'pending',
    clientDescription: '',
    createdAtMs: 1_700_000_000_000,
    modifiedAtMs: 1_700_000_000_000,
    ...over,
  };
}

export function taskRecord(over: Partial<TaskRecord> = {}): TaskRecord {
  return { ...newTaskRecord('a1', 'server'), ...over };
}

export function runRecord(over: Partial<RunRecord> = {}): RunRecord {
  return {
    runId: 'r1',
    allocId: 'a1',
    task: 'server',
    attempt: 1,
    driver: 'raw_exec',
    bootId: BOOT,
    specHash: 'ab'.repeat(32),
    intendedAtMs: 1_700_000_000_000,
    handle: undefined,
    startedAtMs: undefined,
    outcome: undefined,
    ...over,
  };
}

export function hookRecord(over: Partial<HookRecord> = {}): HookRecord {
  return {
    allocId: 'a1',
    task: 'server',
    hook: 'task_dir',
    done: true,
    bootId: undefined,
    env: {},
    data: {},
    ...over,
  };
}

export function deploymentRecord(over: Partial<DeploymentRecord> = {}): DeploymentRecord {
  return {
    id: 'd1',
    jobId: 'web',
    jobVersion: 0,
    status: 'running',
    description: 'Deployment is running',
    groups: {},
    createdAtMs: 1_700_000_000_000,
    modifiedAtMs: 1_700_000_000_000,
    ...over,
  };
}

export function evaluationRecord(over: Partial<EvaluationRecord> = {}): EvaluationRecord {
  return {
    id: 'e1',
    jobId: 'web',
    jobType: 'service',
    priority: 50,
    triggeredBy: 'job-register',
    status: 'complete',
    description: '',
    deploymentId: undefined,
    waitUntilMs: undefined,
    jobModifyIndex: 1,
    beganAfter: 0,
    createdAtMs: 1_700_000_000_000,
    modifiedAtMs: 1_700_000_000_000,
    ...over,
  };
}

export function stamped(seq: number, event: TaskEvent = { type: 'Received' }): StampedTaskEvent {
  return { seq, atMs: 1_700_000_000_000 + seq, event };
}

export const putJob = (over?: Partial<JobRecord>): Change => ({ kind: 'put_job', job: jobRecord(over) });
export const putAlloc = (over?: Partial<AllocRecord>): Change => ({
  kind: 'put_alloc',
  alloc: allocRecord(over),
});
export const putTask = (over?: Partial<TaskRecord>): Change => ({ kind: 'put_task', task: taskRecord(over) });
export const putRun = (over?: Partial<RunRecord>): Change => ({ kind: 'put_run', run: runRecord(over) });
export const putHook = (over?: Partial<HookRecord>): Change => ({ kind: 'put_hook', hook: hookRecord(over) });
export const addEvent = (seq: number, event?: TaskEvent, allocId = 'a1', task = 'server'): Change => ({
  kind: 'add_task_event',
  allocId,
  task,
  event: stamped(seq, event),
});
