/** Drives store-child.ts from a test. Whoever starts one ends it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Answer, Ask } from './store-child.js';

const PROGRAM = fileURLToPath(new URL('./store-child.js', import.meta.url));

export class ChildStore {
  readonly process: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  /** @param wrapper a command that is to start node, such as `['unshare', '-m']` */
  constructor(path: string, wrapper: readonly string[] = []) {
    const [command = '', ...args] = Array.from([...wrapper, process.execPath, PROGRAM, path]);
    this.process = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const { stdout, stdin } = this.process;
    if (stdout === null || stdin === null) throw new Error('no pipes');
    // A child that was killed no longer listens: the missing answer says so.
    stdin.on('error', () => undefined);
    this.#answers = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  /** Asks without waiting for the answer. */
  send(ask: Ask): void {
    this.process.stdin?.write(`${JSON.stringify(ask)}\n`);
  }

  /** The next answer; undefined when the child is gone. */
  async answer(): Promise<Answer | undefined> {
    const next = await this.#answers.next();
    return next.done === true ? undefined : (JSON.parse(next.value) as Answer);
  }

  async ask(ask: Ask): Promise<Answer> {
    this.send(ask);
    const answer = await this.answer();
    if (answer === undefined) throw new Error(`the child ended instead of answering ${JSON.stringify(ask)}`);
    return answer;
  }

  /** Ends the child, at once and without warning. */
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill('SIGKILL');
    await once(this.process, 'exit');
  }
}
