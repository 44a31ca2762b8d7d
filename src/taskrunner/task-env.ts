/** Owns the environment of a task and the interpolation of `${…}`. Pure. */
import { shortId } from '../base/ids.js';
import type { Job, Task, TaskGroup } from '../jobspec/types.js';

/**
 * Variables of the agent's own environment that a task may see, as users of Nomad and systemd expect; nothing else of
 * the agent leaks into a task.
 */
export const INHERITED_VARIABLES = [
  'PATH',
  'HOME',
  'LANG',
  'USER',
  'LOGNAME',
  'SHELL',
  'TZ',
  'TMPDIR',
] as const;

/** PATH of a task whose agent has none (a bare unit file). */
const FALLBACK_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Where the tasks of a host find each other, and where their ports are. */
export const HOST_ADDRESS = '127.0.0.1';

export interface TaskEnvInput {
  readonly job: Job;
  readonly group: TaskGroup;
  readonly task: Task;
  readonly allocId: string;
  readonly allocIndex: number;
  /** As the task sees them (the same as the host's without file-system isolation). */
  readonly paths: { readonly allocDir: string; readonly localDir: string; readonly secretsDir: string };
  /** The agent's environment; only the allow-list is taken. */
  readonly agentEnv: Readonly<Record<string, string | undefined>>;
  /** Facts of this node: `attr.…`, `node.…`, `meta.…` without the `${}`. */
  readonly node: Readonly<Record<string, string>>;
  /** What hooks gave, later ones win. */
  readonly hookEnv: readonly Readonly<Record<string, string>>[];
  readonly cgroup: string | undefined;
  /** Ports of the alloc, by label. */
  readonly ports?: Readonly<Record<string, number>>;
}

export interface TaskEnv {
  readonly env: Readonly<Record<string, string>>;
  /** Resolves `${…}` in a text; what is not known stays as it is written. */
  readonly interpolate: (text: string) => string;
}

/** Builds what a task finds in its environment: inherited < NOMAD_* < the job file's `env` < hooks, as in Nomad. */
export function buildTaskEnv(input: TaskEnvInput): TaskEnv {
  const inherited: Record<string, string> = { PATH: FALLBACK_PATH };
  for (const name of INHERITED_VARIABLES) {
    const value = input.agentEnv[name];
    if (value !== undefined) inherited[name] = value;
  }
  const base: Record<string, string> = { ...inherited, ...nomadVariables(input) };
  for (const layer of input.hookEnv) Object.assign(base, layer);
  const resolveWith = (env: Readonly<Record<string, string>>) => (text: string) =>
    interpolate(text, (name) => lookUp(name, env, input));
  const env: Record<string, string> = { ...base };
  // Values of the job file may name everything else (what hooks gave, too), not each other.
  for (const [name, value] of Object.entries(input.task.env)) env[name] = resolveWith(base)(value);
  for (const layer of input.hookEnv) Object.assign(env, layer);
  return { env, interpolate: resolveWith(env) };
}

/** Resolves `${…}` in every string of a plain value (objects and lists are copied). */
export function interpolateDeep(value: unknown, resolve: (text: string) => string): unknown {
  if (typeof value === 'string') return resolve(value);
  if (Array.isArray(value)) return value.map((item: unknown) => interpolateDeep(item, resolve));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, interpolateDeep(item, resolve)]),
    );
  }
  return value;
}

function interpolate(text: string, look: (name: string) => string | undefined): string {
  return text.replace(/\$?\$\{([^{}]*)\}/g, (whole, name: string) => {
    if (whole.startsWith('$$')) return whole.slice(1);
    return look(name.trim()) ?? whole;
  });
}

function lookUp(
  name: string,
  env: Readonly<Record<string, string>>,
  input: TaskEnvInput,
): string | undefined {
  const quoted = /^env\[\s*"([^"]*)"\s*\]$/.exec(name);
  if (quoted?.[1] !== undefined) return own(env, quoted[1]) ?? '';
  return own(name.startsWith('NOMAD_') ? env : input.node, name);
}

/** Not what every object inherits: `${constructor}` names nothing. */
function own(values: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function nomadVariables(input: TaskEnvInput): Record<string, string> {
  const { job, group, task } = input;
  const { resources } = task;
  const env: Record<string, string> = {
    NOMAD_ALLOC_DIR: input.paths.allocDir,
    NOMAD_TASK_DIR: input.paths.localDir,
    NOMAD_SECRETS_DIR: input.paths.secretsDir,
    NOMAD_ALLOC_ID: input.allocId,
    NOMAD_SHORT_ALLOC_ID: shortId(input.allocId),
    NOMAD_ALLOC_NAME: `${job.id}.${group.name}[${input.allocIndex}]`,
    NOMAD_ALLOC_INDEX: String(input.allocIndex),
    NOMAD_TASK_NAME: task.name,
    NOMAD_GROUP_NAME: group.name,
    NOMAD_JOB_ID: job.id,
    NOMAD_JOB_NAME: job.name,
    NOMAD_NAMESPACE: job.namespace,
    NOMAD_REGION: job.region,
    NOMAD_DC: input.node['node.datacenter'] ?? 'dc1',
    NOMAD_CPU_LIMIT: String(resources.cpuMhz),
    NOMAD_MEMORY_LIMIT: String(resources.memoryMib),
  };
  if (resources.memoryMaxMib !== undefined) env['NOMAD_MEMORY_MAX_LIMIT'] = String(resources.memoryMaxMib);
  if (input.cgroup !== undefined) env['NOMAD_PARENT_CGROUP'] = input.cgroup;
  Object.assign(env, portVariables(input.ports ?? {}));
  // The nearest level wins: task over group over job. Names are given as written and, as in Nomad, in capitals.
  for (const level of [job.meta, group.meta, task.meta]) {
    for (const [key, value] of Object.entries(level)) {
      const clean = key.replace(/[^A-Za-z0-9_]/g, '_');
      env[`NOMAD_META_${clean}`] = value;
      env[`NOMAD_META_${clean.toUpperCase()}`] = value;
    }
  }
  return env;
}

/** Tasks share the host's network: a port is the same inside and outside. */
function portVariables(ports: Readonly<Record<string, number>>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [label, port] of Object.entries(ports)) {
    const clean = label.replace(/[^A-Za-z0-9_]/g, '_');
    for (const side of ['', 'HOST_']) {
      env[`NOMAD_${side}PORT_${clean}`] = String(port);
      env[`NOMAD_${side}IP_${clean}`] = HOST_ADDRESS;
      env[`NOMAD_${side}ADDR_${clean}`] = `${HOST_ADDRESS}:${port}`;
    }
  }
  return env;
}
