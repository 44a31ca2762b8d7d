/**
 * Owns the helper process that starts executors: forking a small process is cheap, forking this one costs about a
 * millisecond in which nothing else happens; and it can hold an executor that is set up until the task may run. Only a
 * shortcut: where there is no helper, or it has died, foreground.ts starts them itself.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { sleep, type Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { ExecutorCommand, ForegroundEnd } from './foreground.js';

/** How long a foreground process that was killed may take to be gone before nothing more is expected of the helper. */
const GONE_WITHIN_MS = 2_000;

/**
 * So many executors may wait for their word at once. It has twice as many slots (native/launch.c): the word must never wait
 * behind those that wait for it.
 */
const MOST_HELD = 32;
/** So many calls may be under way: with all slots in use it reads no word more. */
const MOST_CALLS = 60;

/** An executor that is being set up, or is, and runs nothing before it is told to. */
export interface HeldStart {
  /** Its cgroup is there, or it has none: the task's process can be made. Call once, before `go`. */
  made(): void;
  /** Lets the task run. Resolves with what came of the start. Call once, unless `drop` was called. Never rejects. */
  go(withinMs: number): Promise<ForegroundEnd>;
  /** It shall never run. Resolves when its executor has left, or did not within a while. Never rejects. */
  drop(withinMs: number): Promise<ForegroundEnd>;
}

type Helper = ChildProcessByStdio<Writable, Readable, null>;

export interface LauncherDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly executorPath: string;
  /** Puts the helper where it belongs; before that, nothing is started by it. Must not reject. */
  readonly admit?: (pid: number) => Promise<void>;
}

/** Words on the pipes as native/launch.c has them. */
export class Launcher implements AsyncDisposable {
  readonly #deps: LauncherDeps;
  readonly #waiting = new Map<string, (end: ForegroundEnd) => void>();
  /** Calls that are not waited for any more, and have a slot still. */
  readonly #late = new Set<string>();
  #held = 0;
  /** What it is told once it is where it belongs; undefined = it is. */
  #early: string[] | undefined;
  #helper: Helper | undefined;
  #isReady = false;
  #lastId = 0;
  #received = '';

