/**
 * Owns the form of tasks and runs as rows; rows.ts says how rows are formed. A status that nobody saw has neither code
 * nor signal in its columns.
 */
import type { ExitReport, ExitResult } from '../events/exit-result.js';
import type { StampedTaskEvent } from '../events/task-event.js';
import { encodeJson } from './json.js';
import { asColumns, BadRow, isRecord, type Columns, type Row } from './row.js';
import type { Moment, RunHandle, RunOutcome, RunRecord, TaskRecord } from './store.js';

const TASK_STATES = ['pending', 'running', 'dead'] as const;
const TASK_PHASES = [
  'waiting',
  'prestart',
  'starting',
  'running',
  'stopping',
  'unkillable',
  'exited',
  'backoff',
  'dead',
  'complete',
] as const;
const EXIT_REASONS = [
  'host_rebooted',
  'executor_lost',
  'record_unreadable',
  'supervision_lost',
  'driver_error',
] as const;

export function encodeTask(record: TaskRecord): Columns {
  const { allocId, task, state, phase, phaseDetail, failed, restarts, lastRestartAtMs, ...others } = record;
  const { startedAtMs, finishedAtMs, restartWindow, nextStart, lastExit, runId, attempts, ...more } = others;
  const { killReason, lastEventSeq, eventsDropped, recentEvents, ...rest } = more;
  return asColumns({
    alloc_id: allocId,
    task,
    state,
    phase,
    phase_detail: phaseDetail,
    failed,
    restarts,
    last_restart_at_ms: lastRestartAtMs,
    started_at_ms: startedAtMs,
    finished_at_ms: finishedAtMs,
    window_wall_ms: restartWindow?.opened.wallMs,
    window_mono_ms: restartWindow?.opened.monoMs,
    window_boot_id: restartWindow?.opened.bootId,
    window_used: restartWindow?.used,
    next_wall_ms: nextStart?.wallMs,
    next_mono_ms: nextStart?.monoMs,
    next_boot_id: nextStart?.bootId,
    ...encodeExit(lastExit),
    run_id: runId,
    attempts,
    kill_reason: killReason,
    last_event_seq: lastEventSeq,
    events_dropped: eventsDropped,
    recent_events: encodeJson(recentEvents),
    rest: encodeJson(rest),
  });
}

export function decodeTask(row: Row): TaskRecord {
  const opened = decodeMoment(row, WINDOW);
  return Object.assign(row.object('rest') as Pick<TaskRecord, 'restartReason'>, {
    allocId: row.text('alloc_id'),
    task: row.text('task'),
    state: row.word('state', TASK_STATES),
    phase: row.word('phase', TASK_PHASES),
    phaseDetail: row.text('phase_detail'),
    failed: row.flag('failed'),
    restarts: row.number('restarts'),
    lastRestartAtMs: row.optionalNumber('last_restart_at_ms'),
    startedAtMs: row.optionalNumber('started_at_ms'),
    finishedAtMs: row.optionalNumber('finished_at_ms'),
    restartWindow: opened === undefined ? undefined : { opened, used: row.number('window_used') },
    nextStart: decodeMoment(row, NEXT),
    lastExit: decodeExit(row),
    runId: row.optionalText('run_id'),
    attempts: row.number('attempts'),
    killReason: row.optionalText('kill_reason'),
    lastEventSeq: row.number('last_event_seq'),
    eventsDropped: row.number('events_dropped'),
    recentEvents: decodeRecentEvents(row),
  });
}

export function encodeRun(run: RunRecord): Columns {
  const { runId, allocId, task, attempt, driver, bootId, specHash, intendedAtMs, ...others } = run;
  const { handle, startedAtMs, outcome, ...rest } = others;
  return asColumns({
    run_id: runId,
    alloc_id: allocId,
    task,
    attempt,
    driver,
    boot_id: bootId,
    spec_hash: specHash,
    intended_at_ms: intendedAtMs,
    handle: handle === undefined ? undefined : encodeJson(handle),
    started_at_ms: startedAtMs,
    ...encodeOutcome(outcome),
    rest: encodeJson(rest),
  });
}

export function decodeRun(row: Row): RunRecord {
  return Object.assign(row.object('rest'), {
    runId: row.text('run_id'),
    allocId: row.text('alloc_id'),
    task: row.text('task'),
    attempt: row.number('attempt'),
    driver: row.text('driver'),
    bootId: row.text('boot_id'),
    specHash: row.text('spec_hash'),
    intendedAtMs: row.number('intended_at_ms'),
    handle: row.isNull('handle') ? undefined : decodeHandle(row),
    startedAtMs: row.optionalNumber('started_at_ms'),
    outcome: decodeOutcome(row),
  });
}

