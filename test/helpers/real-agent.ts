/**
 * A real agent in a directory of its own: the daemon as users start it, real executors, real processes. Close it: what
 * it started is ended, first by asking it, then by pid from the run directories.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAlive, type ProcessRef } from '../../src/base/host.js';
import { AgentApi } from './agent-api.js';
import { cgroupRoots, readStatus, removeTree } from './host-traces.js';
import { until } from './until.js';

const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
/** Long enough for a busy machine; every wait ends with its fact. */
const PATIENCE_MS = 60_000;

let agents = 0;

export interface Said {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What the daemon is started with besides its data directory. */
export interface AgentSetting {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A command that runs the daemon, at each start that names no other. */
  readonly prefix?: readonly string[];
  /** Whose the directory is; else the user's who runs the test. */
  readonly uid?: number;
}

export class RealAgent extends AgentApi implements AsyncDisposable {
  readonly dir: string;
  readonly dataDir: string;
  readonly socket: string;
  readonly cgroupRoot: string;
  readonly #setting: AgentSetting;
  #process: ChildProcess | undefined;

  /** Makes the directory and starts the daemon on it. The caller closes it. */
  static async start(setting: AgentSetting = {}): Promise<RealAgent> {
    const agent = new RealAgent(await mkdtemp(join(tmpdir(), 'hf-')), setting);
    try {
      if (setting.uid !== undefined) await chown(agent.dir, setting.uid, setting.uid);
      await agent.start();
    } catch (error) {
      await agent.close();
      throw error;
    }
    return agent;
  }

  private constructor(dir: string, setting: AgentSetting) {
    super({ timeoutMs: PATIENCE_MS, everyMs: 50 });
    this.dir = dir;
    this.#setting = setting;
    this.dataDir = join(dir, 'data');
    this.socket = join(this.dataDir, 'holdfast.sock');
    agents += 1;
    const mark = process.env['HOLDFAST_TEST_RUN'] ?? 'holdfast-test';
    this.cgroupRoot = `${mark}-${process.pid}-${agents}.slice`;
  }

