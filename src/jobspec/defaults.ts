/** Owns every default of a job file, each with its source. Defaults are Nomad's wherever Nomad has the key. */
import type { JobType, ReschedulePolicy, RestartPolicy, UpdateStrategy } from './types.js';

/** A value and who says so. */
export interface Default<T> {
  readonly value: T;
  readonly source: string;
}

const NOMAD = 'Nomad';
const OURS = 'holdfast';

/** Defaults of single keys; what is not here has none and stays undefined. */
export const DEFAULTS = {
  namespace: { value: 'default', source: NOMAD },
  region: { value: 'global', source: NOMAD },
  datacenters: { value: ['*'], source: `${NOMAD} (since 1.5)` },
  type: { value: 'service', source: NOMAD },
  priority: { value: 50, source: NOMAD },
  count: { value: 1, source: NOMAD },
  cpuMhz: { value: 100, source: NOMAD },
  memoryMib: { value: 300, source: NOMAD },
  killTimeoutMs: { value: 5_000, source: NOMAD },
  shutdownDelayMs: { value: 0, source: NOMAD },
  maxFiles: { value: 10, source: NOMAD },
  maxFileSizeMib: { value: 10, source: NOMAD },
  logsDisabled: { value: false, source: NOMAD },
  /** Nomad kills what outlives a task, wherever it has a cgroup to find it. */
  leftovers: { value: 'kill', source: NOMAD },
  leftoversTimeoutMs: { value: 0, source: NOMAD },
  leader: { value: false, source: NOMAD },
  sidecar: { value: false, source: NOMAD },
  artifactDestination: { value: 'local/', source: NOMAD },
  artifactMode: { value: 'any', source: NOMAD },
  artifactChown: { value: false, source: NOMAD },
  templatePerms: { value: '0644', source: NOMAD },
  changeMode: { value: 'restart', source: NOMAD },
  splayMs: { value: 5_000, source: NOMAD },
  changeScriptTimeoutMs: { value: 5_000, source: NOMAD },
  changeScriptFailOnError: { value: false, source: NOMAD },
  templateEnv: { value: false, source: NOMAD },
  errorOnMissingKey: { value: false, source: NOMAD },
  templateOnce: { value: false, source: NOMAD },
  leftDelimiter: { value: '{{', source: NOMAD },
  rightDelimiter: { value: '}}', source: NOMAD },
} as const satisfies Record<string, Default<unknown>>;

/** Keys of `restart` that Nomad has not; chosen so that nothing changes for a file of Nomad's. */
const RESTART_OURS = {
  /** Nomad's delay does not grow. */
  factor: 1,
  maxDelayMs: undefined,
  /** Nomad adds up to a quarter of the delay and has no key for it. */
  jitter: 0.25,
  resetAfterMs: undefined,
} as const;

/** Nomad: 2 restarts in 30 minutes, 15 s apart, then fail. */
const RESTART_SERVICE: RestartPolicy = {
  attempts: 2,
  intervalMs: 30 * 60_000,
  delayMs: 15_000,
  mode: 'fail',
  ...RESTART_OURS,
};

/** Nomad: 3 restarts in 24 hours, 15 s apart, then fail. */
const RESTART_BATCH: RestartPolicy = { ...RESTART_SERVICE, attempts: 3, intervalMs: 24 * 3_600_000 };

/** The restart policy of a task that says nothing about it, by the type of its job. */
export const RESTART_DEFAULTS: Readonly<Record<JobType, RestartPolicy>> = {
  service: RESTART_SERVICE,
  system: RESTART_SERVICE,
  batch: RESTART_BATCH,
  sysbatch: RESTART_BATCH,
};

