/** Starts executors as the launcher does: its words come on their standard input, what they report on their standard error. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { isAlive, readProcessStat, type ProcessRef } from '../../src/base/host.js';
import { until } from '../helpers/until.js';
import { EXECUTOR, IS_ROOT, type Run, type Told } from './harness.js';

/** `struct report` of native/executor.h: a number, and words that end with a NUL. */
const REPORT_BYTES = 512;
const MADE = 'm';
const GO = 'g';
/** Where a child has its gate: native/child.h. */
const GATE_FD = 4;

/** One executor that was started to be held. Disposed of without GO, it leaves. */
export class Held implements Disposable {
  /** What it reported, undefined when it ended without. */
  readonly report: Promise<Told | undefined>;
  /** The report, or the exit status and the words for people of one that could not even do that. */
  readonly told: Promise<Told>;
  readonly #run: Run;
  #isMade = false;
  readonly #process: ChildProcessByStdio<Writable, null, Readable>;

  /** @param prefix a command that runs the executor */
  constructor(run: Run, prefix: readonly string[] = []) {
    this.#run = run;
    const [command, ...args] = [...prefix, EXECUTOR, 'start', run.dir];
    this.#process = spawn(command, args, {
      cwd: '/',
      env: {},
      detached: true,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    // It may have left: whoever tells it something finds that out by its report.
    this.#process.stdin.on('error', () => undefined);
    const said = this.#listen();
    const ended = once(this.#process, 'exit') as Promise<[number | null]>;
    this.report = said.then(asReport);
    this.told = Promise.all([this.report, said]).then(
      async ([report, words]) => report ?? { status: (await ended)[0], stderr: words.toString('utf8') },
    );
  }

  /** Says that its cgroup is there. Resolves when the kernel has taken it, whoever reads it. */
  made(): Promise<void> {
    const word = this.#isMade ? '' : MADE;
    this.#isMade = true;
    return this.#say(word);
  }

  /** Lets it run, in one piece with the word before when that was not said. Resolves likewise. */
  go(): Promise<void> {
    const words = this.#isMade ? GO : MADE + GO;
    this.#isMade = true;
    return this.#say(words);
  }

  /** The end of its standard input, as when its launcher dies. */
  leave(): void {
    this.#process.stdin.destroy();
  }

  async #say(words: string): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#process.stdin.write(words, () => {
        resolve();
      });
    });
  }

  /** Waits until the executor is set up, as far as it can be without its cgroup. */
  async isSetUp(): Promise<ProcessRef> {
    const run = this.#run;
    await until('it is set up', () => existsSync(join(run.dir, 'status')), { everyMs: 2 });
    return run.executor;
  }

  /**
   * Says that its cgroup is there, and waits until it stands at its gate with all that comes before.
   * @param children of it: the task to be, with a pid namespace also its process 1
   * @returns the executor and those
   */
  async ready(children = 1): Promise<{ readonly executor: ProcessRef; readonly children: ProcessRef[] }> {
    const run = this.#run;
    await this.made();
    const at = (): ProcessRef[] | undefined => {
      if (!existsSync(join(run.dir, 'status'))) return undefined;
      const found = childrenOf(run.executor.pid);
      return found.length === children && found.some(({ pid }) => isAtGate(pid)) ? found : undefined;
    };
    const found = await until('it waits at its gate', at, { everyMs: 2, lastSeen: () => run.look() });
    return { executor: run.executor, children: found };
  }

  async #listen(): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.#process.stderr) pieces.push(piece as Buffer);
    return Buffer.concat(pieces);
  }

  [Symbol.dispose](): void {
    this.leave();
  }
}

function asReport(bytes: Buffer): Told | undefined {
  if (bytes.length !== REPORT_BYTES) return undefined;
  return { status: bytes.readInt32LE(0), stderr: bytes.toString('utf8', 4).replace(/\0[^]*$/, '') };
}

/** The processes that it has, of which none is a zombie. */
export function childrenOf(pid: number): ProcessRef[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => ({ pid: Number(word), startTicks: readProcessStat(Number(word))?.startTicks ?? 0 }))
    .filter(isAlive);
}

/** Whether it sleeps in a call for the descriptor that is its gate; only root may look. */
function isAtGate(pid: number): boolean {
  if (!IS_ROOT) return true;
  try {
    return new RegExp(`^\\d+ 0x${GATE_FD.toString(16)} `).test(
      readFileSync(`/proc/${pid}/syscall`, 'latin1'),
    );
  } catch {
    return false;
  }
}

/** Waits until none of them is there. */
export async function areGone(refs: readonly ProcessRef[]): Promise<void> {
  await until('they are gone', () => !refs.some(isAlive), {
    everyMs: 2,
    timeoutMs: 5_000,
    lastSeen: () => refs,
  });
}
