/** A place for drivers under test: its own directories and cgroups, real executors, and a check that nothing is left. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.js';
import { isAlive, readBootId } from '../../src/base/host.js';
import { newRunId, newUuid } from '../../src/base/ids.js';
import { silentLogger } from '../../src/base/log.js';
import type { DriverHandle, EmitTaskEvent, TaskConfig } from '../../src/drivers/driver.js';
import { DEFAULT_CHROOT_ENV } from '../../src/agent/exec-settings.js';
import { DEFAULT_CAPABILITIES } from '../../src/jobspec/capability-names.js';
import { probeIsolation } from '../../src/executor/host-isolation.js';
import { ExecDriver, type ExecDeps } from '../../src/drivers/exec.js';
import { RawExecDriver, type RawExecDeps } from '../../src/drivers/raw-exec.js';
import type { TaskEvent } from '../../src/events/task-event.js';
import { findExecutor } from '../../src/executor/binary.js';
import { removeTree } from '../../src/executor/cgroup-leaf.js';
import { parseCgroupMounts, type CgroupMounts } from '../../src/executor/cgroup-roots.js';
import { Cgroups } from '../../src/executor/cgroups.js';
import { listProcesses } from '../../src/executor/processes.js';
import type { RunRecord } from '../../src/state/store.js';
import { ProcessTable } from '../../src/stats/process-table.js';
import { mkdirSync, readFileSync } from 'node:fs';
import { until } from './until.js';

interface WorldOptions {
  readonly cgroups?: boolean;
  /** As if only these hierarchies were mounted. */
  readonly mounts?: CgroupMounts;
  readonly subDir?: string;
  /** What tasks ask for; 64 without it. */
  readonly memoryMib?: number;
}

let worlds = 0;

/** Close it: it fails when a process or a cgroup of a test is left. */
export class DriverWorld {
  readonly dir: string;
  readonly events: TaskEvent[] = [];
  readonly emit: EmitTaskEvent = (event) => {
    this.events.push(event);
  };
  readonly bootId = readBootId();
  readonly deps: RawExecDeps;
  readonly cgroupRoot: string;
  readonly #memoryMib: number;
  readonly #handles: DriverHandle[] = [];
  readonly #runIds = new Set<string>();

  static async open(options: WorldOptions = {}): Promise<DriverWorld> {
    const dir = await mkdtemp(join(tmpdir(), 'holdfast-driver-'));
    // An ordinary user named by a task must be able to enter it.
    return new DriverWorld(dir, options);
  }

  private constructor(dir: string, options: WorldOptions) {
    this.dir = dir;
    this.#memoryMib = options.memoryMib ?? 64;
    worlds += 1;
    this.cgroupRoot = `holdfast-test-${process.pid}-${worlds}.slice`;
    this.deps = {
      clock: systemClock,
      bootId: this.bootId,
      executorPath: findExecutor(),
      log: silentLogger,
      table: new ProcessTable(systemClock),
      cgroups:
        options.cgroups === false
          ? Cgroups.none('switched off by the test')
          : Cgroups.open({
              root: this.cgroupRoot,
              ...(options.mounts === undefined ? {} : { mounts: options.mounts }),
            }),
      runsDir: join(dir, options.subDir ?? '', 'run'),
      makeDir: (path) => {
        mkdirSync(path, 0o700);
      },
      hostCpus: { mhz: 4000, cores: 2 },
    };
  }

  /** A driver as a newly started agent has it. */
  driver(changes: Partial<RawExecDeps> = {}): RawExecDriver {
    return new RawExecDriver({ ...this.deps, ...changes });
  }

  /** A driver of programs shut in, likewise. */
  execDriver(changes: Partial<ExecDeps> = {}): ExecDriver {
    return new ExecDriver({
      ...this.deps,
      host: probeIsolation(this.deps.executorPath, process.getuid?.() ?? 0),
      settings: { chrootEnv: DEFAULT_CHROOT_ENV, allowCaps: DEFAULT_CAPABILITIES },
      ...changes,
    });
  }

  /** Remembers a handle for cleaning up, should the test fail. */
  keep<T extends DriverHandle>(handle: T): T {
    this.#handles.push(handle);
    return handle;
  }

