/** Owns the exit codes of the CLI and the one error that ends a command. */
import type { ErrorCode } from '../base/errors.js';

/** Contract §3. */
export const EXIT = {
  ok: 0,
  failed: 1,
  /** Wrong usage, or an invalid job file. */
  usage: 2,
  notRunning: 3,
  notFound: 4,
  unreachable: 5,
  notPermitted: 6,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends the command with this code. The message is one line: what, why, what to do. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = exitCode;
  }
}

/** The exit code for an error that the daemon answered with. */
export function exitCodeOf(code: ErrorCode): ExitCode {
  switch (code) {
    case 'not_found':
      return EXIT.notFound;
    case 'not_running':
      return EXIT.notRunning;
    case 'not_permitted':
      return EXIT.notPermitted;
    case 'agent_leaving':
      return EXIT.unreachable;
    case 'ambiguous':
    case 'bad_request':
    case 'driver_config_invalid':
    case 'driver_not_found':
    case 'job_invalid':
    case 'signal_unknown':
      return EXIT.usage;
    case 'already_running':
    case 'cancelled':
    case 'conflict':
    case 'executor_failed':
    case 'executor_missing':
    case 'executor_unreachable':
    case 'hook_failed':
    case 'internal':
    case 'kill_failed':
    case 'protocol_error':
    case 'schema_too_new':
    case 'start_failed':
    case 'store_corrupt':
    case 'store_locked':
    case 'store_unavailable':
    case 'timeout':
    case 'too_many':
    case 'wrong_host':
      return EXIT.failed;
  }
}
