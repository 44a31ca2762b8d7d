/**
 * Owns the keys of each driver's `config` block: one strict schema per driver, used by the validator on what was
 * written and by the driver on what interpolation made of it. Knows nothing of how a driver runs anything.
 */
import * as z from 'zod';
import { AgentError } from '../base/errors.js';
import type { Capability } from './capability-names.js';
import {
  absolutePath,
  bool,
  capabilities,
  durationMs,
  filledText,
  octal,
  oneOf,
  rlimits,
  signal,
  terminalSize,
  text,
  texts,
  whole,
  type Rlimit,
  type TerminalSize,
} from './config-fields.js';
import { suggest } from './words.js';

/** What both drivers that run programs are told of the process. */
export interface ProgramConfig {
  /** Absolute path, or a name that is looked for. */
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute, as the task sees it; undefined = the driver's default. */
  readonly workDir: string | undefined;
  /** 0…1000, higher = killed earlier when memory runs out; undefined = 0. */
  readonly oomScoreAdj: number | undefined;
  readonly rlimits: readonly Rlimit[];
  /** File mode bits that new files do not get; undefined = 022. */
  readonly umask: number | undefined;
  /** Undefined = 0. */
  readonly nice: number | undefined;
  /** The size of a terminal of the task's own; undefined = it has none. */
  readonly terminal: TerminalSize | undefined;
  /** When the executor of the task is killed: another one takes over, or the task ends. */
  readonly onExecutorDeath: 'adopt' | 'kill';
}

/** Config of `raw_exec`: a program run with no isolation of files. */
export type RawExecConfig = ProgramConfig;

/** Config of `exec`: as raw_exec, with its own root, namespaces and capabilities. */
export interface ExecConfig extends ProgramConfig {
  readonly pidMode: 'private' | 'host';
  readonly ipcMode: 'private' | 'host';
  /** `none`: a network of its own with a loopback and nothing else. */
  readonly networkMode: 'host' | 'none';
  readonly capAdd: readonly (Capability | 'all')[];
  readonly capDrop: readonly (Capability | 'all')[];
  /** A program with set-uid or file capabilities gives nothing. */
  readonly noNewPrivs: boolean;
  /** Whether system calls are filtered. */
  readonly seccomp: boolean;
}

/** Script of one run of `mock_driver`. */
export interface MockConfig {
  /** Starting fails with this text. */
  readonly startError: string | undefined;
  readonly startErrorRecoverable: boolean;
  /** Starting takes this long. */
  readonly startBlockForMs: number;
  /** A stop takes this long to work; when it is longer than the kill timeout the kill is by force. */
  readonly killAfterMs: number;
  /** The run ends by itself after this long. */
  readonly runForMs: number;
  readonly exitCode: number;
  /** The run ends by this signal; undefined = by its exit code. */
  readonly exitSignal: number | undefined;
  /** The run's end is not known, for this reason. */
  readonly exitErrMsg: string | undefined;
  /** Every signal sent to it fails with this text. */
  readonly signalError: string | undefined;
  readonly stdout: MockOutput;
  readonly stderr: MockOutput;
}

/** What a mock run writes to one stream: `text` once, then `repeat` times more, `everyMs` apart. */
export interface MockOutput {
  readonly text: string;
  readonly repeat: number;
  readonly everyMs: number;
}

/** One fault of a config block. */
export interface ConfigFault {
  readonly key: string;
  /** What of the value it is about: a name in a block, the index of an item; undefined = all of it. */
  readonly part?: string | number;
  /** `missing`: the block lacks the key; `unknown`: the key should not be there; `value`: its value will not do. */
  readonly kind: 'missing' | 'unknown' | 'value';
  readonly message: string;
  readonly hint: string | undefined;
}

/** Drivers that a job file may name. */
export const DRIVERS = ['raw_exec', 'exec', 'mock_driver'] as const;
export type DriverName = (typeof DRIVERS)[number];

/** True for a driver that job files may name. */
export function isDriverName(name: string): name is DriverName {
  return DRIVERS.some((driver) => driver === name);
}

