// Owns the daemon of the demo: starts and kills it, asks it, and afterwards removes all that it made. The daemon has a
// session of its own, as under a service manager: Ctrl-C ends the demo, and the demo ends the daemon.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cgroupsOf, findLeaks, processesOf } from './leaks.mjs';
import { ROOT } from './prepare.mjs';

const CLI = join(ROOT, 'dist', 'src', 'cli', 'main.js');
const PATIENCE_MS = 30_000;

export class DemoAgent {
  dir = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
  #dataDir = join(this.dir, 'data');
  #socket = join(this.#dataDir, 'holdfast.sock');
  #marker = basename(this.dir);
  #child;
  #aborted = false;

  /** Starts the daemon and waits until it answers. @returns {Promise<number>} its pid */
  async start() {
    const log = openSync(join(this.dir, 'agent.log'), 'a');
    this.#child = spawn(process.execPath, [CLI, 'agent', '--data-dir', this.#dataDir], {
      env: this.#env(),
      detached: true,
      stdio: ['ignore', 'ignore', log],
    });
    await this.until('the daemon answers', async () => {
      if (!this.#alive())
        throw new Error(`the daemon ended:\n${readFileSync(join(this.dir, 'agent.log'), 'utf8')}`);
      return this.#get('/v1/agent/health').then(
        () => true,
        () => false,
      );
    });
    return this.#child.pid;
  }

  async kill() {
    await this.#end('SIGKILL');
  }

  /** Makes every wait fail from now on, but those of `close`. */
  abort() {
    this.#aborted = true;
  }

  /** Runs the command line as a user would, on this terminal. @param {string[]} args @returns its exit code */
  async cli(args) {
    const child = spawn(process.execPath, [CLI, ...args], {
      env: this.#env(),
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    await once(child, 'close');
    return child.exitCode;
  }

  /** Waits until each of the named tasks runs. @param {string[]} names */
  async untilRunning(names) {
    return this.until(`${names.join(', ')} run`, async () => {
      const allocs = await this.#get('/v1/allocations');
      const tasks = allocs.flatMap(({ ID, TaskStates }) =>
        Object.entries(TaskStates).map(([name, { State, Restarts, Holdfast }]) => [
          name,
          { allocId: ID, state: State, restarts: Restarts, pid: Holdfast.Pid, runId: Holdfast.RunID },
        ]),
      );
      const found = Object.fromEntries(tasks);
      const all = names.every((name) => found[name]?.state === 'running' && found[name].pid !== null);
      return all ? found : undefined;
    });
  }

  /** How often each task was started, by the durable history. */
  async countStarted() {
    const counts = {};
    for (const { Type, Task } of await this.#get('/v1/holdfast/events?job=demo')) {
      if (Type === 'Started') counts[Task] = (counts[Task] ?? 0) + 1;
    }
    return counts;
  }

  /** The attempts to run a task, oldest first. */
  async runs(allocId, task) {
    return this.#get(`/v1/holdfast/allocation/${allocId}/runs?task=${task}`);
  }

  /** Where the web service listens: it says so in its log. */
  async serverUrl() {
    const { server } = await this.untilRunning(['server']);
    return this.until('the web service says where it listens', () => {
      const [line] = readLines(this.allocDir(server.allocId), 'server');
      return /http:\S+/.exec(line ?? '')?.[0];
    });
  }

  /** The directory that the tasks of an alloc share. */
  allocDir(allocId) {
    return join(this.#dataDir, 'alloc', allocId, 'alloc');
  }

  runDir(runId) {
    return join(this.#dataDir, 'run', runId.slice(0, 2), runId);
  }

  /** Waits for a fact. @throws Error when it does not come in time */
  async until(what, look, { evenIfAborted = false } = {}) {
    const deadlineMs = performance.now() + PATIENCE_MS;
    for (;;) {
      if (this.#aborted && !evenIfAborted) throw new Error('interrupted');
      const found = await look();
      if (found !== undefined && found !== false) return found;
      if (performance.now() > deadlineMs) throw new Error(`waited in vain: ${what}`);
      await sleep(50);
    }
  }

  /** Ends the tasks and the daemon and removes everything. @returns {Promise<string[]>} what could not be removed */
  async close() {
    this.#aborted = false;
    try {
      await this.#purge();
    } catch {
      // The daemon cannot do it: what is left is found by its marks, and ended.
    }
    await this.#end('SIGTERM');
    for (const { pid } of processesOf(this.#marker)) process.kill(pid, 'SIGKILL');
    rmSync(this.#dataDir, { recursive: true, force: true });
    rmSync(join(this.dir, 'agent.log'), { force: true });
    for (const cgroup of cgroupsOf(this.#marker)) removeCgroup(cgroup);
    const leaks = await findLeaks(this.#marker, this.dir);
    rmSync(this.dir, { recursive: true, force: true });
    return leaks;
  }

  async #purge() {
    if (!existsSync(this.#dataDir)) return;
    if (!this.#alive()) await this.start();
    await this.#ask('DELETE', '/v1/job/demo?purge=true');
    const gone = async () => (await this.#get('/v1/jobs')).length === 0;
    await this.until('the job is gone', gone, { evenIfAborted: true });
  }

  #env() {
    return {
      ...process.env,
      HOLDFAST_ADDR: `unix://${this.#socket}`,
      HOLDFAST_CGROUP_ROOT: `${this.#marker}.slice`,
      HOLDFAST_DEMO: this.#marker,
    };
  }

  #alive() {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async #end(signal) {
    if (!this.#alive()) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }

  async #get(path) {
    return JSON.parse(await this.#ask('GET', path));
  }

  #ask(method, path) {
    return new Promise((resolve, reject) => {
      const call = request({ socketPath: this.#socket, method, path }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk) => (text += chunk));
        answer.on('end', () =>
          answer.statusCode === 200
            ? resolve(text)
            : reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`)),
        );
      });
      call.on('error', reject);
      call.end();
    });
  }
}

/** Whole lines of a task's stdout, across its files. @param {string} allocDir @param {string} task */
export function readLines(allocDir, task) {
  const logs = join(allocDir, 'logs');
  const prefix = `${task}.stdout.`;
  const number = (name) => Number(name.slice(prefix.length));
  const names = existsSync(logs) ? readdirSync(logs).filter((name) => name.startsWith(prefix)) : [];
  const text = names
    .sort((a, b) => number(a) - number(b))
    .map((name) => readFileSync(join(logs, name), 'utf8'))
    .join('');
  return text.split('\n').slice(0, -1);
}

/** What tells a process from a later one with its pid: when it started, in ticks since boot. @param {number} pid */
export function identityOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return 'gone';
  }
}

/** @param {string} path a cgroup without processes, with groups below it */
function removeCgroup(path) {
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) removeCgroup(join(path, entry.name));
  }
  try {
    rmdirSync(path);
  } catch {
    // Still in use: the search for leaks names it.
  }
}
