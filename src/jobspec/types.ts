/**
 * Owns the model of a job after parsing and defaults. Everything is readonly, camelCase, and has its unit in its
 * name; wire and file keys (snake_case, CamelCase) are renamed once, at the edge. A little over 300
 * lines because a reader of a job finds all of it on this page.
 */

export const JOB_TYPES = ['service', 'batch', 'system', 'sysbatch'] as const;
export type JobType = (typeof JOB_TYPES)[number];

/** What a user registers. */
export interface Job {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly region: string;
  readonly datacenters: readonly string[];
  readonly type: JobType;
  readonly priority: number;
  readonly meta: Readonly<Record<string, string>>;
  readonly groups: readonly TaskGroup[];
  /** Only of a job that is started by the clock: it runs nothing itself, each launch is a job of its own. */
  readonly periodic?: PeriodicSpec;
  /** Only of a job that is a pattern: each dispatch is a job of its own. */
  readonly parameterized?: ParameterizedSpec;
}

/** When a periodic job is launched. */
export interface PeriodicSpec {
  /** Cron expressions; at least one. */
  readonly crons: readonly string[];
  readonly timeZone: string;
  readonly prohibitOverlap: boolean;
  readonly enabled: boolean;
}

export const PAYLOADS = ['optional', 'required', 'forbidden'] as const;

/** What a dispatch must and may give. */
export interface ParameterizedSpec {
  readonly payload: (typeof PAYLOADS)[number];
  readonly metaRequired: readonly string[];
  readonly metaOptional: readonly string[];
}

/** Tasks that are placed together: one allocation each time. */
export interface TaskGroup {
  readonly name: string;
  /** How many allocations of this group there shall be. */
  readonly count: number;
  readonly meta: Readonly<Record<string, string>>;
  readonly tasks: readonly Task[];
  /** Ports of the host that an allocation has to itself; not there = none. */
  readonly ports?: readonly Port[];
  /** Not there = none. */
  readonly services?: readonly Service[];
  /** Wait between deciding to end the allocation and ending its tasks; not there = none. */
  readonly shutdownDelayMs?: number;
  /** How long an allocation of a batch job may run; not there = for ever. */
  readonly maxRunMs?: number;
  /** Directories that its tasks may mount, by label; not there = none. */
  readonly volumes?: Readonly<Record<string, GroupVolume>>;
  /** How a newer version takes over, as written; `updateOf` says what is in force when nothing was. */
  readonly update?: UpdateStrategy;
  /** What follows when an alloc has failed; undefined = it stays failed. */
  readonly reschedule?: ReschedulePolicy;
}

/** A directory that the agent offers. */
export interface GroupVolume {
  /** Its name in the agent's configuration. */
  readonly source: string;
  readonly readOnly: boolean;
}

/** Where a task sees one of its group's volumes. */
export interface VolumeMount {
  readonly volume: string;
  readonly destination: string;
  readonly readOnly: boolean;
}

export const DELAY_FUNCTIONS = ['constant', 'exponential', 'fibonacci'] as const;

export interface ReschedulePolicy {
  /** New allocs within `intervalMs`; without a meaning when `unlimited`. */
  readonly attempts: number;
  readonly intervalMs: number;
  readonly delayMs: number;
  readonly delayFunction: (typeof DELAY_FUNCTIONS)[number];
  /** Upper bound of a delay that grows; without a meaning when it is constant. */
  readonly maxDelayMs: number;
  readonly unlimited: boolean;
}

export interface Port {
  readonly label: string;
  /** The number; undefined = one is chosen. */
  readonly static: number | undefined;
}

/** What checks are about. */
export interface Service {
  readonly name: string;
  readonly tags: readonly string[];
  readonly checks: readonly ServiceCheck[];
}

export const CHECK_TYPES = ['http', 'tcp', 'script'] as const;
export const CHECK_STATUSES = ['passing', 'warning', 'critical'] as const;
export const ON_UPDATE = ['require_healthy', 'ignore_warnings', 'ignore'] as const;

