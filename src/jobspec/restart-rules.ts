/** Owns how the restart policy of a task comes about (task over group over defaults) and Nomad's rules for it. */
import type { BlockRead, Found, Values } from './blocks.js';
import { BOUNDS, RESTART_DEFAULTS } from './defaults.js';
import type { RESTART } from './schema/restart.js';
import type { Session, Spot } from './session.js';
import type { JobType, RestartPolicy } from './types.js';
import { formatDuration } from './units.js';

type Keys = Values<typeof RESTART.keys>;
type Block = Found<BlockRead<typeof RESTART.keys>> | undefined;
type RestartKey = keyof typeof RESTART.keys;

export interface RestartSources {
  readonly type: JobType;
  readonly group: Block;
  readonly task: Block;
  /** The task, where a fault stands when no key is to blame. */
  readonly place: Spot;
}

/** The policy in force, key by key; tells what Nomad would not take. */
export function resolveRestart(sources: RestartSources, session: Session): RestartPolicy {
  const base = RESTART_DEFAULTS[sources.type];
  const set: Partial<Keys> = sources.task?.value.keys ?? {};
  const inherited: Partial<Keys> = sources.group?.value.keys ?? {};
  const policy: RestartPolicy = {
    attempts: (set.attempts ?? inherited.attempts)?.value ?? base.attempts,
    intervalMs: (set.interval ?? inherited.interval)?.value ?? base.intervalMs,
    delayMs: (set.delay ?? inherited.delay)?.value ?? base.delayMs,
    mode: (set.mode ?? inherited.mode)?.value ?? base.mode,
    factor: (set.factor ?? inherited.factor)?.value ?? base.factor,
    maxDelayMs: (set.max_delay ?? inherited.max_delay)?.value ?? base.maxDelayMs,
    jitter: (set.jitter ?? inherited.jitter)?.value ?? base.jitter,
    resetAfterMs: (set.reset_after ?? inherited.reset_after)?.value ?? base.resetAfterMs,
  };
  const { task, group } = sources;
  if ((task?.value.clean ?? true) && (group?.value.clean ?? true)) checkPolicy(policy, sources, session);
  return policy;
}

function checkPolicy(policy: RestartPolicy, sources: RestartSources, session: Session): void {
  const tell = (keys: readonly RestartKey[], message: string, hint?: string) => {
    const spot = spotOf(keys, sources);
    // Tasks that inherit the same policy have the same fault: once is enough.
    const isTold = session.faults.some((fault) => fault.path === spot.path && fault.message === message);
    if (!isTold) session.fault(spot, message, hint);
  };
  const { attempts, intervalMs, delayMs, mode, maxDelayMs } = policy;
  if (attempts === 0 && mode !== 'fail') {
    tell(
      ['mode', 'attempts'],
      'restart: `attempts` of 0 needs `mode` to be "fail"',
      'with "delay" it would wait for ever',
    );
  }
  if (intervalMs < BOUNDS.intervalMs.least) {
    const least = formatDuration(BOUNDS.intervalMs.least);
    tell(
      ['interval'],
      `restart: \`interval\` must be at least ${least}, found ${formatDuration(intervalMs)}`,
    );
  } else if (attempts * delayMs > intervalMs) {
    const [delay, interval] = [formatDuration(delayMs), formatDuration(intervalMs)];
    const message = `restart: ${attempts} attempts with a delay of ${delay} do not fit into an interval of ${interval}`;
    tell(
      ['delay', 'attempts', 'interval'],
      message,
      `make \`interval\` at least ${formatDuration(attempts * delayMs)}`,
    );
  }
  if (maxDelayMs !== undefined && maxDelayMs < delayMs) {
    const message = `restart: \`max_delay\` (${formatDuration(maxDelayMs)}) is less than \`delay\` (${formatDuration(delayMs)})`;
    tell(['max_delay', 'delay'], message);
  }
}

/** Where the first of `keys` that somebody wrote stands; else the task. */
function spotOf(keys: readonly RestartKey[], { task, group, place }: RestartSources): Spot {
  for (const block of [task, group]) {
    for (const key of keys) {
      const found = block?.value.keys[key];
      if (found !== undefined) return found.spot;
    }
  }
  return place;
}
