/**
 * Runs the real executor binary in a temporary directory of its own, talks to it, and ends whatever it left. Set
 * HOLDFAST_EXECUTOR to test another build (`npm run build:native -- --sanitize`).
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { isAlive, readBootId, readProcessStat, type ProcessRef } from '../../src/base/host.js';
import { encodeFrame, encodeSpec, FRAME, FRAME_TAG, FrameDecoder } from '../../src/executor/protocol.js';
import type { ExecutorSpec, Frame } from '../../src/executor/protocol.js';
import { intField, readInt, readString, stringField, type Field } from '../../src/executor/tlv.js';
import { until } from '../helpers/until.js';

export const EXECUTOR =
  process.env['HOLDFAST_EXECUTOR'] ??
  fileURLToPath(new URL('../../../native/build/Release/holdfast-executor', import.meta.url));

/** Built by `npm run build:native -- --sanitize`: it reserves address space without end. */
export const IS_SANITIZED = readFileSync(EXECUTOR, 'latin1').includes('__asan_init');

export const IS_ROOT = process.getuid?.() === 0;

/** Exit statuses of the foreground process. */
export const TOLD = { ok: 0, claimed: 10, startFailed: 11, noSetup: 12, notThere: 13 } as const;

export interface Told {
  readonly status: number | null;
  readonly stderr: string;
}

/** Runs the binary to the end of its foreground process. */
export function executor(...args: readonly string[]): Promise<Told> {
  return new Promise((resolve, reject) => {
    const child = spawn(EXECUTOR, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString('utf8')));
    child.on('error', reject);
    child.on('close', (status) => {
      resolve({ status, stderr });
    });
  });
}

export type Values = Readonly<Record<string, string>>;

export function parseLines(text: string): Values {
  return Object.fromEntries(
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

type SpecChange = Partial<Omit<ExecutorSpec, 'log'>> & {
  /** Shell text to run; else path and argv. */
  readonly sh?: string;
  readonly log?: Partial<NonNullable<ExecutorSpec['log']>> | 'none';
};

/** One run directory with its spec, log directory, and all that comes of it. */
export class Run implements AsyncDisposable {
  readonly root: string;
  readonly dir: string;
  readonly logDir: string;
  readonly runId = `run-${randomBytes(6).toString('hex')}`;
  readonly #clients: Client[] = [];

  /** @param logBase where the logs are; else beside the run directory */
  constructor(change: SpecChange = {}, base = tmpdir(), logBase?: string) {
    this.root = mkdtempSync(join(base, 'holdfast-native-'));
    this.dir = join(this.root, 'run');
    this.logDir = logBase === undefined ? join(this.root, 'logs') : join(logBase, 'logs');
    mkdirSync(this.dir, { mode: 0o700 });
    mkdirSync(this.logDir, { mode: 0o755 });
    this.writeSpec(change);
  }

  writeSpec(change: SpecChange): void {
    const { sh, log, ...rest } = change;
    const argv = sh === undefined ? ['/bin/true'] : ['/bin/sh', '-c', sh];
    const spec: ExecutorSpec = {
      runId: this.runId,
      bootId: readBootId(),
      title: 'web/front/main',
      path: change.argv?.[0] ?? argv[0] ?? '',
      argv,
      env: { HOLDFAST_RUN_ID: this.runId, PATH: '/usr/bin:/bin' },
      cwd: '/',
      user: undefined,
      log:
        log === 'none'
          ? undefined
          : { dir: this.logDir, name: 'main', maxFiles: 10, maxBytes: 10_000_000, ...log },
      cgroup: undefined,
      joinProcs: [],
      selfProcs: [],
      gate: false,
      leftovers: 'kill',
      oomScoreAdj: 0,
      memoryEvents: undefined,
      memoryPeak: undefined,
      ...rest,
    };
    writeFileSync(join(this.dir, 'spec'), encodeSpec(spec));
  }

  start(): Promise<Told> {
    return executor('run', this.dir);
  }

  async started(): Promise<this> {
    assert.deepEqual(await this.start(), { status: TOLD.ok, stderr: '' });
    return this;
  }

  adopt(): Promise<Told> {
    return executor('adopt', this.dir);
  }

  status(): Values {
    return parseLines(readFileSync(join(this.dir, 'status'), 'utf8'));
  }

  /** Waits for the exit record and checks its sum. */
  async exit(timeoutMs = 20_000): Promise<Values> {
    const path = join(this.dir, 'exit');
    await until('an exit record', () => existsSync(path), { timeoutMs, lastSeen: () => this.look() });
    const text = readFileSync(path, 'utf8');
    const at = text.lastIndexOf('crc32=');
    assert.equal(text.slice(at), `crc32=${crc32(text.slice(0, at)).toString(16).padStart(8, '0')}\n`);
    return parseLines(text);
  }

  /** `exited 3`, `signaled 9`, `start_failed exec 2`, `unknown supervision_lost`. */
  async outcome(): Promise<string> {
    const exit = await this.exit();
    const { result, code, signal, stage, errno, reason } = exit;
    return [result, code, signal, stage, errno, reason].filter((part) => part !== undefined).join(' ');
  }

  look(): unknown {
    const has = existsSync(join(this.dir, 'status'));
    return { files: readdirSync(this.dir), status: has ? this.status() : undefined };
  }

  get executor(): ProcessRef {
    const { executor_pid, executor_start } = this.status();
    return { pid: Number(executor_pid), startTicks: Number(executor_start) };
  }

  get workload(): ProcessRef {
    const { pid, pid_start } = this.status();
    return { pid: Number(pid), startTicks: Number(pid_start) };
  }

  /** Ends the executor as only SIGKILL can, and waits until it is gone. */
  async killExecutor(): Promise<void> {
    const ref = this.executor;
    if (isAlive(ref)) process.kill(ref.pid, 'SIGKILL');
    await until('the executor is gone', () => !isAlive(ref), { everyMs: 2 });
  }

  async client(): Promise<Client> {
    const client = await Client.connect(join(this.dir, 'sock'));
    this.#clients.push(client);
    return client;
  }

  async stop(signal: number, graceMs: number): Promise<void> {
    const client = await this.client();
    await client.ask(FRAME.stop, [intField(FRAME_TAG.signal, signal), intField(FRAME_TAG.graceMs, graceMs)]);
  }

  /** Numbers N of the log files of a stream, rising. */
  logIndexes(stream: 'stdout' | 'stderr' = 'stdout'): number[] {
    return readdirSync(this.logDir)
      .filter((name) => name.startsWith(`main.${stream}.`))
      .map((name) => Number(name.slice(`main.${stream}.`.length)))
      .sort((a, b) => a - b);
  }

  logFiles(stream: 'stdout' | 'stderr' = 'stdout'): string[] {
    return this.logIndexes(stream).map((n) =>
      readFileSync(join(this.logDir, `main.${stream}.${n}`), 'latin1'),
    );
  }

  log(stream: 'stdout' | 'stderr' = 'stdout'): string {
    return this.logFiles(stream).join('');
  }

  /** Waits until the task has written `text` to its log. */
  async logged(text: string): Promise<void> {
    await until(`${text} in the log`, () => this.log().includes(text), { lastSeen: () => this.look() });
  }

  /** Ends everything of this run and removes its directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.close();
    await endProcesses(this.runId, this.dir);
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** Living processes whose environment names the run. */
export function processesOf(runId: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const state = readProcessStat(pid)?.state;
      return state !== undefined && state !== 'Z' && environment(pid).includes(`HOLDFAST_RUN_ID=${runId}`);
    });
}

/** SIGKILLs the executor of `dir`, the process it has on record, and all others of the run. */
async function endProcesses(runId: string, dir: string): Promise<void> {
  await until('nothing of the run is left', () => {
    const path = join(dir, 'status');
    const status = parseLines(existsSync(path) ? readFileSync(path, 'utf8') : '');
    const pids = processesOf(runId);
    for (const [pid, start] of [
      [status['executor_pid'], status['executor_start']],
      [status['pid'], status['pid_start']],
    ]) {
      if (pid !== undefined && isAlive({ pid: Number(pid), startTicks: Number(start) }))
        pids.push(Number(pid));
    }
    for (const pid of pids) tryKill(pid);
    return pids.length === 0;
  });
}

function environment(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It was faster.
  }
}

