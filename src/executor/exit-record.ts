/**
 * Owns the reading of the two texts an executor leaves in its run directory: `status` (what it is doing) and `exit`
 * (the durable end). A text that cannot be read is a value, never an exception: the verdict about it is recover.ts's.
 */
import { crc32 } from 'node:zlib';
import type { ProcessRef } from '../base/host.js';
import type { ExitReport, ExitResult, RunUsage } from '../events/exit-result.js';

/** A text, or why it cannot be believed. */
export type Read<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly why: string };

const EXECUTOR_STATES = ['ready', 'starting', 'running', 'stopping', 'exited', 'failed'] as const;
export type ExecutorState = (typeof EXECUTOR_STATES)[number];

/** What `status` says. */
export interface ExecutorStatus {
  readonly runId: string;
  readonly bootId: string;
  readonly state: ExecutorState;
  readonly executor: ProcessRef;
  /** Undefined before `starting`. */
  readonly workload: ProcessRef | undefined;
  readonly startedAtMs: number | undefined;
  /** True after another executor took over from one that died. */
  readonly adopted: boolean;
  /** Processes that do not die although they were sent SIGKILL: pid, command, and where in the kernel they wait. */
  readonly stuck: string | undefined;
  /** Version of the executor; undefined when it does not say. */
  readonly version: string | undefined;
}

/** What `exit` says. */
export type ExitRecord = EndRecord | StartFailedRecord;

/** A workload ran and ended. */
export interface EndRecord {
  readonly kind: 'ended';
  readonly runId: string;
  readonly bootId: string;
  readonly report: ExitReport;
}

/** The workload's exec never happened. */
export interface StartFailedRecord {
  readonly kind: 'start_failed';
  readonly runId: string;
  readonly bootId: string;
  /** Name of the step that failed, as native/ calls it. */
  readonly stage: string;
  readonly errno: number;
  /** The path or name it was about. */
  readonly detail: string;
}

/** Reads the text of a `status` file or of a STATUS reply. */
export function parseStatus(text: string): Read<ExecutorStatus> {
  const values = parseLines(text);
  if (values.get('holdfast_status') !== '1') return unreadable('it is no status text');
  const state = EXECUTOR_STATES.find((name) => name === values.get('state'));
  const runId = values.get('run_id');
  const bootId = values.get('boot_id');
  const executor = processRef(values, 'executor_pid', 'executor_start');
  if (state === undefined || runId === undefined || bootId === undefined || executor === undefined)
    return unreadable('a part of the status is missing or malformed');
  const workload = processRef(values, 'pid', 'pid_start');
  if (workload === undefined && state !== 'ready' && state !== 'failed')
    return unreadable(`the status says ${state} and names no process`);
  return {
    kind: 'ok',
    value: {
      runId,
      bootId,
      state,
      executor,
      workload,
      startedAtMs: nsToMs(values.get('started_at_ns')),
      adopted: values.get('adopted') === '1',
      stuck: values.get('stuck'),
      version: values.get('version'),
    },
  };
}

/** Reads the bytes of an `exit` file; its checksum must be right. */
export function parseExitRecord(bytes: Buffer): Read<ExitRecord> {
  const tail = /(^|\n)crc32=([0-9a-f]{8})\n$/.exec(bytes.toString('latin1'));
  if (tail === null) return unreadable('the exit record is cut off');
  const summed = bytes.subarray(0, tail.index + (tail[1] ?? '').length);
  if (crc32(summed) !== parseInt(tail[2] ?? '', 16))
    return unreadable('the checksum of the exit record is wrong');
  const values = parseLines(summed.toString('utf8'));
  if (values.get('holdfast_exit') !== '1') return unreadable('it is no exit record');
  const runId = values.get('run_id');
  const bootId = values.get('boot_id');
  if (runId === undefined || bootId === undefined) return unreadable('the exit record names no run');
  if (values.get('result') === 'start_failed') {
    const stage = values.get('stage') ?? 'unknown';
    const detail = values.get('detail') ?? '';
    return {
      kind: 'ok',
      value: { kind: 'start_failed', runId, bootId, stage, errno: count(values, 'errno'), detail },
    };
  }
  const result = parseResult(values);
  const endedAtMs = nsToMs(values.get('ended_at_ns'));
  if (result === undefined || endedAtMs === undefined)
    return unreadable('the exit record does not say how it ended');
  return {
    kind: 'ok',
    value: { kind: 'ended', runId, bootId, report: toReport(values, result, endedAtMs) },
  };
}

