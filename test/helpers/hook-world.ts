/** Calls one hook on a directory of its own, as a task runner does, and notes what it says. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, type Clock } from '../../src/base/clock.js';
import { silentLogger } from '../../src/base/log.js';
import type { TaskDirs } from '../../src/drivers/driver.js';
import type { ExecResult } from '../../src/drivers/sessions.js';
import type { TaskEvent } from '../../src/events/task-event.js';
import type { Task } from '../../src/jobspec/types.js';
import type { WatchContext } from '../../src/taskrunner/hooks/hook.js';
import { buildTaskEnv } from '../../src/taskrunner/task-env.js';
import { aGroup, aJob, aTask } from './specs.js';

export class HookWorld implements Disposable {
  readonly dir = mkdtempSync(join(tmpdir(), 'hf-hook-'));
  readonly dirs: TaskDirs;
  readonly events: TaskEvent[] = [];
  readonly waits: string[] = [];
  readonly asked: string[] = [];
  /** What commands in the task come to, in turn; then they succeed. */
  readonly execs: (ExecResult | Error | Promise<ExecResult>)[] = [];
  signalError: Error | undefined;
  /** The environment of the agent. */
  agentEnv: Readonly<Record<string, string>> = {};
  data: Readonly<Record<string, string>> = {};

  constructor() {
    const alloc = join(this.dir, 'alloc-id');
    this.dirs = {
      allocDir: join(alloc, 'alloc'),
      taskDir: join(alloc, 'main'),
      localDir: join(alloc, 'main', 'local'),
      secretsDir: join(alloc, 'main', 'secrets'),
      logDir: join(alloc, 'alloc', 'logs'),
    };
    for (const dir of Object.values<string>({ ...this.dirs })) mkdirSync(dir, { recursive: true });
  }

  context(over: Partial<Task>, more: Partial<WatchContext> & { readonly clock?: Clock } = {}): WatchContext {
    const task = aTask(over);
    const env = () =>
      buildTaskEnv({
        job: aJob(),
        group: aGroup(),
        task,
        allocId: 'alloc-id',
        allocIndex: 0,
        paths: this.dirs,
        agentEnv: this.agentEnv,
        node: { 'attr.cpu.arch': 'amd64' },
        hookEnv: [],
        cgroup: undefined,
      });
    return {
      allocId: 'alloc-id',
      allocIndex: 0,
      job: aJob(),
      group: aGroup(),
      task,
      dirs: this.dirs,
      payload: undefined,
      clock: systemClock,
      logger: silentLogger,
      attempt: 0,
      env,
      hostEnv: env,
      config: () => task.config,
      data: this.data,
      emit: (event) => this.events.push(event),
      waitFor: (what) => this.waits.push(what),
      save: (data) => {
        this.data = data;
        return Promise.resolve();
      },
      signal: new AbortController().signal,
      restart: (reason) => {
        this.asked.push(`restart: ${reason}`);
        return Promise.resolve();
      },
      sendSignal: (signal, reason) => {
        if (this.signalError !== undefined) return Promise.reject(this.signalError);
        this.asked.push(`${signal}: ${reason}`);
        return Promise.resolve();
      },
      exec: (command, args) => {
        this.asked.push(`exec: ${[command, ...args].join(' ')}`);
        const end = this.execs.shift() ?? { exitCode: 0, output: '' };
        return end instanceof Error ? Promise.reject(end) : Promise.resolve(end);
      },
      kill: (reason, because) => {
        this.events.push(because);
        this.asked.push(`kill: ${reason}`);
      },
      ...more,
    };
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}
