/**
 * Owns the keys of each driver's `config` block: one strict schema per driver, used by the validator on what was
 * written and by the driver on what interpolation made of it. Knows nothing of how a driver runs anything.
 */
import * as z from 'zod';
import { AgentError } from '../base/errors.js';
import {
  absolutePath,
  bool,
  durationMs,
  filledText,
  oneOf,
  signal,
  text,
  texts,
  whole,
} from './config-fields.js';
import { suggest } from './words.js';

/** Config of `raw_exec`: a program run with no isolation of files. */
export interface RawExecConfig {
  /** Absolute path, or a name looked up in the task's PATH. */
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute; undefined = the task's directory. */
  readonly workDir: string | undefined;
  /** 0…1000, higher = killed earlier when the host runs out of memory; undefined = unchanged. */
  readonly oomScoreAdj: number | undefined;
}

/** Config of `exec`: as raw_exec, with its own root, namespaces and capabilities. */
export interface ExecConfig {
  readonly command: string;
  readonly args: readonly string[];
  readonly workDir: string | undefined;
  readonly pidMode: 'private' | 'host';
  readonly ipcMode: 'private' | 'host';
  readonly capAdd: readonly string[];
  readonly capDrop: readonly string[];
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
  /** `missing`: the block lacks the key; `unknown`: the key should not be there; `value`: its value will not do. */
  readonly kind: 'missing' | 'unknown' | 'value';
  readonly message: string;
  readonly hint: string | undefined;
}

/** Drivers that a job file may name, and whether this version can run them. */
export const DRIVERS = {
  raw_exec: { available: true },
  mock_driver: { available: true },
  exec: { available: false },
} as const;

export type DriverName = keyof typeof DRIVERS;

/** True for a driver that job files may name, also when this version cannot run it. */
export function isDriverName(name: string): name is DriverName {
  return Object.hasOwn(DRIVERS, name);
}

const HIGHEST_OOM_SCORE = 1000;
const MOST_EXIT_CODE = 255;
const MOST_REPEATS = 1_000_000;

const program = { command: filledText(), args: texts().default([]), work_dir: absolutePath().optional() };

const RAW_EXEC = z.strictObject({
  ...program,
  oom_score_adj: whole(0, HIGHEST_OOM_SCORE).optional(),
});

const EXEC = z.strictObject({
  ...program,
  pid_mode: oneOf('private', 'host').default('private'),
  ipc_mode: oneOf('private', 'host').default('private'),
  cap_add: texts().default([]),
  cap_drop: texts().default([]),
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
  const read = parse('raw_exec', RAW_EXEC, config, where);
  return {
    command: read.command,
    args: read.args,
    workDir: read.work_dir,
    oomScoreAdj: read.oom_score_adj,
  };
}

/**
 * The config of one exec task, after interpolation.
 * @throws AgentError driver_config_invalid
 */
export function parseExecConfig(config: Readonly<Record<string, unknown>>, where: string): ExecConfig {
  const read = parse('exec', EXEC, config, where);
  return {
    command: read.command,
    args: read.args,
    workDir: read.work_dir,
    pidMode: read.pid_mode,
    ipcMode: read.ipc_mode,
    capAdd: read.cap_add,
    capDrop: read.cap_drop,
  };
}

/**
 * The config of one mock_driver task, after interpolation.
 * @throws AgentError driver_config_invalid
 */
export function parseMockConfig(config: Readonly<Record<string, unknown>>, where: string): MockConfig {
  const read = parse('mock_driver', MOCK, config, where);
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

function parse<S extends z.ZodType>(
  driver: DriverName,
  schema: S,
  config: Readonly<Record<string, unknown>>,
  where: string,
): z.output<S> {
  const result = schema.safeParse(withoutNulls(config));
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
  const result = SCHEMAS[driver].safeParse(withoutNulls(config));
  if (result.success) return [];
  return result.error.issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(driver, key));
    const key = String(issue.path[0]);
    const kind = Object.hasOwn(config, key) ? 'value' : 'missing';
    return [{ key, kind, message: `\`${key}\`: ${issue.message}`, hint: undefined }];
  });
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
