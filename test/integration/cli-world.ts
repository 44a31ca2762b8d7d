/** A real agent in a directory of its own, and the real CLI as a process beside it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { errnoOf } from '../../src/base/errors.js';
import { parseCgroupMounts } from '../../src/executor/cgroup-roots.js';
import { until } from '../helpers/until.js';

export const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that is still running. */
export interface Live {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Ends it and waits for its end. */
  end(): Promise<void>;
}

const DEADLINE_MS = 60_000;
let worlds = 0;

/** Close it, also after a failure: it stops every job, ends the agent and removes what they left. */
export class CliWorld {
  readonly dir = mkdtempSync(join(tmpdir(), 'hf-cli-'));
  readonly socket = join(this.dir, 's');
  readonly #cgroupRoot = `holdfast-test-cli-${process.pid}-${(worlds += 1)}.slice`;
  readonly #live = new Set<Live>();
  #agent: ChildProcess | undefined;
  #agentLog = '';

  get env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      HOME: this.dir,
      TZ: 'UTC',
      HOLDFAST_ADDR: `unix://${this.socket}`,
    };
  }

  /** Starts the agent, and waits until it answers. */
  async startAgent(): Promise<void> {
    const args = [CLI, 'agent', '--data-dir', join(this.dir, 'data'), '--socket', this.socket];
    const env = { ...this.env, HOLDFAST_CGROUP_ROOT: this.#cgroupRoot };
    const agent = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    agent.stderr.on('data', (data: Buffer) => {
      this.#agentLog += data.toString();
    });
    this.#agent = agent;
    await until('the agent answers', () => this.#answers(), {
      timeoutMs: DEADLINE_MS,
      lastSeen: () => this.#agentLog,
    });
  }

  /** Ends the agent; its tasks go on. */
  async killAgent(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const agent = this.#agent;
    if (agent === undefined) return;
    this.#agent = undefined;
    if (agent.exitCode !== null || agent.signalCode !== null) return;
    const ended = once(agent, 'exit');
    agent.kill(signal);
    await ended;
  }

  async #answers(): Promise<boolean> {
    return await new Promise((resolve) => {
      const probe = connect(this.socket);
      probe.once('connect', () => {
        probe.destroy();
        resolve(true);
      });
      probe.once('error', () => {
        resolve(false);
      });
    });
  }

  /** Writes a file into the world's directory. @returns its path */
  file(name: string, text: string): string {
    const path = join(this.dir, name);
    writeFileSync(path, text);
    return path;
  }

  read(name: string): string {
    return readFileSync(join(this.dir, name), 'utf8');
  }

  /** Runs one command to its end. */
  async cli(...args: string[]): Promise<Ran> {
    return await this.cliWith({}, ...args);
  }

  /** The same, with other variables in its environment. */
  async cliWith(env: Readonly<Record<string, string>>, ...args: string[]): Promise<Ran> {
    const live = this.#spawn(env, args);
    const timer = setTimeout(() => {
      live.child.kill('SIGKILL');
    }, DEADLINE_MS);
    const code = await closed(live.child);
    clearTimeout(timer);
    this.#live.delete(live);
    return { code, stdout: live.stdout(), stderr: live.stderr() };
  }

  /** Starts a command that goes on by itself. */
  follow(...args: string[]): Live {
    return this.#spawn({}, args);
  }

  #spawn(env: Readonly<Record<string, string>>, args: readonly string[]): Live {
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd: this.dir,
      env: { ...this.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8');
      child[name].on('data', (data: string) => {
        text[name] += data;
      });
    }
    const live: Live = {
      child,
      stdout: () => text.stdout,
      stderr: () => text.stderr,
      end: async () => {
        this.#live.delete(live);
        const over = closed(child);
        child.kill('SIGKILL');
        await over;
      },
    };
    this.#live.add(live);
    return live;
  }

  async close(): Promise<void> {
    for (const live of [...this.#live]) await live.end();
    try {
      if (this.#agent === undefined) await this.startAgent();
      const { stdout } = await this.cli('status', '--json');
      const { Jobs } = JSON.parse(stdout) as { Jobs: readonly { ID: string }[] };
      for (const { ID } of Jobs) await this.cli('purge', ID, '--no-shutdown-delay');
    } finally {
      await this.killAgent('SIGTERM');
      await removeCgroups(this.#cgroupRoot);
      rmSync(this.dir, { recursive: true, force: true });
    }
  }
}

/** Removes the cgroups of an agent that has left. Executors leave a moment after their task. */
export async function removeCgroups(root: string): Promise<void> {
  const { unified, v1 } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
  for (const mount of [unified, ...v1.values()]) {
    if (mount === undefined) continue;
    for (const dir of [join(mount, root, 'executors'), join(mount, root)]) {
      await until(`cgroup ${dir} can be removed`, () => isRemoved(dir));
    }
  }
}

function isRemoved(dir: string): boolean {
  try {
    rmdirSync(dir);
    return true;
  } catch (error) {
    return errnoOf(error) === 'ENOENT';
  }
}

async function closed(child: ChildProcess): Promise<number | null> {
  return await new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve(child.exitCode);
    else child.once('close', resolve);
  });
}
