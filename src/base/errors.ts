/**
 * Owns the one error class of the agent and the catalogue of its codes. A task's failure is data (an ExitResult, a
 * task event) and never an exception; what is thrown is a failure of ours or of the caller.
 * Each code is described in docs/errors.md; a test compares the two.
 */

/** Every code that an AgentError may carry. */
export const ERROR_CODES = [
  'agent_leaving',
  'already_running',
  'bad_request',
  'cancelled',
  'conflict',
  'driver_config_invalid',
  'driver_not_found',
  'executor_failed',
  'executor_missing',
  'executor_unreachable',
  'hook_failed',
  'internal',
  'job_invalid',
  'kill_failed',
  'not_found',
  'not_permitted',
  'not_running',
  'ambiguous',
  'protocol_error',
  'schema_too_new',
  'signal_unknown',
  'start_failed',
  'store_corrupt',
  'store_locked',
  'store_unavailable',
  'timeout',
  'too_many',
  'wrong_host',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** A failure of the agent. Decide on `code` and `recoverable`, never on the text. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: ErrorCode;
  /** True when trying the same thing again later may work (busy disk, unreachable executor). */
  readonly recoverable: boolean;

  /**
   * @param message says what failed, on what, and what to do, in one line
   * @param options.recoverable default false
   */
  constructor(code: ErrorCode, message: string, options: { recoverable?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.recoverable = options.recoverable ?? false;
  }
}

/** True when retrying by policy makes sense. Anything that is not an AgentError is not recoverable. */
export function isRecoverable(error: unknown): boolean {
  return error instanceof AgentError && error.recoverable;
}

/** One line of text for whatever was thrown. */
export function describeError(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === 'string' ? error : JSON.stringify(error);
}

/** As `describeError`, but a system error as people say it: `no such file or directory`, without code, call and path. */
export function describeSystemError(error: unknown): string {
  const said = /^E[A-Z0-9]+: ([^,]+)/.exec(describeError(error))?.[1];
  return said === undefined || errnoOf(error) === undefined ? describeError(error) : said;
}

/** The `code` of a Node system error (`ENOENT` …), or undefined for anything else. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** True when something could not be looked at for want of descriptors or memory: it says nothing about the thing. */
export function isExhausted(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'EMFILE' || errno === 'ENFILE' || errno === 'ENOMEM';
}