/** Nomad's update strategy, for services and system jobs that say nothing about it. */
export const UPDATE_DEFAULTS: UpdateStrategy = {
  maxParallel: 1,
  healthCheck: 'checks',
  minHealthyMs: 10_000,
  healthyDeadlineMs: 5 * 60_000,
  progressDeadlineMs: 10 * 60_000,
  staggerMs: 30_000,
  autoRevert: false,
  autoPromote: false,
  canary: 0,
};

/** Nomad: a service is tried for ever, after 30 s, 1 min, 2 min … 1 h; a batch job once a day, after 5 s. */
export const RESCHEDULE_DEFAULTS: Readonly<Record<'service' | 'batch', ReschedulePolicy>> = {
  service: {
    attempts: 0,
    intervalMs: 0,
    delayMs: 30_000,
    delayFunction: 'exponential',
    maxDelayMs: 3_600_000,
    unlimited: true,
  },
  batch: {
    attempts: 1,
    intervalMs: 24 * 3_600_000,
    delayMs: 5_000,
    delayFunction: 'constant',
    maxDelayMs: 0,
    unlimited: false,
  },
};

/** Of a check; Nomad's. */
export const CHECK_DEFAULTS = {
  protocol: 'http',
  path: '/',
  method: 'GET',
  onUpdate: 'require_healthy',
  graceMs: 1_000,
} as const;

/** Bounds of values, each with its source. */
export const BOUNDS = {
  priority: { least: 1, most: 100, source: NOMAD },
  /** Every allocation has its own directory, records and runner: a slip of the keyboard must not make millions. */
  count: { least: 0, most: 10_000, source: OURS },
  /** As many as there can be allocs. */
  maxParallel: { least: 0, most: 10_000, source: OURS },
  canary: { least: 0, most: 10_000, source: OURS },
  port: { least: 1, most: 65_535, source: 'TCP' },
  checkLimit: { least: 0, most: 1_000_000, source: OURS },
  /** Nomad: a check that asks more often is a load of its own. */
  checkIntervalMs: { least: 1_000, source: NOMAD },
  cpuMhz: { least: 1, most: 10_000_000, source: NOMAD },
  cpuPercent: { least: 1, most: 1_000_000, source: OURS },
  /** 10 MiB is the least that Nomad takes; the upper bound (1 PiB) keeps bytes exact in a double. */
  memoryMib: { least: 10, most: 2 ** 30, source: NOMAD },
  /** Nomad's JSON says 0 where none are asked for. */
  cores: { least: 0, most: 8_192, source: `${OURS}: the most that Linux knows` },
  swapMib: { least: -1, most: 2 ** 30, source: OURS },
  /** Of cgroup v2. */
  ioWeight: { least: 1, most: 10_000, source: 'the kernel' },
  ioMib: { least: 1, most: 2 ** 20, source: OURS },
  pids: { least: 1, most: 4_194_304, source: `${OURS}: the kernel's own limit` },
  attempts: { least: 0, most: 1_000_000, source: OURS },
  /** Nomad: a shorter interval forgets restarts before they can count. */
  intervalMs: { least: 5_000, source: NOMAD },
  /** Nomad: 5 s. Shorter would make allocs, with their directories, faster than anybody can look at them. */
  rescheduleDelayMs: { least: 1_000, source: OURS },
  factor: { least: 1, most: 100, source: OURS },
  jitter: { least: 0, most: 1, source: OURS },
  maxFiles: { least: 1, most: 10_000, source: NOMAD },
  /** -1 = not set; the kernel's highest is "nobody at all". */
  fileOwner: { least: -1, most: 4_294_967_294, source: NOMAD },
  maxFileSizeMib: { least: 1, most: 1_048_576, source: NOMAD },
} as const;

/** Above this an agent shortens a kill timeout, unless its own `max_kill_timeout` says otherwise (Nomad: 30 s). */
export const USUAL_MOST_KILL_TIMEOUT_MS = 30_000;

/** Longest name of a job, group or task, in bytes: it becomes part of file and cgroup names (255 at most). */
export const LONGEST_NAME = 128;
