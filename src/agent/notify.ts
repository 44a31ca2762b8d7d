/**
 * Owns the way to the service manager (sd_notify): a helper process that sends datagrams, which Node itself cannot.
 * Nothing said here is ever waited for, and a manager that does not listen changes nothing for the agent.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { sleep, type Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';

/** What waits for a helper that is held up by the manager; more is dropped. Messages are repeated or outdated soon. */
const MOST_WAITING_BYTES = 16 * 1024;
/** How long the last message may take when the agent ends. */
const LAST_WORD_MS = 1_000;

type Helper = ChildProcessByStdio<Writable, null, Readable>;

export interface NotifierDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** NOTIFY_SOCKET as the manager gave it; undefined = there is no manager and nothing is sent. */
  readonly socket: string | undefined;
  /** Gives the program that has the `notify` command. @throws AgentError executor_missing */
  readonly findHelper: () => string;
}

/** Sends messages of `NAME=value` lines. A helper that died is started again with the next message. */
export class Notifier {
  readonly #deps: NotifierDeps;
  #helper: Helper | undefined;
  #closed = false;

  constructor(deps: NotifierDeps) {
    this.#deps = deps;
  }

  /** True when there is somebody to speak to. */
  get isHeard(): boolean {
    return this.#deps.socket !== undefined;
  }

  /** One datagram. Never throws. Values must hold no line break. */
  send(fields: Readonly<Record<string, string | number>>): void {
    if (this.#closed || this.#deps.socket === undefined) return;
    const lines = Object.entries(fields).map(([name, value]) => `${name}=${value}`);
    try {
      const { stdin } = (this.#helper ??= this.#start(this.#deps.socket));
      if (stdin.writableLength < MOST_WAITING_BYTES) stdin.write(`${lines.join('\n')}\0`);
    } catch (error) {
      this.#deps.logger.warn({ error: describeError(error) }, 'cannot tell the service manager, ignoring');
    }
  }

  /** Lets the helper send what it has, and ends it. Twice is allowed. */
  async close(): Promise<void> {
    this.#closed = true;
    const helper = this.#helper;
    if (helper === undefined) return;
    const gone = new AbortController();
    helper.once('close', () => {
      gone.abort();
    });
    helper.stdin.end();
    await sleep(this.#deps.clock, LAST_WORD_MS, gone.signal);
  }

  #start(socket: string): Helper {
    const { logger } = this.#deps;
    const helper = spawn(this.#deps.findHelper(), ['notify'], {
      cwd: '/',
      env: { NOTIFY_SOCKET: socket },
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    helper.stderr.on('data', (said: Buffer) => {
      logger.warn({ said: said.toString().trim() }, 'the service manager did not take a message, ignoring');
    });
    const forget = (why: object): void => {
      if (this.#helper !== helper) return;
      this.#helper = undefined;
      if (!this.#closed) logger.warn(why, 'the helper that speaks to the service manager is gone');
    };
    helper.on('error', (error) => {
      forget({ error: describeError(error) });
    });
    helper.on('exit', (code, signal) => {
      forget({ code, signal });
    });
    // A write to a helper that has just ended; `exit` tells.
    helper.stdin.on('error', () => undefined);
    return helper;
  }
}
