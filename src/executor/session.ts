/**
 * Owns what a session is: one command in a running workload, with its input, its output and its end. How it comes about
 * is in native/README.md.
 */
import { readProcessStat, type ProcessRef } from '../base/host.js';

export type SessionStream = 'stdout' | 'stderr';

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export interface SessionRequest {
  /** The program, and its arguments. */
  readonly argv: readonly string[];
  /** On a terminal of this size; undefined = with pipes. */
  readonly terminal: TerminalSize | undefined;
  /** Takes what the command writes. The command is held up until it resolves. Must not reject. */
  readonly onOutput: (stream: SessionStream, data: Buffer) => Promise<void>;
}

/** How a session ended. */
export type SessionEnd =
  | { readonly kind: 'exited'; readonly code: number; readonly taskEnded: boolean }
  | { readonly kind: 'signaled'; readonly signal: number; readonly taskEnded: boolean }
  /** The command was never run. */
  | { readonly kind: 'failed'; readonly stage: string; readonly errno: number }
  /** What stands beside the command was killed. */
  | { readonly kind: 'lost' };

/** A session that has begun. */
export interface Session {
  /** Hands input on; resolves when more may come. Input after the end goes nowhere. */
  write(data: Buffer): Promise<void>;
  /** No more input: end of file, on a terminal Ctrl-D. */
  closeInput(): void;
  /** Ignored without a terminal. */
  resize(size: TerminalSize): void;
  /** Asks for the end: a hangup, a second later SIGKILL to all of it. */
  end(): void;
  /** Resolves when nothing of the session is left and all its output was taken. Never rejects. */
  readonly ended: Promise<SessionEnd>;
}

/** What a way to enter gives: all but the result, which is the same for both. */
export interface Entered extends Omit<Session, 'ended' | 'end'> {
  readonly process: ProcessRef | undefined;
  /** Resolves when the process is gone and all output was taken. */
  readonly gone: Promise<void>;
}

export interface EnterArguments {
  readonly executorPath: string;
  readonly args: readonly string[];
  readonly sessionId: string;
  readonly runDir: string;
  readonly request: SessionRequest;
}

/** What a session's result file says. Pure. */
export function parseSessionResult(text: string): SessionEnd {
  const values = new Map(
    text.split('\n').map((line): [string, string] => {
      const at = line.indexOf('=');
      return [line.slice(0, Math.max(0, at)), line.slice(at + 1)];
    }),
  );
  const number = (key: string): number => Number(values.get(key) ?? '-1');
  const taskEnded = values.get('ended_by') === 'task';
  switch (values.get('result')) {
    case 'exited':
      return { kind: 'exited', code: number('code'), taskEnded };
    case 'signaled':
      return { kind: 'signaled', signal: number('signal'), taskEnded };
    case 'failed':
      return { kind: 'failed', stage: values.get('stage') ?? '', errno: number('errno') };
    case undefined:
    default:
      return { kind: 'lost' };
  }
}

/** The process that was just started. It cannot be anybody else: it is our child and was not waited for. */
export function childRef(pid: number | undefined): ProcessRef | undefined {
  const stat = pid === undefined ? undefined : readProcessStat(pid);
  return stat === undefined || pid === undefined ? undefined : { pid, startTicks: stat.startTicks };
}