/** One question that is asked again and again, after defaults. Text may hold `${…}`. */
export interface ServiceCheck {
  readonly name: string;
  readonly probe: CheckProbe;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** The task it is about; undefined = all main tasks. */
  readonly task: string | undefined;
  readonly initialStatus: (typeof CHECK_STATUSES)[number] | undefined;
  readonly successBeforePassing: number;
  readonly failuresBeforeCritical: number;
  readonly onUpdate: (typeof ON_UPDATE)[number];
  readonly restart: CheckRestart | undefined;
}

export interface CheckRestart {
  readonly limit: number;
  readonly graceMs: number;
  readonly ignoreWarnings: boolean;
}

export type CheckProbe =
  | {
      readonly kind: 'http';
      readonly address: string;
      /** A number as text, or the label of a port of the group. */
      readonly port: string;
      readonly protocol: 'http' | 'https';
      readonly path: string;
      readonly method: string;
      readonly headers: Readonly<Record<string, readonly string[]>>;
      readonly body: string;
      readonly skipVerify: boolean;
      readonly serverName: string | undefined;
    }
  | { readonly kind: 'tcp'; readonly address: string; readonly port: string }
  | { readonly kind: 'script'; readonly command: string; readonly args: readonly string[] };

/** One workload of a group, after defaults: nothing optional is left to be decided at run time. */
export interface Task {
  readonly name: string;
  readonly driver: string;
  /** The driver's own block, checked by the driver's schema; values as written, not yet interpolated. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string>>;
  /** User name or numeric id; undefined = the driver's default. */
  readonly user: string | undefined;
  readonly meta: Readonly<Record<string, string>>;
  readonly resources: Resources;
  readonly restart: RestartPolicy;
  /** Grace between the kill signal and SIGKILL; the agent caps it by its `max_kill_timeout` when it is used. */
  readonly killTimeoutMs: number;
  /** Signal name, undefined = the driver's default (SIGINT for executor drivers, as in Nomad). */
  readonly killSignal: string | undefined;
  /** Signals that ask it to end one after the other, instead of `killSignal`. Undefined, or absent in old records: none. */
  readonly stopSignals?: readonly StopSignal[] | undefined;
  /** Wait between deciding to stop and the kill signal. */
  readonly shutdownDelayMs: number;
  readonly logs: LogConfig;
  /** What happens to processes that outlive their task's leader. */
  readonly leftovers: 'kill' | 'keep';
  /** How long they may take to end by themselves before they are killed; not there = no time. */
  readonly leftoversTimeoutMs?: number;
  /** When this task ends, the others of its group end too. */
  readonly leader: boolean;
  /** Undefined = a main task. */
  readonly lifecycle: TaskLifecycle | undefined;
  /** Not there = none. */
  readonly services?: readonly Service[];
  /** What is fetched before a start, in order; undefined = nothing. */
  readonly artifacts?: readonly Artifact[];
  /** What is rendered before a start, in order; undefined = nothing. */
  readonly templates?: readonly Template[];
  /** What of its group's volumes it sees; undefined = nothing. */
  readonly volumeMounts?: readonly VolumeMount[];
  /** Where the payload of a dispatched job goes; undefined = nowhere. */
  readonly dispatchPayload?: { readonly file: string };
}

export const ARTIFACT_MODES = ['any', 'file', 'dir'] as const;

/** Values may hold `${…}`. */
export interface Artifact {
  readonly source: string;
  /** Within the task's directory, or that of the alloc. */
  readonly destination: string;
  readonly mode: (typeof ARTIFACT_MODES)[number];
  /** `checksum`, `archive`. */
  readonly options: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly chown: boolean;
}

export const CHANGE_MODES = ['noop', 'restart', 'signal', 'script'] as const;

/** `source` and `destination` may hold `${…}`. */
export interface Template {
  /** This or `source`. */
  readonly data?: string;
  readonly source?: string;
  readonly destination: string;
  /** Octal. */
  readonly perms: string;
  /** Undefined = of the agent. */
  readonly uid?: number;
  readonly gid?: number;
  readonly changeMode: (typeof CHANGE_MODES)[number];
  readonly changeSignal?: string;
  /** What runs in the task when the file has changed; with `changeMode` script. */
  readonly changeScript?: ChangeScript;
  readonly splayMs: number;
  /** What comes out is lines of `KEY=value` for the task's environment. */
  readonly env: boolean;
  readonly errorOnMissingKey: boolean;
  /** Not rendered again while the task runs. */
  readonly once: boolean;
  readonly leftDelimiter: string;
  readonly rightDelimiter: string;
}

