/** Owns how the update strategy of a group comes about (group over job over defaults) and Nomad's rules for it. */
import type { BlockRead, Found, Values } from './blocks.js';
import { UPDATE_DEFAULTS } from './defaults.js';
import type { UPDATE } from './schema/update.js';
import type { Session, Spot } from './session.js';
import type { JobType, TaskGroup, UpdateStrategy } from './types.js';
import { formatDuration } from './units.js';

type Keys = Values<typeof UPDATE.keys>;
type Block = Found<BlockRead<typeof UPDATE.keys>> | undefined;
type UpdateKey = keyof typeof UPDATE.keys;

export interface UpdateSources {
  readonly type: JobType;
  readonly job: Block;
  readonly group: Block;
}

/** The strategy that is in force for a group; undefined for a job that is not updated step by step. */
export function updateOf(type: JobType, group: Pick<TaskGroup, 'update'>): UpdateStrategy | undefined {
  return type === 'batch' || type === 'sysbatch' ? undefined : (group.update ?? UPDATE_DEFAULTS);
}

/** What was written, key by key, over the defaults; undefined when nothing was. Tells what Nomad would not take. */
export function resolveUpdate(sources: UpdateSources, session: Session): UpdateStrategy | undefined {
  const { type } = sources;
  const [job, group] = [unlessEmpty(sources.job, session), unlessEmpty(sources.group, session)];
  const place = (group ?? job)?.spot;
  if (place === undefined) return undefined;
  if (type === 'batch' || type === 'sysbatch') {
    tellOnce(place, `a \`${type}\` job has no \`update\`: its allocations run to their end`, session);
    return undefined;
  }
  const set: Partial<Keys> = group?.value.keys ?? {};
  const inherited: Partial<Keys> = job?.value.keys ?? {};
  const base = UPDATE_DEFAULTS;
  const strategy: UpdateStrategy = {
    maxParallel: (set.max_parallel ?? inherited.max_parallel)?.value ?? base.maxParallel,
    healthCheck: (set.health_check ?? inherited.health_check)?.value ?? base.healthCheck,
    minHealthyMs: (set.min_healthy_time ?? inherited.min_healthy_time)?.value ?? base.minHealthyMs,
    healthyDeadlineMs: (set.healthy_deadline ?? inherited.healthy_deadline)?.value ?? base.healthyDeadlineMs,
    progressDeadlineMs:
      (set.progress_deadline ?? inherited.progress_deadline)?.value ?? base.progressDeadlineMs,
    staggerMs: (set.stagger ?? inherited.stagger)?.value ?? base.staggerMs,
    autoRevert: (set.auto_revert ?? inherited.auto_revert)?.value ?? base.autoRevert,
    autoPromote: (set.auto_promote ?? inherited.auto_promote)?.value ?? base.autoPromote,
    canary: (set.canary ?? inherited.canary)?.value ?? base.canary,
  };
  if ((job?.value.clean ?? true) && (group?.value.clean ?? true)) {
    checkStrategy(
      strategy,
      (keys) => [group, job].flatMap((block) => spotsOf(keys, block))[0] ?? place,
      session,
    );
  }
  return strategy;
}

function checkStrategy(
  strategy: UpdateStrategy,
  spotOf: (keys: readonly UpdateKey[]) => Spot,
  session: Session,
): void {
  const { minHealthyMs, healthyDeadlineMs, progressDeadlineMs, staggerMs, autoPromote, canary } = strategy;
  if (minHealthyMs >= healthyDeadlineMs) {
    const [least, most] = [formatDuration(minHealthyMs), formatDuration(healthyDeadlineMs)];
    const message = `update: \`min_healthy_time\` (${least}) must be less than \`healthy_deadline\` (${most})`;
    tellOnce(spotOf(['min_healthy_time', 'healthy_deadline']), message, session);
  }
  if (progressDeadlineMs !== 0 && healthyDeadlineMs >= progressDeadlineMs) {
    const [healthy, progress] = [formatDuration(healthyDeadlineMs), formatDuration(progressDeadlineMs)];
    const message = `update: \`healthy_deadline\` (${healthy}) must be less than \`progress_deadline\` (${progress})`;
    tellOnce(spotOf(['healthy_deadline', 'progress_deadline']), message, session);
  }
  if (canary > 0) {
    tellOnce(
      spotOf(['canary']),
      'update: `canary` must be 0: a place of a group never holds two versions at once on one host',
      session,
    );
  }
  if (staggerMs === 0) tellOnce(spotOf(['stagger']), 'update: `stagger` must be more than 0', session);
  if (autoPromote && canary === 0) {
    tellOnce(spotOf(['auto_promote']), 'update: `auto_promote` needs `canary` to be more than 0', session);
  }
}

/** In Nomad's JSON a block of zeros means: not set. */
function unlessEmpty(block: Block, { dialect }: Session): Block {
  if (dialect !== 'json') return block;
  const found = Object.values(block?.value.keys ?? {}).filter((key) => key !== undefined);
  const isEmpty = found.every(({ value }) => value === 0 || value === false);
  return isEmpty && block?.value.clean === true && found.length > 0 ? undefined : block;
}

function spotsOf(keys: readonly UpdateKey[], block: Block): Spot[] {
  return keys.flatMap((key) => block?.value.keys[key]?.spot ?? []);
}

/** Groups that inherit the same block have the same fault: once is enough. */
function tellOnce(spot: Spot, message: string, session: Session): void {
  const isTold = session.faults.some((fault) => fault.path === spot.path && fault.message === message);
  if (!isTold) session.fault(spot, message);
}