function parseResult(values: ReadonlyMap<string, string>): ExitResult | undefined {
  switch (values.get('result')) {
    case 'exited': {
      const code = integer(values.get('code'));
      if (code === undefined || code < 0 || code > 255) return undefined;
      return { kind: 'exited', code, oomKilled: count(values, 'oom_kills') > 0 };
    }
    case 'signaled': {
      const signal = integer(values.get('signal'));
      if (signal === undefined || signal < 1 || signal > 64) return undefined;
      return {
        kind: 'signaled',
        signal,
        coreDumped: values.get('core') === '1',
        oomKilled: values.get('leader_oom') === '1',
      };
    }
    case 'unknown':
      return {
        kind: 'unknown',
        reason: 'supervision_lost',
        detail: 'its executor was killed, and the one that took over could not see how it ended',
      };
    case undefined:
    default:
      return undefined;
  }
}

function toReport(values: ReadonlyMap<string, string>, result: ExitResult, endedAtMs: number): ExitReport {
  const startedNs = nanoseconds(values.get('started_mono_ns'));
  const endedNs = nanoseconds(values.get('ended_mono_ns'));
  return {
    result,
    startedAtMs: nsToMs(values.get('started_at_ns')),
    endedAtMs,
    ranForMs:
      startedNs === undefined || endedNs === undefined
        ? undefined
        : Number((endedNs - startedNs) / 1_000_000n),
    usage: toUsage(values),
    logComplete: values.get('log_complete') === '1',
    leftoversKilled: count(values, 'leftovers_killed'),
    ...(values.has('memory_limit_hits') ? { memoryLimitHits: count(values, 'memory_limit_hits') } : {}),
  };
}

/** What was measured of it; undefined when nothing was: one that took over has not reaped anything. */
function toUsage(values: ReadonlyMap<string, string>): RunUsage | undefined {
  const peakBytes = count(values, 'memory_peak_bytes') || count(values, 'max_rss_kib') * 1024;
  const usage: RunUsage = {
    ...(values.has('cpu_user_us') && {
      cpuUserMs: count(values, 'cpu_user_us') / 1000,
      cpuSystemMs: count(values, 'cpu_sys_us') / 1000,
    }),
    ...((peakBytes > 0 || values.has('max_rss_kib')) && { peakMemoryBytes: peakBytes }),
  };
  return Object.keys(usage).length === 0 ? undefined : usage;
}

function parseLines(text: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const line of text.split('\n')) {
    const at = line.indexOf('=');
    if (at > 0) values.set(line.slice(0, at), line.slice(at + 1));
  }
  return values;
}

function processRef(
  values: ReadonlyMap<string, string>,
  pidKey: string,
  startKey: string,
): ProcessRef | undefined {
  const pid = integer(values.get(pidKey));
  const startTicks = integer(values.get(startKey));
  // Pid 0 and negative ones would signal whole groups of processes.
  return pid === undefined || startTicks === undefined || pid < 1 || startTicks < 0
    ? undefined
    : { pid, startTicks };
}

function integer(text: string | undefined): number | undefined {
  if (text === undefined || !/^-?\d{1,15}$/.test(text)) return undefined;
  return Number(text);
}

/** A figure that may be absent; figures are worth less than the result beside them, so a bad one counts as none. */
function count(values: ReadonlyMap<string, string>, key: string): number {
  return Math.max(0, integer(values.get(key)) ?? 0);
}

function nanoseconds(text: string | undefined): bigint | undefined {
  return text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : undefined;
}

function nsToMs(text: string | undefined): number | undefined {
  const ns = nanoseconds(text);
  return ns === undefined ? undefined : Number(ns / 1_000_000n);
}

function unreadable(why: string): { readonly kind: 'unreadable'; readonly why: string } {
  return { kind: 'unreadable', why };
}
