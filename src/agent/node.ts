/** Owns what the agent knows of its host, for people and for `${attr.…}` and `${node.…}`. */
import { arch, cpus, hostname, release, totalmem } from 'node:os';
import type { NodeFacts } from '../api/operations.js';
import { newUuid } from '../base/ids.js';
import type { DriverFingerprint } from '../drivers/driver.js';
import type { Cgroups } from '../executor/cgroups.js';
import type { HostIsolation } from '../executor/host-isolation.js';
import type { StateStore } from '../state/store.js';
import { decideCapabilities } from './capabilities.js';
import type { AgentConfig } from './config.js';

/** MHz assumed for a processor whose speed the kernel does not tell (many virtual machines). */
const ASSUMED_MHZ = 1_000;

/** All processors together. */
export function hostCpuMhz(processors: readonly { readonly speed: number }[]): number {
  return processors.reduce((sum, { speed }) => sum + (speed > 0 ? speed : ASSUMED_MHZ), 0);
}

/** The node's id: made at the first start, then kept in the store. */
export async function readNodeId(store: StateStore): Promise<string> {
  const known = store.getHost('node_id');
  if (known !== undefined && known !== '') return known;
  const fresh = newUuid();
  await store.commit([{ kind: 'put_host', key: 'node_id', value: fresh }], { whenRefused: 'reject' });
  return fresh;
}

export function gatherNodeFacts(input: {
  readonly nodeId: string;
  readonly config: AgentConfig;
  readonly version: string;
  readonly bootId: string;
  readonly startedAtMs: number;
  readonly drivers: Readonly<Record<string, DriverFingerprint>>;
  readonly cgroups: Cgroups;
  readonly isolation: HostIsolation;
}): NodeFacts {
  const { config, drivers } = input;
  const name = config.nodeName ?? hostname();
  const processors = cpus();
  const mhz = hostCpuMhz(processors);
  const attributes: Record<string, string> = {
    'kernel.name': 'linux',
    'kernel.version': release(),
    'cpu.arch': arch() === 'x64' ? 'amd64' : arch(),
    'cpu.numcores': String(processors.length),
    'cpu.totalcompute': String(mhz),
    'memory.totalbytes': String(totalmem()),
    'unique.hostname': hostname(),
    'holdfast.version': input.version,
  };
  for (const { attributes: facts } of Object.values(drivers)) {
    for (const [key, value] of Object.entries(facts)) attributes[key] = value;
  }
  return {
    nodeId: input.nodeId,
    name,
    version: input.version,
    bootId: input.bootId,
    dataDir: config.dataDir,
    socket: config.socket,
    nodeVersion: process.version,
    cgroupMode: input.cgroups.mode,
    cgroupsDelegated: input.cgroups.delegated,
    capabilities: decideCapabilities({
      cgroups: input.cgroups,
      uid: process.getuid?.() ?? 0,
      isolation: input.isolation,
    }),
    startedAtMs: input.startedAtMs,
    attributes,
    drivers,
    cpuMhzTotal: mhz,
    memoryMibTotal: Math.floor(totalmem() / 2 ** 20),
  };
}

/** The same facts under the names that job files use within `${}`. */
export function interpolationFacts(node: NodeFacts, config: AgentConfig): Readonly<Record<string, string>> {
  const facts: Record<string, string> = {
    'node.unique.id': node.nodeId,
    'node.unique.name': node.name,
    'node.datacenter': config.datacenter,
    'node.region': 'global',
  };
  for (const [key, value] of Object.entries(node.attributes)) facts[`attr.${key}`] = value;
  for (const [key, value] of Object.entries(config.meta)) facts[`meta.${key}`] = value;
  return facts;
}