/** A connection to an executor. */
export class Client {
  readonly socket: Socket;
  readonly #decoder = new FrameDecoder();
  readonly #replies: Frame[] = [];
  #closed = false;
  #request = 0;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => this.#replies.push(...this.#decoder.push(chunk)));
    socket.on('close', () => (this.#closed = true));
    socket.on('error', () => (this.#closed = true));
  }

  static connect(path: string): Promise<Client> {
    return new Promise((resolve, reject) => {
      const socket = connect(path);
      socket.once('connect', () => {
        resolve(new Client(socket));
      });
      socket.once('error', reject);
    });
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Sends a request; gives its number. */
  send(type: number, fields: readonly Field[] = []): number {
    const request = ++this.#request;
    this.socket.write(encodeFrame({ type, request, fields }));
    return request;
  }

  /** Waits for the answer to a request; undefined when the connection ended without one. */
  reply(request: number): Promise<Frame | undefined> {
    return until(
      `a reply to request ${request}`,
      () => {
        const found = this.#replies.find((frame) => frame.request === request);
        return found !== undefined ? { found } : this.#closed && { found };
      },
      { everyMs: 2 },
    ).then(({ found }) => found);
  }

  async ask(type: number, fields: readonly Field[] = []): Promise<Frame> {
    const reply = await this.reply(this.send(type, fields));
    assert.ok(reply !== undefined, 'the executor closed the connection');
    return reply;
  }

  hello(runId: string): Promise<Frame | undefined> {
    return this.reply(this.send(FRAME.hello, [stringField(FRAME_TAG.runId, runId)]));
  }

  /** 0, or the errno of an ERROR reply. */
  async signal(signal: number, target = 0): Promise<number> {
    const fields = [intField(FRAME_TAG.signal, signal), intField(FRAME_TAG.target, target)];
    return errnoOfReply(await this.ask(FRAME.signal, fields));
  }

  async statusText(): Promise<Values> {
    return parseLines(readString((await this.ask(FRAME.status)).fields, FRAME_TAG.statusText));
  }

  close(): void {
    this.socket.destroy();
  }
}

export function errnoOfReply(reply: Frame): number {
  return reply.type === 0xffff ? readInt(reply.fields, FRAME_TAG.errno) : 0;
}
