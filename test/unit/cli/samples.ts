/** Builds the daemon's answers for the tests of the renderers: realistic defaults, and what a test says instead. */
import type {
  AllocListStub,
  ExitJson,
  Job,
  Node,
  Run,
  TaskEvent,
  TaskEventRow,
  TaskResourceUsage,
  TaskState,
} from '../../../src/api/wire.js';
import { msToNs, msToRfc3339, ZERO_TIME } from '../../../src/api/wire.js';
import { paintNothing, type Look } from '../../../src/cli/output.js';
import type { PsRow } from '../../../src/cli/render/ps.js';

// Times of day are shown in local time; the goldens are written for this zone.
process.env['TZ'] = 'UTC';

/** 2026-11-21 14:00:12 UTC. */
export const NOW_MS = Date.UTC(2026, 10, 21, 14, 0, 12);
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export function look(width: number): Look {
  return { width, paint: paintNothing, nowMs: NOW_MS };
}

export function exited(code: number): ExitJson {
  return { ...signaled(0, ''), Kind: 'exited', Code: code, Signal: null, Text: `exited ${code}` };
}

export function signaled(signal: number, name: string, isOom = false): ExitJson {
  return {
    Kind: 'signaled',
    Code: null,
    Signal: signal,
    SignalName: name,
    OOMKilled: isOom,
    CoreDumped: false,
    Reason: '',
    Text: `killed by ${name}${isOom ? ' (OOM killed)' : ''}`,
  };
}

export function unknownExit(): ExitJson {
  return {
    ...signaled(0, ''),
    Kind: 'unknown',
    Signal: null,
    Reason: 'host_rebooted',
    Text: 'exit unknown (host rebooted)',
  };
}

export function taskState(
  phase: TaskState['Holdfast']['Phase'],
  own: Partial<Omit<TaskState, 'Holdfast'>> = {},
  ours: Partial<TaskState['Holdfast']> = {},
): TaskState {
  return {
    State: phase === 'running' ? 'running' : phase === 'dead' || phase === 'complete' ? 'dead' : 'pending',
    Failed: false,
    Restarts: 0,
    LastRestart: ZERO_TIME,
    StartedAt: ZERO_TIME,
    FinishedAt: ZERO_TIME,
    Events: [],
    ...own,
    Holdfast: {
      Phase: phase,
      PhaseDetail: '',
      NextStart: null,
      KillReason: null,
      LastExit: null,
      RunID: null,
      Pid: null,
      Attempts: 1,
      RestartsUsed: 0,
      EventsDropped: 0,
      ...ours,
    },
  };
}

export function alloc(id: string, own: Partial<AllocListStub> = {}): AllocListStub {
  const jobId = own.JobID ?? 'orders';
  const group = own.TaskGroup ?? 'api';
  return {
    ID: id.padEnd(8, '0') + '-0000-4000-8000-000000000000',
    Name: `${jobId}.${group}[0]`,
    Namespace: 'default',
    NodeID: 'n',
    NodeName: 'w12',
    JobID: jobId,
    JobVersion: 0,
    TaskGroup: group,
    DesiredStatus: 'run',
    DesiredDescription: '',
    ClientStatus: 'running',
    ClientDescription: '',
    TaskStates: {},
    ModifyIndex: 1,
    CreateTime: msToNs(NOW_MS - 3 * DAY - 2 * HOUR),
    ModifyTime: msToNs(NOW_MS),
    EvalID: '',
    JobType: 'service',
    FollowupEvalID: '',
    PreviousAllocation: '',
    NextAllocation: '',
    DeploymentID: '',
    Holdfast: { RescheduleAt: null, RescheduleStopped: '' },
    DeploymentStatus: null,
    RescheduleTracker: null,
    CreateIndex: 1,
    ...own,
  };
}

export function usage(cpuPercent: number | null, mib: number, limitMib: number | null): TaskResourceUsage {
  return {
    ResourceUsage: {
      CpuStats: {
        Percent: 0,
        TotalTicks: 0,
        SystemMode: 0,
        UserMode: 0,
        ThrottledPeriods: 0,
        ThrottledTime: 0,
        Measured: [],
      },
      MemoryStats: {
        RSS: 0,
        Usage: 0,
        MaxUsage: 0,
        Cache: 0,
        Swap: 0,
        KernelUsage: 0,
        KernelMaxUsage: 0,
        Measured: [],
      },
      DeviceStats: [],
    },
    Timestamp: 0,
    Pids: null,
    Holdfast: {
      CPUPercent: cpuPercent,
      CPUTotalMs: 0,
      MemoryBytes: mib * 1024 * 1024,
      MemoryLimitBytes: limitMib === null ? null : limitMib * 1024 * 1024,
      Processes: 1,
      MemoryPeakBytes: (mib + 10) * 1024 * 1024,
      ThrottledPeriods: 3,
      ThrottledMs: 1500,
      OOMKills: 0,
      CPUUserMs: null,
      CPUSystemMs: null,
      IOReadBytes: null,
      IOWriteBytes: null,
      Pressure: null,
      Source: 'cgroup',
    },
  };
}

export function row(own: Partial<PsRow> & Pick<PsRow, 'alloc'>): PsRow {
  return { task: 'server', state: undefined, usage: undefined, restartsAllowed: undefined, ...own };
}

