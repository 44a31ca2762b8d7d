/** Owns what a new reading of the settings means for an agent that runs. Pure. */
import { isDeepStrictEqual } from 'node:util';
import type { AgentConfig } from './config.js';

/** What can change while the agent runs; everything else is used once, at its start. */
export type LiveSettings = Pick<
  AgentConfig,
  'logLevel' | 'maxKillTimeoutMs' | 'tokens' | 'tls' | 'httpNames'
>;

export interface ConfigChange {
  /** The config that is in force afterwards. */
  readonly inForce: AgentConfig;
  /** Names, as in the config file, of what takes effect now. */
  readonly applied: readonly string[];
  /** Names of what differs and takes effect at the next start. */
  readonly needRestart: readonly string[];
}

/** Every setting by its name in the config file. */
const NAMES: Readonly<Record<keyof AgentConfig, string>> = {
  dataDir: 'data_dir',
  socket: 'socket',
  http: 'http',
  tokens: 'tokens_file',
  tls: 'tls',
  httpNames: 'http_names',
  socketGid: 'socket_group',
  logLevel: 'log_level',
  maxKillTimeoutMs: 'max_kill_timeout',
  cgroupRoot: 'cgroup_root',
  nodeName: 'name',
  datacenter: 'datacenter',
  meta: 'meta',
  feed: 'feed_…',
  gc: 'gc_…',
  exec: 'chroot_env or allow_caps',
  hostVolumes: 'host_volume',
  acceptHost: '--accept-host',
  deniedUsers: 'user_denylist',
  checkedDrivers: 'user_checked_drivers',
  templateHostPaths: 'template_host_paths',
};

/** @param before what is in force now */
export function compareConfig(before: AgentConfig, after: AgentConfig): ConfigChange {
  const live: LiveSettings = {
    logLevel: after.logLevel,
    maxKillTimeoutMs: after.maxKillTimeoutMs,
    tokens: after.tokens,
    httpNames: after.httpNames,
    // Certificates change while it listens; a listener cannot begin or cease to speak TLS.
    tls: before.tls === undefined || after.tls === undefined ? before.tls : after.tls,
  };
  const inForce = { ...before, ...live };
  const namesOf = (one: AgentConfig, other: AgentConfig): string[] =>
    [...keysOf(NAMES)].filter((key) => !isDeepStrictEqual(one[key], other[key])).map((key) => NAMES[key]);
  return { inForce, applied: namesOf(before, inForce), needRestart: namesOf(inForce, after) };
}

/** One line for the log. */
export function describeReload({ applied, needRestart }: ConfigChange): string {
  if (applied.length + needRestart.length === 0) return 'config is read again: nothing has changed';
  const now = applied.length === 0 ? [] : [`applied: ${applied.join(', ')}`];
  const later = needRestart.length === 0 ? [] : [`needs a restart of the agent: ${needRestart.join(', ')}`];
  return `config is read again; ${[...now, ...later].join('; ')}`;
}

function* keysOf<K extends string>(names: Readonly<Record<K, string>>): Generator<K, void, void> {
  for (const key in names) yield key;
}