/** The columns of a moment. */
interface MomentColumns {
  readonly wallMs: string;
  readonly monoMs: string;
  readonly bootId: string;
}
const WINDOW: MomentColumns = {
  wallMs: 'window_wall_ms',
  monoMs: 'window_mono_ms',
  bootId: 'window_boot_id',
};
const NEXT: MomentColumns = { wallMs: 'next_wall_ms', monoMs: 'next_mono_ms', bootId: 'next_boot_id' };

function decodeMoment(row: Row, columns: MomentColumns): Moment | undefined {
  if (row.isNull(columns.wallMs)) return undefined;
  return {
    wallMs: row.number(columns.wallMs),
    monoMs: row.number(columns.monoMs),
    bootId: row.text(columns.bootId),
  };
}

/** A status that nobody saw has neither code nor signal. */
function encodeExit(exit: ExitResult | undefined) {
  const unknown = exit?.kind === 'unknown' ? exit : undefined;
  const signaled = exit?.kind === 'signaled' ? exit : undefined;
  return {
    exit_kind: exit?.kind,
    exit_code: exit?.kind === 'exited' ? exit.code : undefined,
    exit_signal: signaled?.signal,
    exit_core_dumped: signaled?.coreDumped,
    exit_oom_killed: exit === undefined || exit.kind === 'unknown' ? undefined : exit.oomKilled,
    exit_reason: unknown?.reason,
    exit_detail: unknown?.detail,
  };
}

function decodeExit(row: Row): ExitResult | undefined {
  if (row.isNull('exit_kind')) return undefined;
  const kind = row.word('exit_kind', ['exited', 'signaled', 'unknown']);
  switch (kind) {
    case 'exited':
      return { kind, code: row.number('exit_code'), oomKilled: row.flag('exit_oom_killed') };
    case 'signaled':
      return {
        kind,
        signal: row.number('exit_signal'),
        coreDumped: row.flag('exit_core_dumped'),
        oomKilled: row.flag('exit_oom_killed'),
      };
    case 'unknown':
      return { kind, reason: row.word('exit_reason', EXIT_REASONS), detail: row.text('exit_detail') };
  }
}

function encodeOutcome(outcome: RunOutcome | undefined) {
  const ended = outcome?.kind === 'ended' ? outcome.report : undefined;
  return {
    outcome: outcome?.kind,
    ended_at_ms: outcome?.kind === 'ended' ? outcome.report.endedAtMs : outcome?.atMs,
    outcome_detail: outcomeDetail(outcome),
    ...encodeExit(ended?.result),
    report:
      ended === undefined ? undefined : encodeJson({ ...ended, result: undefined, endedAtMs: undefined }),
  };
}

function outcomeDetail(outcome: RunOutcome | undefined): string | undefined {
  switch (outcome?.kind) {
    case undefined:
    case 'ended':
      return undefined;
    case 'start_failed':
      return outcome.error;
    case 'never_started':
      return outcome.detail;
  }
}

function decodeOutcome(row: Row): RunOutcome | undefined {
  if (row.isNull('outcome')) return undefined;
  const kind = row.word('outcome', ['ended', 'start_failed', 'never_started']);
  const atMs = row.number('ended_at_ms');
  switch (kind) {
    case 'ended': {
      const result = decodeExit(row);
      if (result === undefined) throw new BadRow('an ended run has no exit');
      const rest = row.object('report') as unknown as Omit<ExitReport, 'result' | 'endedAtMs'>;
      return { kind, report: { ...rest, result, endedAtMs: atMs } };
    }
    case 'start_failed':
      return { kind, error: row.text('outcome_detail'), atMs };
    case 'never_started':
      return { kind, detail: row.text('outcome_detail'), atMs };
  }
}

function decodeHandle(row: Row): RunHandle {
  const handle = row.object('handle');
  if (!isRecord(handle['driverState'])) throw new BadRow('handle has no driver state');
  return handle as unknown as RunHandle;
}

function decodeRecentEvents(row: Row): readonly StampedTaskEvent[] {
  const events = row.json('recent_events');
  const whole = (event: unknown): boolean =>
    isRecord(event) && typeof event['seq'] === 'number' && isRecord(event['event']);
  if (!Array.isArray(events) || !events.every(whole)) throw new BadRow('recent_events holds no events');
  return events as readonly StampedTaskEvent[];
}
