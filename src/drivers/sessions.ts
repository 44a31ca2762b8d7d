/** Owns commands in a task that runs, for whoever wants one: a session for a caller, or one command to its end. */
import { getSystemErrorMap } from 'node:util';
import type { Clock } from '../base/clock.js';
import { AgentError } from '../base/errors.js';
import type { Session, SessionEnd, SessionRequest } from '../executor/session.js';

/** What a command that was run to its end came to. */
export interface ExecResult {
  /** 0..255; 128 + n when signal n killed it. */
  readonly exitCode: number;
  /** Only when a signal killed it. */
  readonly signal?: number;
  /** Both streams as they came, the last MOST_OUTPUT_BYTES of them. */
  readonly output: string;
}

export interface ExecOptions {
  /** From the moment it is asked for; then all of it is killed. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Checks say a line or two; what is longer ends with what matters. */
export const MOST_OUTPUT_BYTES = 16 * 1024;
/** As a shell has them. */
const NOT_FOUND = 127;
const NOT_EXECUTABLE = 126;

/**
 * Runs one command to its end, without input.
 * @throws AgentError timeout, cancelled, not_running, start_failed
 */
export async function execToEnd(
  clock: Clock,
  open: (request: SessionRequest) => Promise<Session>,
  argv: readonly string[],
  { timeoutMs, signal }: ExecOptions,
): Promise<ExecResult> {
  const tail = new Tail();
  const session = await open({
    argv,
    terminal: undefined,
    onOutput: (_stream, data) => {
      tail.add(data);
      return Promise.resolve();
    },
  });
  session.closeInput();
  const cut: { why?: AgentError } = {};
  const cutOff = (why: AgentError) => (): void => {
    cut.why ??= why;
    session.end();
  };
  const late = `${argv[0] ?? ''} did not end within ${timeoutMs} ms and was killed`;
  const deadline = clock.setTimer(timeoutMs, cutOff(new AgentError('timeout', late)));
  const onAbort = cutOff(new AgentError('cancelled', 'the command is not wanted any more'));
  if (signal?.aborted === true) onAbort();
  else signal?.addEventListener('abort', onAbort);
  const ended = await session.ended;
  deadline[Symbol.dispose]();
  signal?.removeEventListener('abort', onAbort);
  if (cut.why !== undefined) throw cut.why;
  switch (ended.kind) {
    case 'exited':
      return { exitCode: ended.code, output: tail.text() };
    case 'signaled':
      if (ended.taskEnded) throw new AgentError('not_running', 'the task ended before the command did');
      return { exitCode: 128 + ended.signal, signal: ended.signal, output: tail.text() };
    case 'failed':
    case 'lost':
      throw sessionFailure(ended, argv);
  }
}

/** The exit code that a shell would give for a command that cannot be run; undefined for any other trouble. */
export function shellCodeOf(end: Extract<SessionEnd, { kind: 'failed' }>): number | undefined {
  if (end.stage !== 'exec') return undefined;
  return end.errno === ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

/** Why there was no command, in words. */
export function sessionFailure(
  end: Extract<SessionEnd, { kind: 'failed' | 'lost' }>,
  argv: readonly string[],
): AgentError {
  if (end.kind === 'lost') {
    return new AgentError('executor_failed', 'the session was killed, and nobody saw how its command ended', {
      recoverable: true,
    });
  }
  const command = JSON.stringify(argv[0] ?? '');
  const [, text] = getSystemErrorMap().get(-end.errno) ?? [];
  const why = text ?? `errno ${end.errno}`;
  if (end.stage === 'identity') return new AgentError('not_running', 'the task is not running');
  if (end.stage === 'exec' && end.errno === ENOENT)
    return new AgentError('start_failed', `there is no program ${command} on the task's PATH`);
  if (end.stage === 'exec') return new AgentError('start_failed', `cannot run ${command}: ${why}`);
  return new AgentError('start_failed', `cannot join the task (${end.stage}): ${why}`);
}

const ENOENT = 2;

/** The last bytes of what was added. */
class Tail {
  #held: Buffer[] = [];
  #bytes = 0;

  add(data: Buffer): void {
    this.#held.push(data);
    this.#bytes += data.length;
    if (this.#bytes < 2 * MOST_OUTPUT_BYTES) return;
    this.#held = [Buffer.from(Buffer.concat(this.#held).subarray(-MOST_OUTPUT_BYTES))];
    this.#bytes = MOST_OUTPUT_BYTES;
  }

  text(): string {
    return Buffer.concat(this.#held).subarray(-MOST_OUTPUT_BYTES).toString('utf8');
  }
}
