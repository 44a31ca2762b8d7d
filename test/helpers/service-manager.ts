/** The receiving end of sd_notify: a real datagram socket, held by a small python program (Node has none). */
import assert from 'node:assert/strict';
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { until } from './until.js';

const PROGRAM = `
import json, os, socket, sys, time
name = sys.argv[1]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(chr(0) + name[1:] if name[0] == "@" else name)
print("{}", flush=True)
while True:
    text = s.recv(65536).decode()
    print(json.dumps({"text": text, "atMs": time.monotonic() * 1000}), flush=True)
`;

/** One datagram. */
export interface Heard {
  readonly fields: Readonly<Record<string, string>>;
  /** CLOCK_MONOTONIC when it was taken. */
  readonly atMs: number;
}

export class ServiceManager implements AsyncDisposable {
  readonly heard: Heard[] = [];
  /** What NOTIFY_SOCKET is to be. */
  readonly socket: string;
  readonly #child: ChildProcessByStdio<null, Readable, null>;
  #isBound = false;

  /** @param socket a path, or `@name` */
  static async listen(socket: string): Promise<ServiceManager> {
    const manager = new ServiceManager(socket);
    await until('the manager listens', () => manager.#isBound);
    return manager;
  }

  private constructor(socket: string) {
    this.socket = socket;
    this.#child = spawn('python3', ['-c', PROGRAM, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    let rest = '';
    this.#child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#take(JSON.parse(line) as { text?: string; atMs?: number });
    });
  }

  #take(said: { readonly text?: string; readonly atMs?: number }): void {
    this.#isBound = true;
    if (said.text === undefined) return;
    const fields = said.text.split('\n').map((line): [string, string] => {
      const at = line.indexOf('=');
      assert.ok(at > 0, `not an assignment: ${JSON.stringify(line)}`);
      return [line.slice(0, at), line.slice(at + 1)];
    });
    this.heard.push({ fields: Object.fromEntries(fields), atMs: said.atMs ?? 0 });
  }

  /** Waits for a datagram at or after `from` of which `fact` holds, and gives its place. */
  async until(
    what: string,
    fact: (fields: Readonly<Record<string, string>>) => boolean,
    from = 0,
  ): Promise<number> {
    const find = (): number => this.heard.findIndex(({ fields }, at) => at >= from && fact(fields));
    await until(what, () => find() >= 0, { timeoutMs: 60_000, lastSeen: () => this.heard });
    return find();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await ended;
  }
}
