/** Owns what a task is specified as now, and what a run of it gets of that: environment, config, limits, directories. */
import type { Driver, TaskConfig, TaskPaths } from '../drivers/driver.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { TaskRunnerDeps, TaskRunnerSubject } from './deps.js';
import type { TaskHooks } from './hooks/run-hooks.js';
import { buildTaskEnv, interpolateDeep, type TaskEnv } from './task-env.js';

interface SpecDeps extends Pick<TaskRunnerDeps, 'agentEnv' | 'nodeFacts' | 'ports'> {
  readonly driver: Pick<Driver, 'taskPaths'>;
}

export class TaskSpec {
  readonly #deps: SpecDeps;
  readonly #hooks: Pick<TaskHooks, 'env' | 'mounts'>;
  #subject: TaskRunnerSubject;
  /** The environment that was built last, and all it was made of that can change. */
  #built: { readonly env: TaskEnv; readonly of: readonly object[] } | undefined;
  /** The config that was resolved last, and the environment it was resolved by. */
  #resolved: { readonly config: Readonly<Record<string, unknown>>; readonly by: TaskEnv } | undefined;

  constructor(deps: SpecDeps, hooks: Pick<TaskHooks, 'env' | 'mounts'>, subject: TaskRunnerSubject) {
    this.#deps = deps;
    this.#hooks = hooks;
    this.#subject = subject;
  }

  /** As of the newest job version. */
  get subject(): TaskRunnerSubject {
    return this.#subject;
  }

  get task(): Task {
    return this.#subject.task;
  }

  /** A newer job version that needs no new run. */
  update(job: Job, group: TaskGroup, task: Task): void {
    this.#subject = { ...this.#subject, job, group, task };
  }

  /**
   * The environment as it stands, with what hooks gave: the same object until something of it changes.
   * @param paths as the task sees them, unless others are given
   */
  env(paths: TaskPaths = this.#ownPaths): TaskEnv {
    const hookEnv = this.#hooks.env();
    const ports = this.#deps.ports();
    const of = [paths, this.#subject, ports, ...hookEnv];
    if (this.#built?.of.length === of.length && this.#built.of.every((one, at) => one === of[at])) {
      return this.#built.env;
    }
    const { job, group, task, allocId, allocIndex } = this.#subject;
    const env = buildTaskEnv({
      job,
      group,
      task,
      allocId,
      allocIndex,
      paths,
      agentEnv: this.#deps.agentEnv,
      node: this.#deps.nodeFacts,
      hookEnv,
      cgroup: undefined,
      ports,
    });
    if (paths === this.#ownPaths) this.#built = { env, of };
    return env;
  }

  /** The driver's config with `${…}` resolved: as `env`, the same object as long as it is the same. */
  config(): Readonly<Record<string, unknown>> {
    const env = this.env();
    if (this.#resolved?.by === env) return this.#resolved.config;
    const config = Object.fromEntries(
      Object.entries(this.#subject.task.config).map(([key, value]) => [
        key,
        interpolateDeep(value, env.interpolate),
      ]),
    );
    this.#resolved = { config, by: env };
    return config;
  }

  get #ownPaths(): TaskPaths {
    return this.#deps.driver.taskPaths ?? this.#subject.dirs;
  }

  /** What the driver is told of a run that begins now. */
  forRun(runId: string): TaskConfig {
    const { job, group, task, allocId, dirs } = this.#subject;
    const env = this.env();
    return {
      runId,
      allocId,
      jobId: job.id,
      group: group.name,
      task: task.name,
      config: this.config(),
      env: env.env,
      user: task.user === undefined ? undefined : env.interpolate(task.user),
      resources: task.resources,
      logs: task.logs,
      leftovers: task.leftovers,
      leftoversTimeoutMs: task.leftoversTimeoutMs,
      dirs,
      mounts: this.#hooks.mounts(),
    };
  }
}
