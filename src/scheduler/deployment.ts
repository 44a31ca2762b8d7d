/**
 * Owns the life of a deployment: when one is made, how far it has come, when it has succeeded or failed, and which
 * version a failed one goes back to. Pure; all deadlines are in the record, so that they outlive the agent.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Job, TaskGroup, UpdateStrategy } from '../jobspec/types.js';
import type { AllocRecord, DeploymentGroup, DeploymentRecord, JobRecord, Moment } from '../state/store.js';
import { leftMs, momentAfter, rebased } from './reschedule.js';

/** What an alloc that was well while nobody looked is given, after its `min_healthy_time`, to be found so. */
const AFTER_ABSENCE_MS = 5_000;

/** The strategy by which places of a group are updated a few at a time; undefined = all at once. */
export function rolling(job: Job, group: TaskGroup): UpdateStrategy | undefined {
  const isLasting = job.type === 'service' || job.type === 'system';
  return isLasting && group.update !== undefined && group.update.maxParallel > 0 ? group.update : undefined;
}

/** Active: it has work to do, or waits to be let on. */
export function isActive({ status }: DeploymentRecord): boolean {
  return status === 'running' || status === 'paused';
}

/** The deployment of a job version that was just registered; undefined when nothing of it is updated step by step. */
export function newDeployment(job: JobRecord, id: string, now: Moment): DeploymentRecord | undefined {
  const groups = job.spec.groups.flatMap((group): [string, DeploymentGroup][] => {
    const strategy = rolling(job.spec, group);
    if (strategy === undefined || group.count === 0) return [];
    const { progressDeadlineMs, autoRevert } = strategy;
    const requireProgressBy = progressDeadlineMs === 0 ? undefined : momentAfter(now, progressDeadlineMs);
    return [
      [
        group.name,
        {
          desiredTotal: group.count,
          autoRevert,
          progressDeadlineMs,
          placed: 0,
          healthy: 0,
          unhealthy: 0,
          requireProgressBy,
        },
      ],
    ];
  });
  if (job.stopped || groups.length === 0) return undefined;
  return {
    id,
    jobId: job.id,
    jobVersion: job.version,
    status: 'running',
    description: 'Deployment is running',
    groups: Object.fromEntries(groups),
    createdAtMs: now.wallMs,
    modifiedAtMs: now.wallMs,
  };
}

/** The same with another status; what is over has no deadline any more. */
export function withStatus(
  deployment: DeploymentRecord,
  status: DeploymentRecord['status'],
  description: string,
  nowMs: number,
): DeploymentRecord {
  const isOver = status !== 'running' && status !== 'paused';
  const groups = Object.entries(deployment.groups).map(([name, group]): [string, DeploymentGroup] => [
    name,
    isOver ? { ...group, requireProgressBy: undefined } : group,
  ]);
  return { ...deployment, status, description, groups: Object.fromEntries(groups), modifiedAtMs: nowMs };
}

/** What became of an active deployment. */
export type DeploymentVerdict =
  | { readonly kind: 'going'; readonly deployment: DeploymentRecord }
  | { readonly kind: 'successful'; readonly deployment: DeploymentRecord }
  /** `deployment` is as it was: whoever fails it knows what follows. */
  | {
      readonly kind: 'failed';
      readonly deployment: DeploymentRecord;
      readonly why: string;
      readonly revert: boolean;
    };

/**
 * Counts what is known and judges by it. Gives the very same record when nothing is new.
 * @param allocs all of the job, in the order they were made
 */
export function judgeDeployment(
  deployment: DeploymentRecord,
  allocs: readonly AllocRecord[],
  now: Moment,
): DeploymentVerdict {
  const counted = Object.entries(deployment.groups).map(([name, group]) => {
    const current = allocsOf(deployment, name, group, allocs);
    const healthy = current.filter(isHealthy).length;
    const hasProgress = healthy > group.healthy;
    const isDone = healthy >= group.desiredTotal;
    const deadline = isDone
      ? undefined
      : hasProgress && group.progressDeadlineMs > 0
        ? momentAfter(now, group.progressDeadlineMs)
        : group.requireProgressBy;
    const unhealthy = current.filter(isUnhealthy);
    const next: DeploymentGroup = {
      ...group,
      placed: current.length,
      healthy,
      unhealthy: unhealthy.length,
      requireProgressBy: deadline,
    };
    return { name, before: group, group: next, unhealthy, isDone };
  });
  const isSame = counted.every(({ before, group }) => isDeepStrictEqual(before, group));
  const groups = Object.fromEntries(counted.map(({ name, group }) => [name, group]));
  const next = isSame ? deployment : { ...deployment, groups, modifiedAtMs: now.wallMs };
  if (counted.every(({ isDone }) => isDone)) return { kind: 'successful', deployment: next };
  const revert = counted.some(({ group }) => group.autoRevert);
  if (counted.some(({ unhealthy }) => unhealthy.length > 0)) {
    return { kind: 'failed', deployment: next, why: 'Failed due to unhealthy allocations', revert };
  }
  const isLate =
    deployment.status === 'running' &&
    counted.some(({ group }) => {
      const { requireProgressBy, progressDeadlineMs } = group;
      return requireProgressBy !== undefined && leftMs(requireProgressBy, progressDeadlineMs, now) === 0;
    });
  if (isLate) return { kind: 'failed', deployment: next, why: 'Failed due to progress deadline', revert };
  return { kind: 'going', deployment: next };
}