  get pid(): number {
    const pid = this.#process?.pid;
    assert.ok(pid !== undefined, 'the daemon is not there');
    return pid;
  }

  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_ADDR: `unix://${this.socket}`,
      HOLDFAST_CGROUP_ROOT: this.cgroupRoot,
      NO_COLOR: '1',
    };
  }

  /** Starts the daemon and waits until it answers. @param more arguments for this start only */
  async start(more: readonly string[] = []): Promise<void> {
    this.launch(undefined, more);
    await this.ready();
  }

  /** Starts the daemon and waits for nothing. @param prefix a command that runs the daemon, as strace does */
  launch(prefix: readonly string[] = this.#setting.prefix ?? [], more: readonly string[] = []): void {
    const setting = this.#setting.args ?? [];
    const own = [process.execPath, CLI, 'agent', '--data-dir', this.dataDir, ...setting, ...more];
    const [command = process.execPath, ...args] = [...prefix, ...own];
    const child = spawn(command, args, {
      env: { ...this.env, ...this.#setting.env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    child.stderr.pipe(createWriteStream(join(this.dir, 'agent.log'), { flags: 'a' }));
  }

  /** Waits until the daemon answers. Fails when it ends instead. */
  async ready(): Promise<void> {
    await until(
      'the agent answers',
      async () => {
        assert.ok(this.isUp(), `the agent ended:\n${this.log()}`);
        return (await this.request('GET', '/v1/agent/health').catch(() => undefined))?.status === 200;
      },
      { timeoutMs: PATIENCE_MS, lastSeen: () => this.log() },
    );
  }

  /** True until the daemon has ended. */
  isUp(): boolean {
    const child = this.#process;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** SIGKILL to the daemon, in the middle of whatever it does. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Lets the daemon leave as a service manager does. */
  async leave(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  /** What the daemon has logged so far. */
  log(): string {
    const path = join(this.dir, 'agent.log');
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  override async request(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly text: string }> {
    return await new Promise((resolve, reject) => {
      const call = httpRequest(
        {
          socketPath: this.socket,
          method,
          path,
          headers: body === undefined ? {} : { 'content-type': 'application/json' },
        },
        (answer) => {
          let text = '';
          answer.setEncoding('utf8');
          answer.on('data', (chunk: string) => (text += chunk));
          answer.on('end', () => {
            resolve({ status: answer.statusCode ?? 0, text });
          });
          answer.on('error', reject);
        },
      );
      call.on('error', reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /** Runs the command line against this agent. */
  async cli(
    args: readonly string[],
    options: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
  ): Promise<Said> {
    const child = spawn(process.execPath, [CLI, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      ...options,
      env: { ...this.env, ...options.env },
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
    const deadline = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    await once(child, 'close');
    clearTimeout(deadline);
    assert.equal(child.signalCode, null, `holdfast ${args.join(' ')} did not end:\n${stdout}${stderr}`);
    return { code: child.exitCode, stdout, stderr };
  }

  /** All that a task wrote to one stream, across its files, oldest first. */
  output(allocId: string, task: string, stream: 'stdout' | 'stderr' = 'stdout'): string {
    const dir = join(this.dataDir, 'alloc', allocId, 'alloc', 'logs');
    const prefix = `${task}.${stream}.`;
    const number = (name: string): number => Number(name.slice(prefix.length));
    return readdirSync(dir)
      .filter((name) => name.startsWith(prefix))
      .sort((a, b) => number(a) - number(b))
      .map((name) => readFileSync(join(dir, name), 'utf8'))
      .join('');
  }

  /** The directory of a run: `status`, `exit`, …. */
  runDir(runId: string): string {
    return join(this.dataDir, 'run', runId.slice(0, 2), runId);
  }

  /** The executor and the workload of a run, as the run's own status names them. */
  processesOfRun(runId: string): { readonly executor: ProcessRef; readonly workload: ProcessRef } {
    const status = readStatus(this.runDir(runId));
    assert.ok(status.executor !== undefined && status.workload !== undefined, `no status of run ${runId}`);
    return { executor: status.executor, workload: status.workload };
  }

  /** Ends everything it started and removes what it made. */
  async close(): Promise<void> {
    if (existsSync(this.dataDir)) {
      await this.#stopJobs().catch(() => undefined);
      await this.#end('SIGTERM');
      this.#killRuns();
    }
    await this.#removeCgroups();
    await rm(this.dir, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The daemon's launcher, and executors, leave a moment after it. What stays is named by the leak check of the run. */
  async #removeCgroups(): Promise<void> {
    const areGone = (): boolean => {
      for (const root of cgroupRoots(this.cgroupRoot)) removeTree(root);
      return cgroupRoots(this.cgroupRoot).length === 0;
    };
    await until('its cgroups are removed', areGone, { timeoutMs: 5_000 }).catch(() => undefined);
  }

  async #stopJobs(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) await this.start();
    const jobs = (await this.get('/v1/jobs')) as readonly { readonly ID: string }[];
    for (const { ID } of jobs) await this.request('DELETE', `/v1/job/${encodeURIComponent(ID)}?purge=true`);
    await until(
      'no job is left',
      async () => ((await this.get('/v1/jobs')) as readonly unknown[]).length === 0,
    );
  }

  /** What is alive all the same, by pid and start time. */
  #killRuns(): void {
    const runs = join(this.dataDir, 'run');
    if (!existsSync(runs)) return;
    for (const shard of readdirSync(runs)) {
      for (const run of readdirSync(join(runs, shard))) {
        const { workload, executor } = readStatus(join(runs, shard, run));
        for (const ref of [workload, executor]) {
          if (ref !== undefined && isAlive(ref)) process.kill(ref.pid, 'SIGKILL');
        }
      }
    }
  }
}