  /** A task with its directories. */
  async task(changes: Partial<TaskConfig> = {}): Promise<TaskConfig> {
    const allocId = newUuid();
    const runId = newRunId();
    this.#runIds.add(runId);
    const allocDir = join(this.dir, 'alloc', allocId, 'alloc');
    const taskDir = join(this.dir, 'alloc', allocId, 'web');
    const dirs = {
      allocDir,
      taskDir,
      localDir: join(taskDir, 'local'),
      secretsDir: join(taskDir, 'secrets'),
      logDir: join(allocDir, 'logs'),
    };
    for (const dir of [dirs.localDir, dirs.secretsDir, dirs.logDir]) await mkdir(dir, { recursive: true });
    return {
      runId,
      allocId,
      jobId: 'job',
      group: 'group',
      task: 'web',
      config: {},
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      user: undefined,
      resources: {
        cpuMhz: 100,
        cpuPercent: undefined,
        memoryMib: this.#memoryMib,
        memoryMaxMib: undefined,
        pids: undefined,
      },
      logs: { maxFiles: 2, maxFileSizeMib: 1, disabled: false },
      leftovers: 'kill',
      dirs,
      ...changes,
    };
  }

  /** A task that runs a shell script. */
  async shell(script: string, changes: Partial<TaskConfig> = {}): Promise<TaskConfig> {
    return this.task({ config: { command: '/bin/sh', args: ['-c', script] }, ...changes });
  }

  /** What the store would hold of a run. */
  record(config: TaskConfig, handle: DriverHandle | undefined, changes: Partial<RunRecord> = {}): RunRecord {
    return {
      runId: config.runId,
      allocId: config.allocId,
      task: config.task,
      attempt: 1,
      driver: 'raw_exec',
      bootId: this.bootId,
      specHash: '0'.repeat(64),
      intendedAtMs: systemClock.wallMs(),
      handle: handle === undefined ? undefined : structuredClone(handle.ref),
      startedAtMs: handle?.startedAtMs,
      outcome: undefined,
      ...changes,
    };
  }

  /** What the task has written so far. */
  stdout(config: TaskConfig): string {
    try {
      return readFileSync(join(config.dirs.logDir, `${config.task}.stdout.0`), 'utf8');
    } catch {
      return '';
    }
  }

  /** Waits until the task has written a whole line that matches, and gives the match. */
  async says(config: TaskConfig, pattern: RegExp): Promise<RegExpExecArray> {
    return until(`the task writes ${String(pattern)}`, () => pattern.exec(this.stdout(config)) ?? undefined, {
      lastSeen: () => this.stdout(config),
    });
  }

  /** Executors and workloads of the runs of this world, told by the run ids they carry. */
  processes(): number[] {
    return listProcesses()
      .map(({ pid }) => pid)
      .filter((pid) => {
        if (pid === process.pid) return false;
        const text = readProc(pid, 'cmdline') + readProc(pid, 'environ');
        return text.includes(this.dir) || [...this.#runIds].some((runId) => text.includes(runId));
      });
  }

  /** Kills what is left, removes everything, then complains about what was left. */
  async close(): Promise<void> {
    for (const handle of this.#handles) handle.detach();
    const left = await until('nothing runs any more', () => this.processes().length === 0, {
      timeoutMs: 3_000,
    }).then(
      () => [],
      () => this.processes(),
    );
    for (const pid of left) kill(pid, 'SIGKILL');
    const runs = await readdir(this.deps.runsDir, { recursive: true }).catch(() => []);
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
    await this.#removeCgroups();
    assert.deepEqual(left, [], `processes were left behind; run directories: ${runs.join(' ')}`);
  }

  async #removeCgroups(): Promise<void> {
    if (this.deps.cgroups.mode === 'none') return;
    const { unified, v1 } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
    const mounts = [...new Set([unified, ...v1.values()])].filter((mount) => mount !== undefined);
    for (const mount of mounts) {
      const dir = join(mount, this.cgroupRoot);
      await until(`cgroup ${dir} can be removed`, () => removeTree(dir), { timeoutMs: 5_000 });
    }
  }
}

/** True when the pid is there and no zombie. */
export function lives(pid: number): boolean {
  return listProcesses().some((entry) => entry.pid === pid && isAlive(entry));
}

/** Signals a process; one that is gone is fine. */
export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already.
  }
}

function readProc(pid: number, file: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}
