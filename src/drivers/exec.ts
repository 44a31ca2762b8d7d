/** Owns the driver `exec`: a program in a root, namespaces and limits of its own, under an executor. */
import type { ExecConfig, parseExecConfig } from '../jobspec/driver-config.js';
import {
  capabilityMask,
  CAPABILITIES,
  DEFAULT_CAPABILITIES,
  type Capability,
} from '../jobspec/capability-names.js';
import { AgentError } from '../base/errors.js';
import { demandedLimits } from '../executor/cgroup-limits.js';
import type { HostIsolation } from '../executor/host-isolation.js';
import type { MountOption, NamespaceName, SpecIsolation, SpecMount } from '../executor/isolation.js';
import type { DriverFingerprint, TaskConfig } from './driver.js';
import { ExecutorDriver, type ExecutorDriverDeps, type ProgramPlan } from './executor-driver.js';

/** What the operator says about all exec tasks of this host. */
export interface ExecSettings {
  /** Directories of the host → where a task sees them, read-only. */
  readonly chrootEnv: Readonly<Record<string, string>>;
  /** What tasks may have at most. */
  readonly allowCaps: readonly Capability[];
}

export interface ExecDeps extends ExecutorDriverDeps {
  readonly settings: ExecSettings;
  /** What this host and this user can isolate. */
  readonly host: HostIsolation;
}

/** Where a task finds its own directories; the same words as in Nomad. */
const EXEC_PATHS = { allocDir: '/alloc', localDir: '/local', secretsDir: '/secrets' } as const;

/** User of a task that names none, when the agent is root; as in Nomad. */
const DEFAULT_USER = 'nobody';
/** Where a program without a slash is looked for, after `/local`, in a task that sets no PATH. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export class ExecDriver extends ExecutorDriver {
  override readonly name = 'exec';
  readonly taskPaths = EXEC_PATHS;
  readonly #deps: ExecDeps;
  #parse: typeof parseExecConfig | undefined;

  constructor(deps: ExecDeps) {
    super(deps);
    this.#deps = deps;
  }

  override fingerprint(): Promise<DriverFingerprint> {
    const { host, cgroups } = this.#deps;
    if (host.fault !== undefined) {
      const description = `cannot shut programs in: ${host.fault.problem}; ${host.fault.cure}`;
      return Promise.resolve({ health: 'undetected', description, attributes: {} });
    }
    const inside = host.userNamespace ? ', in a user namespace' : '';
    return Promise.resolve({
      health: 'healthy',
      description: `runs programs in a root and namespaces of their own${inside}; limits by cgroups: ${cgroups.mode}`,
      attributes: {
        'driver.exec': '1',
        'driver.exec.cgroups': cgroups.mode,
        'driver.exec.user_namespace': String(host.userNamespace),
      },
    });
  }

  protected override async plan(task: TaskConfig): Promise<ProgramPlan> {
    const { host, settings } = this.#deps;
    // Late: what finds the tasks again after a start does not need it.
    this.#parse ??= (await import('../jobspec/driver-config.js')).parseExecConfig;
    const config = this.#parse(task.config, `task ${task.task}`);
    if (host.fault !== undefined)
      throw new AgentError('start_failed', `driver exec: ${host.fault.problem}; ${host.fault.cure}`);
    return {
      config,
      path: config.command.startsWith('/') ? config.command : config.command.replace(/^(\.\/)+/, ''),
      cwd: config.workDir ?? '/',
      user: task.user ?? (host.userNamespace ? undefined : DEFAULT_USER),
      isolation: isolationOf(task, config, { settings, userNamespace: host.userNamespace }),
      demanded: demandedLimits(task.resources),
    };
  }
}

/** What the executor is told of a task's isolation. @throws AgentError driver_config_invalid */
export function isolationOf(
  task: TaskConfig,
  config: ExecConfig,
  around: { readonly settings: ExecSettings; readonly userNamespace: boolean },
): SpecIsolation {
  const { settings, userNamespace } = around;
  const namespaces: NamespaceName[] = ['mount', 'uts', 'cgroup'];
  if (config.pidMode === 'private') namespaces.push('pid');
  if (config.ipcMode === 'private') namespaces.push('ipc');
  if (config.networkMode === 'none') namespaces.push('net');
  if (userNamespace) namespaces.push('user');
  return {
    namespaces,
    mounts: mountsOf(task, settings),
    search: searchOf(task.env),
    capabilities: capabilitiesOf(task, config, settings),
    noNewPrivs: config.noNewPrivs,
    seccomp: config.seccomp,
  };
}

function mountsOf(task: TaskConfig, settings: ExecSettings): SpecMount[] {
  const { dirs } = task;
  const own = (source: string, target: string, ...options: MountOption[]): SpecMount => ({
    source,
    target,
    options,
  });
  return [
    ...Object.entries(settings.chrootEnv).map(([source, target]) =>
      own(source, target, 'ro', 'optional', 'link'),
    ),
    own(dirs.allocDir, EXEC_PATHS.allocDir),
    // The executor writes the logs; the task is only to read them.
    own(dirs.logDir, `${EXEC_PATHS.allocDir}/logs`, 'ro', 'optional'),
    own(dirs.localDir, EXEC_PATHS.localDir),
    own(dirs.secretsDir, EXEC_PATHS.secretsDir, 'own'),
    own(`${dirs.taskDir}/tmp`, '/tmp', 'optional'),
    ...(task.mounts ?? []).map(({ source, target, readOnly }) =>
      own(source, target, ...(readOnly ? (['ro'] as const) : [])),
    ),
  ];
}

/** As Nomad looks: in `/local` first, then where the task's PATH leads. */
function searchOf(env: Readonly<Record<string, string>>): string[] {
  const onPath = (env['PATH'] ?? DEFAULT_PATH).split(':').filter((dir) => dir.startsWith('/'));
  return [...new Set([EXEC_PATHS.localDir, ...onPath])];
}

/**
 * Nomad's set, less what is dropped, and what is added; added wins. What anybody but root really holds is only what was
 * added by name: a task that runs as nobody must not be able to become root (docs/adr/0014).
 */
function capabilitiesOf(
  task: TaskConfig,
  config: ExecConfig,
  settings: ExecSettings,
): { readonly bounding: number; readonly ambient: number } {
  const allowed = new Set(settings.allowCaps);
  const expand = (names: ExecConfig['capAdd']): Capability[] =>
    names.flatMap((name) => (name === 'all' ? [...CAPABILITIES] : [name]));
  const added = config.capAdd.flatMap((name) => (name === 'all' ? settings.allowCaps : [name]));
  const refused = added.filter((name) => !allowed.has(name));
  if (refused.length > 0) {
    throw new AgentError(
      'driver_config_invalid',
      `task ${task.task}: \`cap_add\`: this agent allows no task ${refused.join(', ')}; the operator can add it to \`allow_caps\` in the agent's configuration`,
    );
  }
  const dropped = new Set(expand(config.capDrop));
  const kept = settings.allowCaps.filter((name) => !dropped.has(name) && DEFAULT_CAPABILITIES.includes(name));
  return { bounding: capabilityMask([...kept, ...added]), ambient: capabilityMask(added) };
}
