/** Owns a session on a pseudo-terminal of the agent's. */
import type { Socket } from 'node:net';
import type * as Pty from 'node-pty';
import { isAlive } from '../base/host.js';
import { loadPackage } from '../base/lazy.js';
import { childRef, type EnterArguments, type Entered, type TerminalSize } from './session.js';

/** End of file, as a terminal has it. */
const CTRL_D = Buffer.from([4]);

/** @throws when there is no pseudo-terminal to be had */
export function enterOnTerminal(
  { executorPath, args, sessionId, runDir, request }: EnterArguments,
  size: TerminalSize,
): Entered {
  // Only sessions need it: an agent that has none does not load it.
  const { spawn } = loadPackage('node-pty') as typeof Pty;
  const pty = spawn(executorPath, [...args], {
    cwd: runDir,
    env: {},
    cols: size.columns,
    rows: size.rows,
    // Bytes as they come: a character may be cut anywhere.
    encoding: null,
  });
  // Its own `write` spins while a program reads nothing, and may write to a number that is another file by then; the
  // socket it reads from waits, and knows when it is closed.
  const socket = (pty as unknown as { readonly _socket: Socket })._socket;
  const process = childRef(pty.pid);
  const screen = new MarkedOutput(sessionId);
  let isOver = false;
  let taken = Promise.resolve();
  const take = (bytes: Buffer): void => {
    if (bytes.length > 0) taken = taken.then(() => request.onOutput('stdout', bytes));
  };
  pty.onData((data) => {
    const { bytes, isEnd } = screen.push(data as unknown as Uint8Array);
    take(bytes);
    pty.pause();
    void taken.then(() => {
      if (isEnd) tellTaken(process);
      if (!isOver) pty.resume();
    });
  });
  const gone = new Promise<void>((resolve) => {
    pty.onExit(() => {
      isOver = true;
      take(screen.rest());
      resolve();
    });
  });
  const write = (data: Buffer): Promise<void> =>
    new Promise((resolve) => {
      if (isOver || !socket.writable) resolve();
      else {
        socket.write(data, () => {
          resolve();
        });
        void gone.then(resolve);
      }
    });
  return {
    process,
    gone: gone.then(() => taken),
    write,
    closeInput: () => {
      void write(CTRL_D);
    },
    resize: ({ columns, rows }) => {
      if (!isOver && !socket.destroyed) pty.resize(columns, rows);
    },
  };
}

/** All that was on the terminal has been taken: what stands beside the command may leave. */
function tellTaken(ref: Entered['process']): void {
  try {
    if (ref !== undefined && isAlive(ref)) process.kill(ref.pid, 'SIGUSR1');
  } catch {
    // It has left already.
  }
}

/** Takes the marker of the end out of what a terminal shows; see native/README.md. It may come in any number of pieces. */
class MarkedOutput {
  readonly #marker: Buffer;
  #held = Buffer.alloc(0);

  constructor(sessionId: string) {
    this.#marker = Buffer.from(`\x1b]holdfast;${sessionId}\x07`, 'latin1');
  }

  push(data: Uint8Array): { readonly bytes: Buffer; readonly isEnd: boolean } {
    const all = Buffer.concat([this.#held, data]);
    const at = all.indexOf(this.#marker);
    if (at >= 0) {
      this.#held = Buffer.alloc(0);
      const after = all.subarray(at + this.#marker.length);
      return { bytes: Buffer.concat([all.subarray(0, at), after]), isEnd: true };
    }
    // What may be its beginning waits for what follows.
    let length = Math.min(all.length, this.#marker.length - 1);
    while (length > 0 && !all.subarray(-length).equals(this.#marker.subarray(0, length))) length -= 1;
    const cut = all.length - length;
    this.#held = Buffer.from(all.subarray(cut));
    return { bytes: all.subarray(0, cut), isEnd: false };
  }

  /** What was held back for nothing. */
  rest(): Buffer {
    const held = this.#held;
    this.#held = Buffer.alloc(0);
    return held;
  }
}