/** `command` and `args` may hold `${…}`. */
export interface ChangeScript {
  readonly command: string;
  readonly args: readonly string[];
  readonly timeoutMs: number;
  /** A script that fails ends the task as failed. */
  readonly failOnError: boolean;
}

/** One signal of a ladder, and how long the task may take to end on it. */
export interface StopSignal {
  readonly signal: string;
  /** Undefined = an equal share of what the others leave of `killTimeoutMs`. */
  readonly waitMs: number | undefined;
}

/** When, in the life of its alloc, a task that is not a main task runs. */
export interface TaskLifecycle {
  /** Before the main tasks start, after they have started, or after everything else has ended. */
  readonly hook: (typeof LIFECYCLE_HOOKS)[number];
  /** Runs beside the main tasks until they end; false = runs once, to its end. */
  readonly sidecar: boolean;
}

export const LIFECYCLE_HOOKS = ['prestart', 'poststart', 'poststop'] as const;

export interface Resources {
  /** MHz, as Nomad counts: a relative share when CPU is short. */
  readonly cpuMhz: number;
  /** Hard quota in percent of one core (150 = one and a half cores); undefined = none. */
  readonly cpuPercent: number | undefined;
  /** Memory in MiB; the hard limit when `memoryMaxMib` is undefined. */
  readonly memoryMib: number;
  /** Hard limit in MiB above `memoryMib`; -1 = no hard limit; undefined = `memoryMib` is the limit. */
  readonly memoryMaxMib: number | undefined;
  /** Most processes and threads; undefined = no limit. */
  readonly pids: number | undefined;
  /** Cores that no other task has; absent = none. */
  readonly cores?: number;
  /** Most swap in MiB beside the memory; -1 = no limit; absent = none, as far as the kernel can. */
  readonly memorySwapMib?: number;
  /** Share of a busy disk, 1 … 10,000; absent = 100. */
  readonly ioWeight?: number;
  /** Most MiB a second, from and to each disk; absent = no limit. */
  readonly ioReadMib?: number;
  readonly ioWriteMib?: number;
}

export interface RestartPolicy {
  /** Restarts allowed within `intervalMs`. */
  readonly attempts: number;
  readonly intervalMs: number;
  readonly delayMs: number;
  /** When the attempts are used up: `fail` the task, or `delay` until the interval ends. */
  readonly mode: 'fail' | 'delay';
  /** Growth of the delay with each restart in the window; 1 = constant. */
  readonly factor: number;
  /** Upper bound of a grown delay; undefined = none. */
  readonly maxDelayMs: number | undefined;
  /** Up to this fraction of the delay is added at random. */
  readonly jitter: number;
  /** A run that lasted this long clears the count of restarts; undefined = only the interval does. */
  readonly resetAfterMs: number | undefined;
}

export const HEALTH_CHECKS = ['checks', 'task_states', 'manual'] as const;

/** How allocs of a newer version take the place of older ones, and when one of them is healthy. */
export interface UpdateStrategy {
  /** Allocs replaced at a time; 0 = all at once. */
  readonly maxParallel: number;
  readonly healthCheck: (typeof HEALTH_CHECKS)[number];
  readonly minHealthyMs: number;
  readonly healthyDeadlineMs: number;
  /** 0 = the first unhealthy alloc fails the update. */
  readonly progressDeadlineMs: number;
  readonly staggerMs: number;
  readonly autoRevert: boolean;
  readonly autoPromote: boolean;
  readonly canary: number;
}

export interface LogConfig {
  /** Files kept per stream. */
  readonly maxFiles: number;
  readonly maxFileSizeMib: number;
  readonly disabled: boolean;
  /** Whether files that are complete are compressed. Absent in jobs stored by older versions: not. */
  readonly compress?: boolean;
}