  /** Starts the helper; a fault shows in `isReady` staying false. */
  constructor(deps: LauncherDeps) {
    this.#deps = deps;
    const helper = spawn(deps.executorPath, ['launch', deps.executorPath], {
      cwd: '/',
      env: {},
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    this.#helper = helper;
    if (helper.pid !== undefined && deps.admit !== undefined) void this.#admit(deps.admit(helper.pid));
    helper.stdout.setEncoding('utf8');
    helper.stdout.on('data', (chunk: string) => {
      this.#onData(chunk);
    });
    helper.on('error', (error) => {
      this.#onGone(describeError(error));
    });
    helper.on('close', (code, signal) => {
      this.#onGone(`it ended with ${String(signal ?? code)}`);
    });
    // A write to a helper that has just ended; `close` tells.
    helper.stdin.on('error', () => undefined);
  }

  /** True while it can be asked. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** True while one more thing may be asked of it. */
  get hasRoom(): boolean {
    return this.#isReady && this.#waiting.size + this.#late.size < MOST_CALLS;
  }

  /** Pid of the helper, for tests. */
  get pid(): number | undefined {
    return this.#helper?.pid;
  }

  /** Runs `<executor> <command> <dir>` to the end of its foreground process. Only while `isReady`. Never rejects. */
  run(command: ExecutorCommand, dir: string, withinMs: number): Promise<ForegroundEnd> {
    const helper = this.#helper;
    if (helper === undefined)
      return Promise.resolve({ kind: 'unclear', detail: 'the launcher is not there' });
    const { id, ended } = this.#ask(helper, `${command} ${dir}`);
    return this.#within(helper, { id, ended, what: `${command} ${dir}` }, withinMs);
  }

  /**
   * Starts an executor for the run of that directory, which sets itself up and then waits. When this agent dies first, it
   * leaves, and nothing has run. Undefined = it cannot be done now, also when too many wait.
   */
  hold(dir: string): HeldStart | undefined {
    const helper = this.#helper;
    if (helper === undefined || !this.hasRoom || this.#held >= MOST_HELD) return undefined;
    const call = { ...this.#ask(helper, `start ${dir}`), what: `start ${dir}`, isAnswered: true };
    this.#held += 1;
    const tell = (word: 'go' | 'drop', withinMs: number): Promise<ForegroundEnd> => {
      this.#held -= 1;
      this.#write(helper, `${call.id} ${word}`);
      return this.#within(helper, call, withinMs);
    };
    return {
      made: () => {
        this.#write(helper, `${call.id} made`);
      },
      go: (withinMs) => tell('go', withinMs),
      drop: (withinMs) => tell('drop', withinMs),
    };
  }

  #ask(helper: Helper, what: string): { readonly id: string; readonly ended: Promise<ForegroundEnd> } {
    this.#lastId += 1;
    const id = String(this.#lastId);
    const ended = new Promise<ForegroundEnd>((resolve) => {
      this.#waiting.set(id, resolve);
    });
    this.#write(helper, `${id} ${what}`);
    return { id, ended };
  }

  async #admit(admitted: Promise<void>): Promise<void> {
    this.#early = [];
    await admitted;
    const early = this.#early;
    this.#early = undefined;
    for (const message of early) this.#helper?.stdin.write(message);
  }

  /** At once: it works while this process goes on. */
  #write(helper: Helper, message: string): void {
    if (this.#early === undefined) helper.stdin.write(`${message}\0`);
    else this.#early.push(`${message}\0`);
  }

  /**
   * Its end; after `withinMs` it is ended, and nothing is known of what it has done.
   * @param call.isAnswered a `kill` of it is answered at once, whatever the disk does
   */
  async #within(
    helper: Helper,
    call: {
      readonly id: string;
      readonly ended: Promise<ForegroundEnd>;
      readonly what: string;
      readonly isAnswered?: boolean;
    },
    withinMs: number,
  ): Promise<ForegroundEnd> {
    const { clock } = this.#deps;
    let timer = clock.setTimer(withinMs, () => {
      this.#write(helper, `${call.id} kill`);
      timer = clock.setTimer(GONE_WITHIN_MS, () => {
        this.#late.add(call.id);
        this.#end(call.id, { kind: 'unclear', detail: `${call.what}: it took longer than ${withinMs} ms` });
        // It was stopped, perhaps: those that wait for its word must not wait for ever.
        if (call.isAnswered === true && this.#helper === helper) this.#giveUp(helper);
      });
    });
    const end = await call.ended;
    timer[Symbol.dispose]();
    return end;
  }

  /**
   * Ends the helper; what it started lives on. Waits until it is gone, within reason: a service manager that finds it
   * after the end of the agent says so to the operator.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const helper = this.#helper;
    this.#onGone(undefined);
    if (helper?.exitCode !== null || helper.signalCode !== null) return;
    const gone = new AbortController();
    helper.once('exit', () => {
      gone.abort();
    });
    helper.stdin.end();
    await sleep(this.#deps.clock, GONE_WITHIN_MS, gone.signal);
    if (!gone.signal.aborted) helper.kill('SIGKILL');
  }

  #giveUp(helper: Helper): void {
    helper.kill('SIGKILL');
    this.#onGone('it did not answer');
  }

  #onData(chunk: string): void {
    const messages = (this.#received + chunk).split('\0');
    this.#received = messages.pop() ?? '';
    for (const message of messages) {
      if (message === '') this.#isReady = true;
      const [, id, how, value, said] = /^(\d+) (exited|killed|failed) (\d+) ([^]*)$/.exec(message) ?? [];
      if (id === undefined || value === undefined || said === undefined) continue;
      this.#late.delete(id);
      if (how === 'exited') this.#end(id, { kind: 'exited', code: Number(value), said: said.trim() });
      else if (how === 'killed')
        this.#end(id, { kind: 'unclear', detail: `it was killed by signal ${value}` });
      else this.#end(id, { kind: 'unclear', detail: `cannot run ${this.#deps.executorPath}: ${said}` });
    }
  }

  #end(id: string, end: ForegroundEnd): void {
    const resolve = this.#waiting.get(id);
    this.#waiting.delete(id);
    resolve?.(end);
  }

  /** @param why undefined: we ended it ourselves */
  #onGone(why: string | undefined): void {
    if (this.#helper === undefined) return;
    this.#helper = undefined;
    this.#isReady = false;
    if (why !== undefined)
      this.#deps.logger.warn({ why }, 'the launcher is gone, executors are started without it');
    // What it was asked for last may have happened or not.
    for (const id of [...this.#waiting.keys()])
      this.#end(id, { kind: 'unclear', detail: 'the launcher is gone' });
  }
}
