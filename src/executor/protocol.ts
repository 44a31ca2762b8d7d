/**
 * Owns the bytes exchanged with native/: the `spec` file and the frames on an executor's socket. The page both sides
 * follow is native/README.md; numbers here are frozen once released. Knows nothing of files, sockets or processes.
 * A little over 300 lines because both directions of a frame stand side by side.
 */
import { AgentError } from '../base/errors.js';
import {
  isolationFields,
  readAttributes,
  readIsolation,
  type SpecAttributes,
  type SpecIsolation,
} from './isolation.js';
import {
  decodeFields,
  encodeFields,
  intField,
  malformed,
  readInt,
  readString,
  stringField,
  type Field,
} from './tlv.js';

/** What an executor is to run; becomes the `spec` file of the run directory. */
export interface ExecutorSpec {
  readonly runId: string;
  /** A spec of another boot is refused by the executor. */
  readonly bootId: string;
  /** Shown by ps as `holdfast-executor: <title> <state>`. */
  readonly title: string;
  /** Absolute path of the program. */
  readonly path: string;
  /** argv[0] first. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Name or number; undefined = unchanged. */
  readonly user: string | undefined;
  /** Undefined = output goes to /dev/null. */
  readonly log: SpecLog | undefined;
  /** Directory of the cgroup v2 leaf the workload is born in. */
  readonly cgroup: string | undefined;
  /** `tasks` files (v1) that the workload writes itself into. */
  readonly joinProcs: readonly string[];
  /** Files (`cgroup.procs` of v2, `tasks` of v1) that the executor writes itself into; its failure there is only noted. */
  readonly selfProcs: readonly string[];
  /** True: hold the workload until GO. */
  readonly gate: boolean;
  readonly leftovers: 'kill' | 'keep';
  /** What outlives the leader has this long to end by itself before it is killed; absent = none. */
  readonly leftoversMs?: number | undefined;
  readonly oomScoreAdj: number;
  /** File that counts OOM kills: v2 `memory.events`, v1 `memory.oom_control`. */
  readonly memoryEvents: string | undefined;
  /** File with the peak: v2 `memory.peak`, v1 `memory.max_usage_in_bytes`. */
  readonly memoryPeak: string | undefined;
  /** File that counts how often memory was at its limit; absent = none. */
  readonly memoryHits?: string | undefined;
  /** `kill`: the workload ends with its executor instead of being taken over. Absent = `adopt`. */
  readonly onExecutorDeath?: 'adopt' | 'kill' | undefined;
  /** Absent = everything is the host's. */
  readonly isolation?: SpecIsolation | undefined;
  /** Absent = umask 022, niceness 0, limits as the executor has them. */
  readonly attributes?: SpecAttributes | undefined;
  /** Absent = no terminal. With one, all output is of `stdout`. */
  readonly terminal?: SpecTerminal | undefined;
}

/** The size of a terminal of the workload's own. */
export interface SpecTerminal {
  readonly columns: number;
  readonly rows: number;
}

/** Where the executor writes what the workload prints. */
export interface SpecLog {
  readonly dir: string;
  /** Files are `<name>.stdout.N` and `<name>.stderr.N`. */
  readonly name: string;
  readonly maxFiles: number;
  readonly maxBytes: number;
}

/** One message on an executor's socket. */
export interface Frame {
  readonly type: number;
  /** Chosen by the asker, echoed in the reply. */
  readonly request: number;
  readonly fields: readonly Field[];
}

/** Request types; a reply has REPLY_BIT added. */
export const FRAME = {
  hello: 1,
  status: 2,
  go: 3,
  signal: 4,
  stop: 5,
  wait: 6,
  end: 7,
  error: 0x7fff,
} as const;
export const REPLY_BIT = 0x8000;

/** Tags of frame fields. */
export const FRAME_TAG = {
  runId: 1,
  protocol: 2,
  version: 3,
  executorPid: 4,
  executorStart: 5,
  statusText: 6,
  signal: 7,
  target: 8,
  graceMs: 9,
  errno: 10,
  text: 11,
  record: 12,
} as const;

/** Version of this protocol that HELLO announces. */
export const PROTOCOL_VERSION = 1;
/** Longest frame, counted after its length word: status texts are far below, and garbage must not fill memory. */
export const MAX_FRAME_BYTES = 65_536;
/** Longest spec the executor reads. */
const MAX_SPEC_BYTES = 4 * 1024 * 1024;

