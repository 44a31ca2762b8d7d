/** Owns what a task is specified as now, and what a run of it gets of that: environment, config, limits, directories. */
import type { TaskConfig, TaskPaths } from '../drivers/driver.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';
import type { TaskRunnerDeps, TaskRunnerSubject } from './deps.js';
import type { TaskHooks } from './hooks/run-hooks.js';
import { buildTaskEnv, interpolateDeep, type TaskEnv } from './task-env.js';

export class TaskSpec {
  readonly #deps: Pick<TaskRunnerDeps, 'driver' | 'agentEnv' | 'nodeFacts' | 'ports'>;
  readonly #hooks: Pick<TaskHooks, 'env' | 'mounts'>;
  #subject: TaskRunnerSubject;

  constructor(
    deps: Pick<TaskRunnerDeps, 'driver' | 'agentEnv' | 'nodeFacts' | 'ports'>,
    hooks: Pick<TaskHooks, 'env' | 'mounts'>,
    subject: TaskRunnerSubject,
  ) {
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

  /** The environment as it stands, with what hooks gave. @param paths as the task sees them, unless others are given */
  env(paths: TaskPaths = this.#deps.driver.taskPaths ?? this.#subject.dirs): TaskEnv {
    const { job, group, task, allocId, allocIndex } = this.#subject;
    return buildTaskEnv({
      job,
      group,
      task,
      allocId,
      allocIndex,
      paths,
      agentEnv: this.#deps.agentEnv,
      node: this.#deps.nodeFacts,
      hookEnv: this.#hooks.env(),
      cgroup: undefined,
      ports: this.#deps.ports(),
    });
  }

  /** The driver's config with `${…}` resolved. */
  config({ interpolate } = this.env()): Readonly<Record<string, unknown>> {
    const { config } = this.#subject.task;
    return Object.fromEntries(
      Object.entries(config).map(([key, value]) => [key, interpolateDeep(value, interpolate)]),
    );
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
      config: this.config(env),
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
