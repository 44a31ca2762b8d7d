/** Owns the way from stored tasks, their events and their runs to the wire. Pure. */
import { signalName } from '../base/signals.js';
import { nomadExitCode, type ExitResult } from '../events/exit-result.js';
import {
  describeEvent,
  describeExit,
  eventDetails,
  failsTask,
  type StampedTaskEvent,
} from '../events/task-event.js';
import type { RunRecord, TaskEventRow as TaskEventRecord, TaskRecord } from '../state/store.js';
import {
  msToNs,
  msToRfc3339,
  type ExitJson,
  type InForceJson,
  type Run,
  type TaskEvent,
  type TaskEventRow,
  type TaskState,
} from './wire.js';

/** Process id of the workload of a run; undefined when it has none on record. */
export type PidOf = (runId: string) => number | undefined;

/** What the workload of a run really got; undefined when nobody looked. */
export type InForceOf = (runId: string) => InForceJson | undefined;

export function taskStateToWire(
  task: TaskRecord,
  { pidOf, inForceOf }: { readonly pidOf: PidOf; readonly inForceOf?: InForceOf },
): TaskState {
  const runId = task.state === 'running' ? task.runId : undefined;
  const pid = runId === undefined ? undefined : pidOf(runId);
  const inForce = runId === undefined ? undefined : inForceOf?.(runId);
  return {
    State: task.state,
    Failed: task.failed,
    Restarts: task.restarts,
    LastRestart: msToRfc3339(task.lastRestartAtMs),
    StartedAt: msToRfc3339(task.startedAtMs),
    FinishedAt: msToRfc3339(task.finishedAtMs),
    Events: task.recentEvents.map(eventToWire),
    Holdfast: {
      Phase: task.phase,
      PhaseDetail: task.phaseDetail,
      ...(task.waitingSinceMs === undefined ? {} : { WaitingSince: msToRfc3339(task.waitingSinceMs) }),
      NextStart: task.nextStart === undefined ? null : msToRfc3339(task.nextStart.wallMs),
      KillReason: task.killReason ?? null,
      LastExit: task.lastExit === undefined ? null : exitToWire(task.lastExit),
      RunID: task.runId ?? null,
      Pid: pid ?? null,
      Attempts: task.attempts,
      RestartsUsed: task.restartWindow?.used ?? 0,
      EventsDropped: task.eventsDropped,
      ...(inForce === undefined ? {} : { InForce: inForce }),
    },
  };
}

/** An event in Nomad's shape: the facts under Details, and once more in the fields of their own that old tools read. */
export function eventToWire(stamped: StampedTaskEvent): TaskEvent {
  const { event } = stamped;
  const details = eventDetails(event);
  const end = event.type === 'Terminated' ? nomadExitCode(event.result) : { exitCode: 0, signal: 0 };
  return {
    Type: event.type,
    Time: msToNs(stamped.atMs),
    DisplayMessage: describeEvent(event),
    Details: details,
    Message: details['message'] ?? details['exit_message'] ?? '',
    FailsTask: failsTask(event),
    RestartReason: details['restart_reason'] ?? '',
    SetupError: details['setup_error'] ?? '',
    DriverError: details['driver_error'] ?? '',
    DriverMessage: details['driver_message'] ?? '',
    ExitCode: end.exitCode,
    Signal: end.signal,
    KillReason: details['kill_reason'] ?? '',
    KillTimeout: Number(details['kill_timeout'] ?? 0),
    KillError: details['kill_error'] ?? '',
    StartDelay: Number(details['start_delay'] ?? 0),
    ValidationError: details['validation_error'] ?? '',
    DownloadError: details['download_error'] ?? '',
    FailedSibling: details['failed_sibling'] ?? '',
    TaskSignal: details['task_signal'] ?? '',
    TaskSignalReason: details['task_signal_reason'] ?? '',
    Holdfast: {
      Seq: stamped.seq,
      Exit: event.type === 'Terminated' ? exitToWire(event.result) : null,
    },
  };
}

export function eventRowToWire(row: TaskEventRecord, jobId: string): TaskEventRow {
  return { ...eventToWire(row), AllocID: row.allocId, JobID: jobId, Task: row.task };
}

/** The truth about an end: never 128 + n, and no number at all when nobody saw it. */
export function exitToWire(result: ExitResult): ExitJson {
  return {
    Kind: result.kind,
    Code: result.kind === 'exited' ? result.code : null,
    Signal: result.kind === 'signaled' ? result.signal : null,
    SignalName: result.kind === 'signaled' ? signalName(result.signal) : '',
    OOMKilled: result.kind !== 'unknown' && result.oomKilled,
    CoreDumped: result.kind === 'signaled' && result.coreDumped,
    Reason: result.kind === 'unknown' ? result.reason : '',
    Text: describeExit(result),
  };
}

export function runToWire(run: RunRecord): Run {
  const { outcome } = run;
  const report = outcome?.kind === 'ended' ? outcome.report : undefined;
  const failure = outcome?.kind === 'ended' ? undefined : outcome;
  const startedAtMs = report?.startedAtMs ?? run.startedAtMs;
  const endedAtMs = report?.endedAtMs ?? failure?.atMs;
  return {
    RunID: run.runId,
    AllocID: run.allocId,
    Task: run.task,
    Attempt: run.attempt,
    Driver: run.driver,
    BootID: run.bootId,
    SpecHash: run.specHash,
    Outcome: outcome?.kind ?? 'open',
    IntendedAt: msToRfc3339(run.intendedAtMs),
    StartedAt: startedAtMs === undefined ? null : msToRfc3339(startedAtMs),
    EndedAt: endedAtMs === undefined ? null : msToRfc3339(endedAtMs),
    RanFor: report?.ranForMs === undefined ? null : msToNs(report.ranForMs),
    Pid: run.handle?.workload?.pid ?? null,
    Exit: report === undefined ? null : exitToWire(report.result),
    Error: failure === undefined ? '' : failure.kind === 'start_failed' ? failure.error : failure.detail,
    Usage:
      report?.usage === undefined
        ? null
        : {
            CPUUserMs: report.usage.cpuUserMs ?? null,
            CPUSystemMs: report.usage.cpuSystemMs ?? null,
            PeakMemoryBytes: report.usage.peakMemoryBytes ?? null,
          },
    LogComplete: report?.logComplete ?? null,
    LeftoversKilled: report?.leftoversKilled ?? 0,
    MemoryLimitHits: report?.memoryLimitHits ?? null,
  };
}