const SPEC_MAGIC = 'HFSPEC01';
const SPEC_TAG = {
  runId: 1,
  bootId: 2,
  title: 3,
  path: 4,
  argv: 5,
  env: 6,
  cwd: 7,
  user: 8,
  logDir: 9,
  logName: 10,
  logMaxFiles: 11,
  logMaxBytes: 12,
  cgroup: 13,
  joinProcs: 14,
  selfProcs: 15,
  gate: 16,
  leftovers: 17,
  oomScoreAdj: 18,
  memoryEvents: 19,
  memoryPeak: 20,
  onExecutorDeath: 21,
  leftoversMs: 22,
  memoryHits: 23,
  // 40 to 50 are in isolation.ts.
  ttyColumns: 51,
  ttyRows: 52,
} as const;

/** Bytes of a frame before its fields, after the length word: u16 type, u16 request. */
const FRAME_HEADER_BYTES = 4;
const LENGTH_BYTES = 4;

/** The whole of one frame, with its length word. @throws AgentError protocol_error when it would be too long */
export function encodeFrame(frame: Frame): Buffer {
  const body = encodeFields(frame.fields);
  const length = FRAME_HEADER_BYTES + body.length;
  if (length > MAX_FRAME_BYTES) throw malformed(`a frame of ${length} bytes is too long to send`);
  const header = Buffer.alloc(LENGTH_BYTES + FRAME_HEADER_BYTES);
  header.writeUInt32LE(length, 0);
  header.writeUInt16LE(frame.type, 4);
  header.writeUInt16LE(frame.request, 6);
  return Buffer.concat([header, body]);
}

/** Takes bytes as they come and gives whole frames. Holds at most one frame. After it threw it is of no more use. */
export class FrameDecoder {
  #pending = Buffer.alloc(0);

  /** @throws AgentError protocol_error for an impossible length or a malformed field */
  push(chunk: Uint8Array): Frame[] {
    const frames: Frame[] = [];
    let rest = this.#pending.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#pending, chunk]);
    while (rest.length >= LENGTH_BYTES) {
      const length = rest.readUInt32LE(0);
      if (length < FRAME_HEADER_BYTES || length > MAX_FRAME_BYTES)
        throw malformed(`a frame of ${length} bytes is not possible`);
      const end = LENGTH_BYTES + length;
      if (rest.length < end) break;
      frames.push({
        type: rest.readUInt16LE(4),
        request: rest.readUInt16LE(6),
        fields: decodeFields(rest.subarray(LENGTH_BYTES + FRAME_HEADER_BYTES, end)),
      });
      rest = rest.subarray(end);
    }
    this.#pending = rest;
    return frames;
  }
}

/**
 * The bytes of a `spec` file.
 * @throws AgentError start_failed when a value cannot be handed to a program (NUL byte) or all is too long
 */
export function encodeSpec(spec: ExecutorSpec): Buffer {
  const fields: Field[] = [];
  const field = (value: string, tag: number): Field => {
    if (value.includes('\0')) throw new AgentError('start_failed', `${specTagName(tag)} holds a NUL byte`);
    return stringField(tag, value);
  };
  const text = (tag: number, value: string | undefined): void => {
    if (value !== undefined) fields.push(field(value, tag));
  };
  const int = (tag: number, value: number): void => {
    fields.push(intField(tag, value));
  };
  text(SPEC_TAG.runId, spec.runId);
  text(SPEC_TAG.bootId, spec.bootId);
  text(SPEC_TAG.title, spec.title);
  text(SPEC_TAG.path, spec.path);
  for (const arg of spec.argv) text(SPEC_TAG.argv, arg);
  for (const [name, value] of Object.entries(spec.env)) text(SPEC_TAG.env, `${name}=${value}`);
  text(SPEC_TAG.cwd, spec.cwd);
  text(SPEC_TAG.user, spec.user);
  if (spec.log !== undefined) {
    text(SPEC_TAG.logDir, spec.log.dir);
    text(SPEC_TAG.logName, spec.log.name);
    int(SPEC_TAG.logMaxFiles, spec.log.maxFiles);
    int(SPEC_TAG.logMaxBytes, spec.log.maxBytes);
  }
  text(SPEC_TAG.cgroup, spec.cgroup);
  for (const file of spec.joinProcs) text(SPEC_TAG.joinProcs, file);
  for (const file of spec.selfProcs) text(SPEC_TAG.selfProcs, file);
  int(SPEC_TAG.gate, spec.gate ? 1 : 0);
  int(SPEC_TAG.leftovers, spec.leftovers === 'keep' ? 1 : 0);
  int(SPEC_TAG.oomScoreAdj, spec.oomScoreAdj);
  if (spec.leftoversMs !== undefined) int(SPEC_TAG.leftoversMs, spec.leftoversMs);
  text(SPEC_TAG.memoryEvents, spec.memoryEvents);
  text(SPEC_TAG.memoryPeak, spec.memoryPeak);
  text(SPEC_TAG.memoryHits, spec.memoryHits);
  if (spec.onExecutorDeath !== undefined)
    int(SPEC_TAG.onExecutorDeath, spec.onExecutorDeath === 'kill' ? 1 : 0);
  fields.push(...isolationFields(spec.isolation, spec.attributes, field));
  if (spec.terminal !== undefined) {
    int(SPEC_TAG.ttyColumns, spec.terminal.columns);
    int(SPEC_TAG.ttyRows, spec.terminal.rows);
  }
  const bytes = Buffer.concat([Buffer.from(SPEC_MAGIC, 'latin1'), encodeFields(fields)]);
  if (bytes.length > MAX_SPEC_BYTES) {
    throw new AgentError(
      'start_failed',
      `command, arguments and environment take ${bytes.length} bytes; at most ${MAX_SPEC_BYTES} are possible`,
    );
  }
  return bytes;
}

