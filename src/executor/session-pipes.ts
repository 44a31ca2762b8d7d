/** Owns a session without a terminal: three pipes. */
import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { childRef, type EnterArguments, type Entered, type SessionStream } from './session.js';

/** @throws a system error when it cannot be started at all */
export function enterWithPipes({ executorPath, args, runDir, request }: EnterArguments): Entered {
  // Detached: a signal to the agent's terminal is not meant for it.
  const child = spawn(executorPath, args, {
    cwd: runDir,
    env: {},
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const { stdin } = child;
  // Nobody may read what is typed; that is no fault of ours.
  stdin.on('error', () => undefined);
  child.on('error', () => undefined);
  if (child.pid === undefined) throw new Error(`cannot run ${executorPath}`);
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => {
      resolve();
    });
  });
  const read = async (stream: SessionStream, from: Readable): Promise<void> => {
    try {
      for await (const chunk of from) await request.onOutput(stream, chunk as Buffer);
    } catch {
      // A pipe that breaks has no more to give.
    }
  };
  const outputs = Promise.all([read('stdout', child.stdout), read('stderr', child.stderr)]);
  return {
    process: childRef(child.pid),
    gone: exited.then(async () => {
      await outputs;
    }),
    write: (data) =>
      new Promise((resolve) => {
        if (stdin.writable) {
          stdin.write(data, () => {
            resolve();
          });
        } else resolve();
      }),
    closeInput: () => {
      stdin.end();
    },
    resize: () => undefined,
  };
}
