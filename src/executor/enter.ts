/**
 * Owns the start and the end of a session: `holdfast-executor enter`, on a pseudo-terminal (node-pty) or with pipes. A
 * session belongs to this agent and ends with it.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../base/clock.js';
import { AgentError, describeError, errnoOf } from '../base/errors.js';
import { isAlive, type ProcessRef } from '../base/host.js';
import { newRunId } from '../base/ids.js';
import { enterWithPipes } from './session-pipes.js';
import { enterOnTerminal } from './session-terminal.js';
import {
  parseSessionResult,
  type EnterArguments,
  type Entered,
  type Session,
  type SessionRequest,
} from './session.js';

/** Besides the second that the command gets, for what stands beside it. */
const END_WITHIN_MS = 15_000;
const LONGEST_RESULT_BYTES = 4096;

/**
 * Begins a session.
 * @throws AgentError not_running when there is no such run any more, executor_failed
 */
export async function enterRun(
  deps: { readonly clock: Clock; readonly executorPath: string },
  runDir: string,
  request: SessionRequest,
): Promise<Session> {
  const id = newRunId();
  const resultPath = join(runDir, `session-${id}`);
  try {
    // Made here, so that nothing new appears in a run directory that is being removed.
    await writeFile(resultPath, '', { flag: 'wx', mode: 0o600 });
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') throw new AgentError('not_running', 'the task has ended', { cause });
    throw new AgentError('executor_failed', `cannot begin a session: ${describeError(cause)}`, {
      recoverable: true,
      cause,
    });
  }
  const mode = request.terminal === undefined ? 'pipes' : 'tty';
  const how: EnterArguments = {
    executorPath: deps.executorPath,
    args: ['enter', id, mode, String(process.pid), ...request.argv],
    sessionId: id,
    runDir,
    request,
  };
  try {
    const entered =
      request.terminal === undefined ? enterWithPipes(how) : enterOnTerminal(how, request.terminal);
    return toSession(deps.clock, entered, resultPath);
  } catch (cause) {
    await rm(resultPath, { force: true });
    throw new AgentError('executor_failed', `cannot begin a session: ${describeError(cause)}`, {
      recoverable: true,
      cause,
    });
  }
}

function toSession(clock: Clock, entered: Entered, resultPath: string): Session {
  let isAskedToEnd = false;
  let isOver = false;
  const ended = entered.gone.then(async () => {
    isOver = true;
    const end = parseSessionResult(await readResult(resultPath));
    await rm(resultPath, { force: true });
    return end;
  });
  return {
    write: (data) => entered.write(data),
    closeInput: () => {
      entered.closeInput();
    },
    resize: (size) => {
      entered.resize(size);
    },
    end: () => {
      if (isAskedToEnd || isOver) return;
      isAskedToEnd = true;
      sendSignal(entered.process, 'SIGTERM');
      const late = clock.setTimer(END_WITHIN_MS, () => {
        sendSignal(entered.process, 'SIGKILL');
      });
      late.unref();
      void ended.then(() => {
        late[Symbol.dispose]();
      });
    },
    ended,
  };
}

async function readResult(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).slice(0, LONGEST_RESULT_BYTES);
  } catch {
    // The run directory is gone with the run: what there was to say is lost.
    return '';
  }
}

function sendSignal(ref: ProcessRef | undefined, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (ref !== undefined && isAlive(ref)) process.kill(ref.pid, signal);
  } catch {
    // It ended by itself meanwhile.
  }
}