const HIGHEST_OOM_SCORE = 1000;
/** The kernel's range of nice(2). */
const NICE = { least: -20, most: 19 };
/** As terminals have been since there were screens. */
const TERMINAL_SIZE: TerminalSize = { columns: 80, rows: 24 };
const MOST_EXIT_CODE = 255;
const MOST_REPEATS = 1_000_000;

const program = {
  command: filledText(),
  args: texts().default([]),
  work_dir: absolutePath().optional(),
  oom_score_adj: whole(0, HIGHEST_OOM_SCORE).optional(),
  ulimit: rlimits().default([]),
  umask: octal().optional(),
  nice: whole(NICE.least, NICE.most).optional(),
  tty: bool().default(false),
  tty_size: terminalSize().default(TERMINAL_SIZE),
  on_executor_death: oneOf('adopt', 'kill').default('adopt'),
};

const RAW_EXEC = z.strictObject(program);

const EXEC = z.strictObject({
  ...program,
  pid_mode: oneOf('private', 'host').default('private'),
  ipc_mode: oneOf('private', 'host').default('private'),
  network_mode: oneOf('host', 'none').default('host'),
  cap_add: capabilities().default([]),
  cap_drop: capabilities().default([]),
  no_new_privs: bool().default(true),
  seccomp: oneOf('default', 'unconfined').default('default'),
});

const MOCK = z.strictObject({
  start_error: text().optional(),
  start_error_recoverable: bool().default(false),
  start_block_for: durationMs().default(0),
  kill_after: durationMs().default(0),
  run_for: durationMs().default(0),
  exit_code: whole(0, MOST_EXIT_CODE).default(0),
  exit_signal: signal().optional(),
  exit_err_msg: text().optional(),
  signal_error: text().optional(),
  stdout_string: text().default(''),
  stdout_repeat: whole(0, MOST_REPEATS).default(0),
  stdout_repeat_duration: durationMs().default(0),
  stderr_string: text().default(''),
  stderr_repeat: whole(0, MOST_REPEATS).default(0),
  stderr_repeat_duration: durationMs().default(0),
});

const SCHEMAS = { raw_exec: RAW_EXEC, exec: EXEC, mock_driver: MOCK } as const;

/** JSON Schema of each driver's config block. */
export function driverSchemas(): Readonly<Record<DriverName, Readonly<Record<string, unknown>>>> {
  const schemaOf = (schema: z.ZodType): Record<string, unknown> => {
    const made: Record<string, unknown> = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    return Object.fromEntries(Object.entries(made).filter(([key]) => key !== '$schema'));
  };
  return Object.fromEntries(
    Object.entries(SCHEMAS).map(([name, schema]) => [name, schemaOf(schema)]),
  ) as Record<DriverName, Record<string, unknown>>;
}

/** Keys that Nomad's driver of that name has and ours has not: told apart from misspelt ones. */
const NOT_YET: Readonly<Record<DriverName, readonly string[]>> = {
  raw_exec: ['cgroup_v1_override', 'cgroup_v2_override', 'denied_envvars'],
  exec: [],
  mock_driver: ['driver_advertise', 'driver_ip', 'driver_port_map', 'exec_command', 'plugin_exit_after'],
};

/**
 * Faults of a config block as written in a job file. A value with `${` in it is judged only where any text will do:
 * what interpolation makes of it is checked when the driver starts the task.
 */
export function checkDriverConfig(
  driver: DriverName,
  config: Readonly<Record<string, unknown>>,
): readonly ConfigFault[] {
  return faultsOf(driver, config).filter(({ key, kind }) => {
    const value = config[key];
    return kind !== 'value' || typeof value !== 'string' || !value.includes('${');
  });
}

/**
 * The config of one raw_exec task, after interpolation.
 * @param where names the task in the message
 * @throws AgentError driver_config_invalid, with every fault in one line
 */
export function parseRawExecConfig(config: Readonly<Record<string, unknown>>, where: string): RawExecConfig {
  return programOf(parse('raw_exec', config, where));
}

/**
 * The config of one exec task, after interpolation.
 * @throws AgentError driver_config_invalid
 */
