/**
 * Owns the words of draining: whether this host takes new allocs, which of those it has must go and when. Pure. As in
 * Nomad, what serves is stopped at once, what works on a batch may finish until the deadline, and system jobs go last.
 */
import type { Job, JobType } from '../jobspec/types.js';
import type { Moment } from '../state/store.js';
import type { Placement } from './place.js';

/** Whether this host takes new allocs, and what it is getting rid of. */
export interface NodeScheduling {
  readonly eligible: boolean;
  readonly drain: Drain | undefined;
}

/** A drain under way. */
export interface Drain {
  readonly startedAtMs: number;
  /** As asked for: what is left then is stopped whatever it is. Undefined = there is none; 0 = at once. */
  readonly deadlineMs: number | undefined;
  readonly dueAt: Moment | undefined;
  readonly ignoreSystemJobs: boolean;
}

export const ELIGIBLE: NodeScheduling = { eligible: true, drain: undefined };

/** Reads what was stored. What cannot be read counts as a host that nobody drains. */
export function parseNodeScheduling(text: string | undefined): NodeScheduling {
  if (text === undefined || text === '') return ELIGIBLE;
  try {
    const stored = JSON.parse(text) as Partial<NodeScheduling>;
    return { eligible: stored.eligible !== false, drain: stored.drain };
  } catch {
    return ELIGIBLE;
  }
}

/** How long the drain may still take; undefined = there is no deadline. Across a reboot only the wall clock is left. */
export function drainLeftMs({ dueAt, deadlineMs }: Drain, now: Moment): number | undefined {
  if (dueAt === undefined || deadlineMs === undefined) return undefined;
  if (dueAt.bootId === now.bootId) return Math.max(0, dueAt.monoMs - now.monoMs);
  return Math.max(0, Math.min(dueAt.wallMs - now.wallMs, deadlineMs));
}

/** One alloc of this host, as far as draining is concerned. */
export interface Drained {
  readonly allocId: string;
  readonly type: JobType;
}

/**
 * What of the live allocs is to be stopped now, and what is waited for. The drain is over when both are empty.
 * @param isDue the deadline has passed
 */
export function planDrain(
  live: readonly Drained[],
  { ignoreSystemJobs }: Pick<Drain, 'ignoreSystemJobs'>,
  isDue: boolean,
): { readonly stop: readonly string[]; readonly wait: readonly string[] } {
  const ids = (types: readonly JobType[]): readonly string[] =>
    live.filter(({ type }) => types.includes(type)).map(({ allocId }) => allocId);
  const system = ignoreSystemJobs ? [] : ids(['system', 'sysbatch']);
  const services = ids(['service']);
  const batches = ids(['batch']);
  if (isDue) return { stop: [...services, ...batches, ...system], wait: [] };
  if (services.length + batches.length > 0) return { stop: services, wait: [...batches, ...system] };
  return { stop: system, wait: [] };
}

/**
 * What of an evaluation is carried out while this host takes nothing new: it stops what nobody wants any more, and an
 * alloc that a newer version would replace stays until it can be replaced.
 */
export function whileIneligible(
  placements: readonly Placement[],
  job: { readonly stopped: boolean; readonly spec: Job },
): readonly Placement[] {
  const isWanted = (group: string, index: number): boolean =>
    !job.stopped && job.spec.groups.some(({ name, count }) => name === group && index < count);
  return placements.filter((placement) => {
    if (placement.kind === 'stop') return !isWanted(placement.alloc.group, placement.alloc.index);
    return placement.kind !== 'create';
  });
}