/** The newest alloc of each place of a group, where it belongs to the deployment. */
function allocsOf(
  { id }: DeploymentRecord,
  name: string,
  { desiredTotal }: DeploymentGroup,
  allocs: readonly AllocRecord[],
): readonly AllocRecord[] {
  const newest = new Map<number, AllocRecord>();
  for (const alloc of allocs) if (alloc.group === name) newest.set(alloc.index, alloc);
  return [...newest.values()].filter(
    (alloc) => alloc.deploymentId === id && alloc.index < desiredTotal && alloc.desiredStatus === 'run',
  );
}

function isHealthy(alloc: AllocRecord): boolean {
  return alloc.health?.healthy === true && !isUnhealthy(alloc);
}

function isUnhealthy(alloc: AllocRecord): boolean {
  return alloc.health?.healthy === false || alloc.clientStatus === 'failed' || alloc.clientStatus === 'lost';
}

/** How long until a deadline has to be looked at; undefined = none is set. */
export function deploymentWaitMs(deployment: DeploymentRecord, now: Moment): number | undefined {
  if (deployment.status !== 'running') return undefined;
  const waits = Object.values(deployment.groups).flatMap(({ requireProgressBy, progressDeadlineMs }) =>
    requireProgressBy === undefined ? [] : [leftMs(requireProgressBy, progressDeadlineMs, now)],
  );
  return waits.length === 0 ? undefined : Math.min(...waits);
}

/** The same, going on after a pause: its deadlines begin anew. */
export function resumed(deployment: DeploymentRecord, now: Moment): DeploymentRecord {
  const groups = Object.entries(deployment.groups).map(([name, group]): [string, DeploymentGroup] => {
    const isOpen = group.requireProgressBy !== undefined;
    return [
      name,
      isOpen ? { ...group, requireProgressBy: momentAfter(now, group.progressDeadlineMs) } : group,
    ];
  });
  return { ...deployment, groups: Object.fromEntries(groups) };
}

/** A deadline that passed while no agent was there is moved so that what is well can be found so first. */
export function graceAfterAbsence(deployment: DeploymentRecord, job: Job, now: Moment): DeploymentRecord {
  const groups = Object.entries(deployment.groups).map(([name, group]): [string, DeploymentGroup] => {
    const { requireProgressBy, progressDeadlineMs } = group;
    const spec = job.groups.find((candidate) => candidate.name === name);
    const graceMs = (spec?.update?.minHealthyMs ?? 0) + AFTER_ABSENCE_MS;
    if (requireProgressBy === undefined) return [name, group];
    const isNear = leftMs(requireProgressBy, progressDeadlineMs, now) < graceMs;
    const due = isNear ? momentAfter(now, graceMs) : rebased(requireProgressBy, progressDeadlineMs, now);
    return [name, { ...group, requireProgressBy: due }];
  });
  return { ...deployment, groups: Object.fromEntries(groups) };
}

/** Which version a failed deployment goes back to. */
export type Revert =
  | { readonly kind: 'to'; readonly version: number; readonly spec: Job }
  | { readonly kind: 'none'; readonly why: string };

/** @param versions what is remembered of the job, newest first */
export function chooseRevert(
  failed: DeploymentRecord,
  versions: readonly JobRecord[],
  deployments: readonly DeploymentRecord[],
): Revert {
  const isStable = (version: number): boolean =>
    deployments.some(({ jobVersion, status }) => jobVersion === version && status === 'successful');
  const current = versions.find(({ version }) => version === failed.jobVersion);
  const stable = versions.find(
    ({ version, stopped }) => version < failed.jobVersion && !stopped && isStable(version),
  );
  if (stable === undefined) return { kind: 'none', why: 'no stable job version to auto revert to' };
  if (current !== undefined && isDeepStrictEqual(current.spec, stable.spec)) {
    const why = `not rolling back to stable job version ${stable.version} as current job has same specification`;
    return { kind: 'none', why };
  }
  return { kind: 'to', version: stable.version, spec: stable.spec };
}
