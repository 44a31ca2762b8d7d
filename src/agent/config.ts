/** Owns the agent's settings: defaults, the config file (config-file.ts), command line options, in rising order. */
import { resolve } from 'node:path';
import type { TlsSettings } from '../api/listener.js';
import { AgentError } from '../base/errors.js';
import { LOG_LEVELS, type LogLevel } from '../base/log.js';
import { defaultDataDir, socketPath } from '../base/paths.js';
import type { KnownToken } from '../base/tokens.js';
import { USUAL_USER_RULES } from '../taskrunner/hooks/validate.js';
import { DEFAULT_STORE_LIMITS, type StoreLimits } from '../state/limits.js';
import type { CollectorLimits } from '../scheduler/collector.js';
import type { ExecSettings } from '../drivers/exec.js';
import { readGid, readTls, readTokens } from './access.js';
import type { HostVolume } from '../taskrunner/hooks/volumes.js';
import type { FileSettings } from './config-file.js';
import { execSettings, hostVolumes } from './exec-settings.js';

export interface AgentConfig {
  readonly dataDir: string;
  readonly socket: string;
  /** TCP address besides the socket; undefined = none. */
  readonly http: { readonly host: string; readonly port: number } | undefined;
  /** One of them is asked of each TCP client. */
  readonly tokens: readonly KnownToken[];
  /** Certificates of the TCP listener; undefined = plain HTTP. */
  readonly tls: TlsSettings | undefined;
  /** Names by which TCP clients may address this host, besides its own and its addresses. */
  readonly httpNames: readonly string[];
  /** Group that may use the socket; undefined = the agent's own. */
  readonly socketGid: number | undefined;
  readonly logLevel: LogLevel;
  /** Cap on every task's kill_timeout. Default 30 s, as Nomad's client. */
  readonly maxKillTimeoutMs: number;
  /** Name of the cgroup, at the top of the hierarchy, that holds everything of ours; undefined = see `Cgroups.open`. */
  readonly cgroupRoot: string | undefined;
  readonly nodeName: string | undefined;
  readonly datacenter: string;
  readonly meta: Readonly<Record<string, string>>;
  /** How much of the feed is held for readers that come back. */
  readonly feed: Pick<StoreLimits, 'feedRows' | 'feedAgeMs' | 'feedBytes'>;
  /** What is forgotten, and when. */
  readonly gc: CollectorLimits;
  /** What tasks of the driver exec see and may. */
  readonly exec: ExecSettings;
  /** Directories that job files may mount, by name. */
  readonly hostVolumes: Readonly<Record<string, HostVolume>>;
  /** Take over a data directory that was made on another host. */
  readonly acceptHost: boolean;
  /** Whom tasks of the checked drivers must not run as. */
  readonly deniedUsers: readonly string[];
  readonly checkedDrivers: readonly string[];
  /** What templates may read of this host, besides the directories of their tasks. */
  readonly templateHostPaths: readonly string[];
}

const MIB = 2 ** 20;

/** What the command line may say; undefined = not said. */
export interface AgentOptions {
  readonly config?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly socket?: string | undefined;
  readonly http?: string | undefined;
  readonly logLevel?: string | undefined;
  readonly acceptHost?: boolean | undefined;
}

/**
 * Reads the settings. The config file is YAML (so JSON will do).
 * @throws AgentError bad_request saying which file and key, what is wrong and what would be right
 */
export async function readAgentConfig(
  options: AgentOptions,
  env: Readonly<Record<string, string | undefined>>,
  uid: number,
): Promise<AgentConfig> {
  const file = options.config === undefined ? {} : await readFile(options.config);
  const dataDir = resolve(options.dataDir ?? file.data_dir ?? defaultDataDir(env, uid));
  const http = options.http ?? file.http;
  return {
    dataDir,
    socket: resolve(options.socket ?? file.socket ?? socketPath(dataDir)),
    http: http === undefined ? undefined : parseAddress(http),
    tokens: await readTokens(file.tokens_file, env['HOLDFAST_AGENT_TOKEN']),
    tls: file.tls === undefined ? undefined : await readTls(file.tls),
    httpNames: file.http_names ?? [],
    socketGid: file.socket_group === undefined ? undefined : await readGid(file.socket_group),
    logLevel: parseLevel(options.logLevel ?? file.log_level ?? 'info'),
    maxKillTimeoutMs: file.max_kill_timeout ?? 30_000,
    cgroupRoot: env['HOLDFAST_CGROUP_ROOT'] ?? file.cgroup_root,
    nodeName: file.name,
    datacenter: file.datacenter ?? 'dc1',
    meta: file.meta ?? {},
    feed: {
      feedRows: file.feed_rows ?? DEFAULT_STORE_LIMITS.feedRows,
      feedAgeMs: file.feed_age ?? DEFAULT_STORE_LIMITS.feedAgeMs,
      feedBytes: file.feed_size === undefined ? DEFAULT_STORE_LIMITS.feedBytes : file.feed_size * MIB,
    },
    gc: {
      intervalMs: file.gc_interval ?? 60_000,
      maxAllocs: file.gc_max_allocs ?? 50,
      diskUsedPercent: file.gc_disk_usage_threshold ?? 80,
      inodesUsedPercent: file.gc_inode_usage_threshold ?? 70,
      allocAgeMs: file.gc_alloc_age ?? 7 * 24 * 3_600_000,
      jobAgeMs: file.gc_job_age ?? 24 * 3_600_000,
    },
    exec: execSettings(file),
    hostVolumes: hostVolumes(file),
    acceptHost: options.acceptHost ?? false,
    deniedUsers: file.user_denylist ?? USUAL_USER_RULES.denied,
    templateHostPaths: file.template_host_paths ?? [],
    checkedDrivers: file.user_checked_drivers ?? USUAL_USER_RULES.drivers,
  };
}

/** What reads and checks the file is loaded only where there is one. */
async function readFile(path: string): Promise<FileSettings> {
  const { readFileSettings } = await import('./config-file.js');
  return readFileSettings(path);
}

function parseAddress(text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9A-Fa-f:]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !(port <= 65_535)) {
    throw new AgentError(
      'bad_request',
      `http address ${JSON.stringify(text)}: write HOST:PORT, as 127.0.0.1:4646`,
    );
  }
  return { host, port };
}

function parseLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((candidate) => candidate === text);
  if (level !== undefined) return level;
  throw new AgentError('bad_request', `log level ${JSON.stringify(text)}: one of ${LOG_LEVELS.join(', ')}`);
}
