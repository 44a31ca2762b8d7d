/** Owns how the update policy of a group comes about (group over job over defaults) and the rules for it. */
import type { BlockRead, Found, Values } from './blocks.js';
import { UPDATE_DEFAULTS } from './defaults.js';
import type { UPDATE } from './schema/update.js';
import type { Session } from './session.js';
import type { JobType, TaskGroup, UpdatePolicy } from './types.js';
import { formatDuration } from './units.js';

type Keys = Values<typeof UPDATE.keys>;
type Key = keyof typeof UPDATE.keys;
type Block = Found<BlockRead<typeof UPDATE.keys>> | undefined;

export interface UpdateSources {
  readonly type: JobType;
  readonly job: Block;
  readonly group: Block;
}

/** The part of a group that says how it is updated; nothing when nobody asks for a deployment. */
export function resolveUpdate(sources: UpdateSources, session: Session): Pick<TaskGroup, 'update'> {
  const keys = setKeys(sources, session);
  const [first] = Object.values(keys);
  if (first === undefined) {
    const written = sources.group ?? sources.job;
    // Nomad's JSON writes a block of zeros for a job that has none.
    if (written === undefined || session.dialect === 'json') return {};
  }
  const asked = sources.group ?? sources.job;
  if (asked !== undefined && sources.type !== 'service' && sources.type !== 'system') {
    tellOnce(session, asked, `\`update\` is for service and system jobs, this one is \`${sources.type}\``);
    return {};
  }
  const policy: UpdatePolicy = {
    maxParallel: keys.max_parallel?.value ?? UPDATE_DEFAULTS.maxParallel,
    healthCheck: keys.health_check?.value ?? UPDATE_DEFAULTS.healthCheck,
    minHealthyTimeMs: keys.min_healthy_time?.value ?? UPDATE_DEFAULTS.minHealthyTimeMs,
    healthyDeadlineMs: keys.healthy_deadline?.value ?? UPDATE_DEFAULTS.healthyDeadlineMs,
    progressDeadlineMs: keys.progress_deadline?.value ?? UPDATE_DEFAULTS.progressDeadlineMs,
    autoRevert: keys.auto_revert?.value ?? UPDATE_DEFAULTS.autoRevert,
    autoPromote: keys.auto_promote?.value ?? UPDATE_DEFAULTS.autoPromote,
    staggerMs: keys.stagger?.value ?? UPDATE_DEFAULTS.staggerMs,
  };
  const isClean = (sources.group?.value.clean ?? true) && (sources.job?.value.clean ?? true);
  if (isClean) checkPolicy(policy, keys, session);
  return policy.maxParallel === 0 ? {} : { update: policy };
}

/** Each key from the nearest block that sets it. */
function setKeys({ job, group }: UpdateSources, session: Session): Partial<Keys> {
  const keys: Partial<Record<Key, unknown>> = {};
  for (const [level, block] of [
    ['job', job],
    ['group', group],
  ] as const) {
    if (block === undefined) continue;
    const found = Object.entries(block.value.keys) as [Key, Keys[Key]][];
    const isBlank = found.every(([, key]) => isZero(key?.value));
    for (const [name, key] of found) {
      if (key === undefined) continue;
      if (session.dialect === 'json' && (isBlank || (level === 'job' && isZero(key.value)))) continue;
      keys[name] = key;
    }
  }
  return keys as Partial<Keys>;
}

/** What Nomad's JSON writes for "not set". */
function isZero(value: unknown): boolean {
  return value === undefined || value === 0 || value === false;
}

function checkPolicy(policy: UpdatePolicy, keys: Partial<Keys>, session: Session): void {
  const { canary } = keys;
  if (canary !== undefined && canary.value > 0) {
    tellOnce(
      session,
      canary,
      '`canary` must be 0: holdfast runs no canaries, a place of a group never holds two versions at once',
      'remove it; `max_parallel` and `auto_revert` bound the harm of a bad version',
    );
  }
  const { minHealthyTimeMs, healthyDeadlineMs, progressDeadlineMs } = policy;
  const [least, healthy, progress] = [minHealthyTimeMs, healthyDeadlineMs, progressDeadlineMs].map(
    formatDuration,
  );
  if (minHealthyTimeMs >= healthyDeadlineMs) {
    const at = keys.healthy_deadline ?? keys.min_healthy_time;
    if (at !== undefined)
      tellOnce(
        session,
        at,
        `update: \`healthy_deadline\` (${healthy}) must be more than \`min_healthy_time\` (${least})`,
      );
  } else if (progressDeadlineMs !== 0 && healthyDeadlineMs >= progressDeadlineMs) {
    const at = keys.progress_deadline ?? keys.healthy_deadline;
    if (at !== undefined)
      tellOnce(
        session,
        at,
        `update: \`progress_deadline\` (${progress}) must be more than \`healthy_deadline\` (${healthy}), or 0 for none`,
      );
  }
}

/** Groups that inherit the same block have the same fault: once is enough. */
function tellOnce(session: Session, { spot }: Found<unknown>, message: string, hint?: string): void {
  const isTold = session.faults.some((fault) => fault.path === spot.path && fault.message === message);
  if (!isTold) session.fault(spot, message, hint);
}