export function runningRow(id = '7a1c9d2e', job = 'orders'): PsRow {
  return row({
    alloc: alloc(id, { JobID: job }),
    state: taskState(
      'running',
      {
        StartedAt: msToRfc3339(NOW_MS - 3 * DAY),
        Restarts: 2,
        LastRestart: msToRfc3339(NOW_MS - 3 * DAY),
      },
      { Pid: 41230, RunID: 'r1' },
    ),
    usage: usage(4.12, 88, 256),
  });
}

export function backoffRow(): PsRow {
  return row({
    alloc: alloc('90be11f0', { TaskGroup: 'mail', CreateTime: msToNs(NOW_MS - HOUR) }),
    task: 'sender',
    state: taskState(
      'backoff',
      { Restarts: 4, LastRestart: msToRfc3339(NOW_MS - 8 * SECOND) },
      { NextStart: msToRfc3339(NOW_MS + 11_400), LastExit: exited(3), RestartsUsed: 2 },
    ),
    restartsAllowed: 3,
  });
}

export function failedRow(): PsRow {
  return row({
    alloc: alloc('c0ffee12', { JobID: 'nightly', TaskGroup: 'dump', ClientStatus: 'failed' }),
    task: 'pg',
    state: taskState(
      'dead',
      { Failed: true, FinishedAt: msToRfc3339(NOW_MS - 5 * MINUTE) },
      { LastExit: signaled(9, 'SIGKILL', true) },
    ),
  });
}

export function event(own: Partial<TaskEventRow> = {}): TaskEventRow {
  return {
    Type: 'Started',
    Time: msToNs(NOW_MS - 13 * SECOND),
    DisplayMessage: 'Task started by client, pid 52110',
    Details: {},
    Message: '',
    FailsTask: false,
    RestartReason: '',
    SetupError: '',
    DriverError: '',
    DriverMessage: '',
    ExitCode: 0,
    Signal: 0,
    KillReason: '',
    KillTimeout: 0,
    KillError: '',
    StartDelay: 0,
    ValidationError: '',
    DownloadError: '',
    FailedSibling: '',
    TaskSignal: '',
    TaskSignalReason: '',
    Holdfast: { Seq: 1, Exit: null },
    AllocID: alloc('90be11f0').ID,
    JobID: 'orders',
    Task: 'sender',
    ...own,
  };
}

/** The part of an event row that a task state carries. */
export function taskEvent(own: Partial<TaskEventRow>): TaskEvent {
  return event(own);
}

export function runRecord(attempt: number, own: Partial<Run> = {}): Run {
  return {
    RunID: `r${attempt}`,
    AllocID: alloc('90be11f0').ID,
    Task: 'sender',
    Attempt: attempt,
    Driver: 'raw_exec',
    BootID: 'b',
    SpecHash: '',
    Outcome: 'ended',
    IntendedAt: msToRfc3339(NOW_MS - HOUR + attempt * MINUTE),
    StartedAt: msToRfc3339(NOW_MS - HOUR + attempt * MINUTE),
    EndedAt: msToRfc3339(NOW_MS - HOUR + attempt * MINUTE + 41 * SECOND),
    RanFor: msToNs(41 * SECOND),
    Pid: 52110,
    Exit: exited(0),
    Error: '',
    Usage: { CPUUserMs: 1, CPUSystemMs: 1, PeakMemoryBytes: 256 * 1024 * 1024 },
    LogComplete: true,
    LeftoversKilled: 0,
    MemoryLimitHits: null,
    ...own,
  };
}

export function job(own: Partial<Job> = {}): Job {
  return {
    ID: 'orders',
    Name: 'orders',
    Namespace: 'default',
    Region: 'global',
    Type: 'service',
    Priority: 50,
    Datacenters: ['dc1'],
    Meta: null,
    TaskGroups: [],
    Stop: false,
    Version: 7,
    SubmitTime: msToNs(NOW_MS - 2 * HOUR),
    ModifyIndex: 1,
    JobModifyIndex: 1,
    Status: 'running',
    StatusDescription: '',
    CreateIndex: 1,
    ParentID: '',
    Stable: false,
    Dispatched: false,
    Holdfast: { NextLaunch: null },
    Periodic: null,
    ParameterizedJob: null,
    ...own,
  };
}

export function node(
  warnings: readonly string[] = [],
): Pick<
  Node,
  'Name' | 'Version' | 'Attributes' | 'Holdfast' | 'Drain' | 'SchedulingEligibility' | 'DrainStrategy'
> {
  return {
    Drain: false,
    SchedulingEligibility: 'eligible',
    DrainStrategy: null,
    Name: 'w12',
    Version: '0.1.0',
    Attributes: {},
    Holdfast: {
      BootID: 'b',
      DataDir: '/var/lib/holdfast',
      Socket: '/var/lib/holdfast/holdfast.sock',
      NodeVersion: 'v20.19.0',
      CgroupMode: 'v2',
      CgroupsDelegated: [],
      Capabilities: [],
      StartedAt: msToRfc3339(NOW_MS - 41 * DAY),
      Warnings: warnings,
    },
  };
}
