/**
 * Owns how the end of one run is described. Started, could not start, exited and lost are four different things;
 * a status that nobody saw is `unknown` with a reason and is never written as 0, -1 or 137.
 */

/** How a started workload ended. `128 + n` is a view (see `nomadExitCode`), never data. */
export type ExitResult =
  | { readonly kind: 'exited'; readonly code: number; readonly oomKilled: boolean }
  | {
      readonly kind: 'signaled';
      readonly signal: number;
      readonly coreDumped: boolean;
      readonly oomKilled: boolean;
    }
  | { readonly kind: 'unknown'; readonly reason: UnknownExitReason; readonly detail: string };

/** Why an exit status could not be known. */
export type UnknownExitReason =
  'host_rebooted' | 'executor_lost' | 'record_unreadable' | 'supervision_lost' | 'driver_error';

/** Seen by whoever was there: when it ended and what it had used. Fields that nobody measured are undefined. */
export interface ExitReport {
  readonly result: ExitResult;
  /** Wall time of the start of the workload. */
  readonly startedAtMs: number | undefined;
  /** Wall time of the end; for an unknown result the time it was noticed. */
  readonly endedAtMs: number;
  /** How long the workload ran, by the monotonic clock. */
  readonly ranForMs: number | undefined;
  readonly usage: RunUsage | undefined;
  /** False when bytes at the tail of its output may be missing. */
  readonly logComplete: boolean;
  /** Processes that outlived the leader and were killed. */
  readonly leftoversKilled: number;
  /** How often its memory was at the limit, so that some had to be taken back or a process killed; not there = not counted. */
  readonly memoryLimitHits?: number;
}

/** What nobody measured is not there. */
export interface RunUsage {
  /** Of the whole tree, where a cgroup told; else of what its executor reaped. */
  readonly cpuUserMs?: number;
  readonly cpuSystemMs?: number;
  /** Highest memory use of the whole tree, where a cgroup told; else the leader's max RSS. */
  readonly peakMemoryBytes?: number;
}

/** True for code 0 and nothing else. */
export function isSuccess(result: ExitResult): boolean {
  return result.kind === 'exited' && result.code === 0;
}

/** Nomad's pair: a signal is shown as 128 + n with the signal beside it; unknown is -1 with no signal. */
export function nomadExitCode(result: ExitResult): { exitCode: number; signal: number } {
  switch (result.kind) {
    case 'exited':
      return { exitCode: result.code, signal: 0 };
    case 'signaled':
      return { exitCode: 128 + result.signal, signal: result.signal };
    case 'unknown':
      return { exitCode: -1, signal: 0 };
  }
}
