/**
 * Owns the short-lived foreground process of the executor program: starts `run DIR`, `adopt DIR` and the like, and gives its exit
 * status with what it said. The executor itself has forked away from it and is nobody's child.
 */
import { spawn } from 'node:child_process';
import type { Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Launcher } from './launcher.js';

/** Exit statuses, as native/README.md has them. */
export const EXECUTOR_EXIT = { ok: 0, claimed: 10, startFailed: 11, workloadGone: 13 } as const;

export type ForegroundEnd =
  | { readonly kind: 'exited'; readonly code: number; readonly said: string }
  /** It was killed, hung, or could not be run: nothing is known of what it has done. */
  | { readonly kind: 'unclear'; readonly detail: string };

/** Most that is kept of its standard error: it says one line. */
const MOST_SAID_BYTES = 4096;
/** How long its standard error may stay open after its end. */
const STDERR_WITHIN_MS = 500;

/** `wake` and `unseat` are for an executor that does not answer; native/README.md has them all. */
export type ExecutorCommand = 'run' | 'adopt' | 'wake' | 'unseat';

/** What is asked of the executor program. */
export interface ForegroundCall {
  readonly clock: Clock;
  readonly executorPath: string;
  readonly command: ExecutorCommand;
  readonly runDir: string;
  /** After this it is killed; the executor, if there is one already, is not. */
  readonly withinMs: number;
  /** Spares the agent its own fork. */
  readonly launcher: Launcher | undefined;
}

/** Never rejects. */
export function runForeground(call: ForegroundCall): Promise<ForegroundEnd> {
  const { launcher, command, runDir, withinMs } = call;
  return launcher?.hasRoom === true ? launcher.run(command, runDir, withinMs) : spawnForeground(call);
}

function spawnForeground({
  clock,
  executorPath,
  command,
  runDir,
  withinMs,
}: ForegroundCall): Promise<ForegroundEnd> {
  const args = [command, runDir];
  return new Promise((resolve) => {
    // Detached: a signal to the agent's terminal or process group must not reach it between two of its steps.
    const child = spawn(executorPath, args, {
      cwd: '/',
      env: {},
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    let late = false;
    const timer = clock.setTimer(withinMs, () => {
      late = true;
      child.kill('SIGKILL');
    });
    const finish = (end: ForegroundEnd): void => {
      timer[Symbol.dispose]();
      child.stderr.destroy();
      resolve(end);
    };
    child.stderr.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString('utf8')).slice(0, MOST_SAID_BYTES);
    });
    child.on('error', (error) => {
      finish({ kind: 'unclear', detail: `cannot run ${executorPath}: ${describeError(error)}` });
    });
    child.on('exit', (code, signal) => {
      if (code === null) {
        const why = late ? `it took longer than ${withinMs} ms` : `it was killed by ${signal ?? 'a signal'}`;
        finish({ kind: 'unclear', detail: `${args.join(' ')}: ${why}` });
        return;
      }
      if (code === EXECUTOR_EXIT.ok) {
        finish({ kind: 'exited', code, said: '' });
        return;
      }
      const patience = clock.setTimer(STDERR_WITHIN_MS, () => child.stderr.destroy());
      child.once('close', () => {
        patience[Symbol.dispose]();
        finish({ kind: 'exited', code, said: said.trim() });
      });
    });
  });
}