/** What a `spec` file says. @throws AgentError protocol_error when it is not one */
export function decodeSpec(bytes: Buffer): ExecutorSpec {
  if (bytes.subarray(0, SPEC_MAGIC.length).toString('latin1') !== SPEC_MAGIC)
    throw malformed('this is no spec file: its first bytes are wrong');
  const fields = decodeFields(bytes.subarray(SPEC_MAGIC.length));
  const has = (tag: number): boolean => fields.some((field) => field.tag === tag);
  const text = (tag: number): string => readString(fields, tag);
  const optional = (tag: number): string | undefined => (has(tag) ? text(tag) : undefined);
  const all = (tag: number): string[] =>
    fields.filter((field) => field.tag === tag).map((field) => field.value.toString('utf8'));
  const int = (tag: number): number => readInt(fields, tag);
  const logDir = optional(SPEC_TAG.logDir);
  return {
    runId: text(SPEC_TAG.runId),
    bootId: text(SPEC_TAG.bootId),
    title: text(SPEC_TAG.title),
    path: text(SPEC_TAG.path),
    argv: all(SPEC_TAG.argv),
    env: Object.fromEntries(all(SPEC_TAG.env).map(splitAtEquals)),
    cwd: text(SPEC_TAG.cwd),
    user: optional(SPEC_TAG.user),
    log:
      logDir === undefined
        ? undefined
        : {
            dir: logDir,
            name: text(SPEC_TAG.logName),
            maxFiles: int(SPEC_TAG.logMaxFiles),
            maxBytes: int(SPEC_TAG.logMaxBytes),
          },
    cgroup: optional(SPEC_TAG.cgroup),
    joinProcs: all(SPEC_TAG.joinProcs),
    selfProcs: all(SPEC_TAG.selfProcs),
    gate: int(SPEC_TAG.gate) !== 0,
    leftovers: int(SPEC_TAG.leftovers) === 1 ? 'keep' : 'kill',
    oomScoreAdj: int(SPEC_TAG.oomScoreAdj),
    memoryEvents: optional(SPEC_TAG.memoryEvents),
    memoryPeak: optional(SPEC_TAG.memoryPeak),
    ...whenThere(
      'onExecutorDeath',
      has(SPEC_TAG.onExecutorDeath)
        ? int(SPEC_TAG.onExecutorDeath) === 1
          ? ('kill' as const)
          : ('adopt' as const)
        : undefined,
    ),
    ...whenThere('memoryHits', optional(SPEC_TAG.memoryHits)),
    ...whenThere('leftoversMs', has(SPEC_TAG.leftoversMs) ? int(SPEC_TAG.leftoversMs) : undefined),
    ...whenThere('isolation', readIsolation(fields)),
    ...whenThere('attributes', readAttributes(fields)),
    ...(has(SPEC_TAG.ttyColumns)
      ? { terminal: { columns: int(SPEC_TAG.ttyColumns), rows: int(SPEC_TAG.ttyRows) } }
      : {}),
  };
}

/** The spec with other files to join by; all else of it, what is not known here included, stays as it is. */
export function withJoinProcs(spec: Buffer, joinProcs: readonly string[]): Buffer {
  const magic = spec.subarray(0, SPEC_MAGIC.length);
  const others = decodeFields(spec.subarray(SPEC_MAGIC.length)).filter(
    ({ tag }) => tag !== SPEC_TAG.joinProcs,
  );
  const fields = joinProcs.map((file) => stringField(SPEC_TAG.joinProcs, file));
  return Buffer.concat([magic, encodeFields([...others, ...fields])]);
}

/** So that a spec reads back exactly as it was written: what is absent has no key. */
function whenThere<K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [key]: value } as Partial<Record<K, V>>);
}

function splitAtEquals(text: string): [string, string] {
  const at = text.indexOf('=');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function specTagName(tag: number): string {
  return Object.entries(SPEC_TAG).find(([, number]) => number === tag)?.[0] ?? `field ${tag}`;
}
