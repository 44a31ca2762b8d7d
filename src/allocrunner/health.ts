/**
 * Owns when an alloc counts as healthy or unhealthy, for whoever replaces allocs by newer ones. Pure, and a function of
 * stored records and of what the checks say now: a verdict is reached once, is stored, and stands until a newer job
 * version is taken up.
 */
import { isSidecar, roleOf } from '../jobspec/lifecycle.js';
import type { UpdateStrategy } from '../jobspec/types.js';
import { formatDuration } from '../jobspec/units.js';
import type { AllocHealth, AllocRecord, HealthWatch, Moment } from '../state/store.js';
import { elapsedMs } from '../taskrunner/restart-policy.js';
import type { GatedTask } from './lifecycle-gate.js';

/** A task, and whether this agent knows that it runs: a record alone may be from before the agent came back. */
export interface WatchedTask extends GatedTask {
  readonly isSupervised: boolean;
}

/** What the checks that count say together. */
export type CheckVerdict =
  | { readonly kind: 'none' }
  | { readonly kind: 'passing' }
  | { readonly kind: 'not_passing'; readonly detail: string };

export interface HealthInput {
  readonly alloc: Pick<AllocRecord, 'jobVersion' | 'health' | 'healthWatch'>;
  /** Undefined for jobs whose allocs run to their end: they are never judged. */
  readonly strategy: UpdateStrategy | undefined;
  readonly tasks: readonly WatchedTask[];
  readonly checks: CheckVerdict;
  readonly now: Moment;
}

export interface HealthState {
  readonly health: AllocHealth | undefined;
  readonly watch: HealthWatch | undefined;
  /** When to look again if nothing happens; undefined = only when something does. */
  readonly lookAgainInMs: number | undefined;
}

/** Where the alloc stands now. The same objects as before when nothing has changed. */
export function decideHealth(input: HealthInput): HealthState {
  const { alloc, strategy, tasks, now } = input;
  if (strategy === undefined || strategy.healthCheck === 'manual') {
    return { health: alloc.health, watch: alloc.healthWatch, lookAgainInMs: undefined };
  }
  const known = alloc.healthWatch?.jobVersion === alloc.jobVersion ? alloc.healthWatch : undefined;
  const watch: HealthWatch = known ?? { jobVersion: alloc.jobVersion, opened: now, steady: undefined };
  if (known !== undefined && alloc.health !== undefined) {
    return { health: alloc.health, watch, lookAgainInMs: undefined };
  }

  const verdict = (healthy: boolean, detail: string): HealthState => ({
    health: { healthy, atMs: now.wallMs, detail },
    watch: unsteady(watch),
    lookAgainInMs: undefined,
  });
  const lost = tasks.find(isLost);
  if (lost !== undefined) {
    const what = lost.record.failed ? 'failed' : 'is dead';
    return verdict(false, `task ${JSON.stringify(lost.task.name)} ${what}`);
  }
  const leftMs = strategy.healthyDeadlineMs - elapsedMs(watch.opened, now);
  const doubt = whyNotWell(input, strategy);
  if (doubt === undefined) {
    const steady = keepSteady(watch, tasks, now);
    const missingMs = strategy.minHealthyMs - elapsedMs(steady.since, now);
    if (missingMs <= 0) return verdict(true, `after ${roughly(elapsedMs(watch.opened, now))}`);
    if (leftMs > 0) {
      const next = steady === watch.steady ? watch : { ...watch, steady };
      return { health: undefined, watch: next, lookAgainInMs: Math.min(missingMs, leftMs) };
    }
  }
  if (leftMs > 0) return { health: undefined, watch: unsteady(watch), lookAgainInMs: leftMs };
  const least = formatDuration(strategy.minHealthyMs);
  const why = doubt ?? `it has not been well for min_healthy_time (${least}) without a break`;
  return verdict(false, `${why} at the healthy_deadline (${formatDuration(strategy.healthyDeadlineMs)})`);
}

/** What must never be: a task that failed, or one that shall run on and has ended. */
export function isLost({ task, record }: WatchedTask): boolean {
  const role = roleOf(task);
  if (role === 'poststop' || record.state !== 'dead') return false;
  return record.failed || role === 'main' || isSidecar(role);
}

/** What is missing for the alloc to be well now, in words; undefined = nothing. */
function whyNotWell(
  { tasks, checks }: Pick<HealthInput, 'tasks' | 'checks'>,
  { healthCheck }: UpdateStrategy,
): string | undefined {
  const missing = tasks.find((one) => whyTaskIsNotWell(one) !== undefined);
  if (missing !== undefined) {
    return `task ${JSON.stringify(missing.task.name)} ${whyTaskIsNotWell(missing) ?? ''}`;
  }
  return healthCheck === 'checks' && checks.kind === 'not_passing' ? checks.detail : undefined;
}

/** Why a task keeps its alloc from being well; undefined = it does not. */
export function whyTaskIsNotWell({ task, record, isSupervised }: WatchedTask): string | undefined {
  const role = roleOf(task);
  if (role === 'poststop') return undefined;
  if (role === 'prestart') return record.state === 'dead' ? undefined : 'has not ended yet';
  if (role === 'poststart') return record.state === 'pending' ? 'has not started yet' : undefined;
  if (record.state === 'running' && record.phase === 'running' && isSupervised) return undefined;
  return `is not running (${record.phase})`;
}

/** The time since when nothing has been started anew. */
function keepSteady(
  watch: HealthWatch,
  tasks: readonly WatchedTask[],
  now: Moment,
): NonNullable<HealthWatch['steady']> {
  const runs = tasks
    .filter(({ task }) => roleOf(task) === 'main' || isSidecar(roleOf(task)))
    .map(({ record }) => record.runId ?? '')
    .join(' ');
  return watch.steady?.runs === runs ? watch.steady : { since: now, runs };
}

function unsteady(watch: HealthWatch): HealthWatch {
  return watch.steady === undefined ? watch : { ...watch, steady: undefined };
}

function roughly(ms: number): string {
  return formatDuration(ms < 1_000 ? Math.round(ms) : Math.round(ms / 1_000) * 1_000);
}