export function parseExecConfig(config: Readonly<Record<string, unknown>>, where: string): ExecConfig {
  const read = parse('exec', config, where);
  return {
    ...programOf(read),
    pidMode: read.pid_mode,
    ipcMode: read.ipc_mode,
    networkMode: read.network_mode,
    capAdd: read.cap_add,
    capDrop: read.cap_drop,
    noNewPrivs: read.no_new_privs,
    seccomp: read.seccomp === 'default',
  };
}

function programOf(read: z.output<typeof RAW_EXEC>): ProgramConfig {
  return {
    command: read.command,
    args: read.args,
    workDir: read.work_dir,
    oomScoreAdj: read.oom_score_adj,
    rlimits: read.ulimit,
    umask: read.umask,
    nice: read.nice,
    terminal: read.tty ? read.tty_size : undefined,
    onExecutorDeath: read.on_executor_death,
  };
}

/**
 * The config of one mock_driver task, after interpolation.
 * @throws AgentError driver_config_invalid
 */
export function parseMockConfig(config: Readonly<Record<string, unknown>>, where: string): MockConfig {
  const read = parse('mock_driver', config, where);
  return {
    startError: read.start_error,
    startErrorRecoverable: read.start_error_recoverable,
    startBlockForMs: read.start_block_for,
    killAfterMs: read.kill_after,
    runForMs: read.run_for,
    exitCode: read.exit_code,
    exitSignal: read.exit_signal,
    exitErrMsg: read.exit_err_msg,
    signalError: read.signal_error,
    stdout: { text: read.stdout_string, repeat: read.stdout_repeat, everyMs: read.stdout_repeat_duration },
    stderr: { text: read.stderr_string, repeat: read.stderr_repeat, everyMs: read.stderr_repeat_duration },
  };
}

function parse<D extends DriverName>(
  driver: D,
  config: Readonly<Record<string, unknown>>,
  where: string,
): z.output<(typeof SCHEMAS)[D]> {
  const result = read(driver, config);
  if (result.success) return result.data;
  const faults = faultsOf(driver, config).map(
    ({ message, hint }) => `${message}${hint === undefined ? '' : ` (${hint})`}`,
  );
  throw new AgentError(
    'driver_config_invalid',
    `${where}: bad config for driver ${driver}: ${faults.join('; ')}`,
  );
}

function faultsOf(driver: DriverName, config: Readonly<Record<string, unknown>>): ConfigFault[] {
  const result = read(driver, config);
  if (result.success) return [];
  return result.error.issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(driver, key));
    const key = String(issue.path[0]);
    const fault = { key, message: `\`${key}\`: ${issue.message}`, hint: undefined };
    const part = issue.path[1];
    if (typeof part === 'symbol' || part === undefined)
      return [{ ...fault, kind: Object.hasOwn(config, key) ? 'value' : 'missing' }];
    const isUnknown = issue.code === 'custom' && issue.params?.['kind'] === 'unknown';
    return [{ ...fault, part, kind: isUnknown ? 'unknown' : 'value' }];
  });
}

type ReadConfig<D extends DriverName> = z.ZodSafeParseResult<z.output<(typeof SCHEMAS)[D]>>;

/** What was read of a config, as nobody changes one: it is looked at before a start and at the start, and a task starts often. */
const known = new WeakMap<object, { readonly driver: DriverName; readonly result: unknown }>();

function read<D extends DriverName>(driver: D, config: Readonly<Record<string, unknown>>): ReadConfig<D> {
  const before = known.get(config);
  if (before?.driver === driver) return before.result as ReadConfig<D>;
  const result = SCHEMAS[driver].safeParse(withoutNulls(config)) as ReadConfig<D>;
  known.set(config, { driver, result });
  return result;
}

function unknownKey(driver: DriverName, key: string): ConfigFault {
  const isNomads = NOT_YET[driver].includes(key);
  const message = isNomads
    ? `\`${key}\` of driver ${driver} is not supported by holdfast yet`
    : `driver ${driver} has no key \`${key}\``;
  const hint = isNomads ? undefined : suggest(key, Object.keys(SCHEMAS[driver].shape), 'its keys are');
  return { key, kind: 'unknown', message, hint };
}

/** A key set to null is a key not set, in all three formats. */
function withoutNulls(config: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== null));
}
