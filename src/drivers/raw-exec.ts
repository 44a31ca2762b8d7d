/** Owns the driver `raw_exec`: a program of the host, under an executor, with limits and without a file system of its own. */
import type { parseRawExecConfig } from '../jobspec/driver-config.js';
import { demandedCores } from '../executor/cgroup-limits.js';
import { findProgram } from './command.js';
import type { DriverFingerprint, TaskConfig } from './driver.js';
import { ExecutorDriver, type ExecutorDriverDeps, type ProgramPlan } from './executor-driver.js';

export type RawExecDeps = ExecutorDriverDeps;

export class RawExecDriver extends ExecutorDriver {
  override readonly name = 'raw_exec';
  readonly #cgroups: ExecutorDriverDeps['cgroups'];
  #parse: typeof parseRawExecConfig | undefined;

  constructor(deps: ExecutorDriverDeps) {
    super(deps);
    this.#cgroups = deps.cgroups;
  }

  override fingerprint(): Promise<DriverFingerprint> {
    const { mode, controllers, missing } = this.#cgroups;
    const description =
      mode === 'none'
        ? `runs programs without limits: ${missing.join('; ')}`
        : `runs programs, limits by cgroups (${mode}: ${[...controllers].sort().join(', ')})`;
    return Promise.resolve({
      health: 'healthy',
      description,
      attributes: { 'driver.raw_exec': '1', 'driver.raw_exec.cgroups': mode },
    });
  }

  protected override async plan(task: TaskConfig): Promise<ProgramPlan> {
    // Late: what finds the tasks again after a start does not need it.
    this.#parse ??= (await import('../jobspec/driver-config.js')).parseRawExecConfig;
    const config = this.#parse(task.config, `task ${task.task}`);
    return {
      config,
      path: findProgram(config.command, task.env, task.dirs),
      cwd: config.workDir ?? task.dirs.taskDir,
      user: task.user,
      isolation: undefined,
      // It promises no isolation: a limit that cannot be had is told, and the task runs (docs/adr/0015).
      demanded: demandedCores(task.resources),
    };
  }
}
