/** Owns the way from a look at a workload to the wire. */
import { readFileSync } from 'node:fs';
import { nameOfUser } from '../base/users.js';
import type { InForce, ProcessInForce } from '../executor/in-force-record.js';
import { CAPABILITIES } from '../jobspec/capability-names.js';
import type { InForceJson } from './wire.js';

/** @param passwd text of /etc/passwd */
export function inForceToWire(seen: InForce, passwd = readPasswd()): InForceJson {
  const { limits } = seen;
  return {
    Process: seen.process === undefined ? null : processToWire(seen.process, passwd),
    Cgroups: seen.cgroups,
    Limits: {
      MemoryMaxBytes: limits.memoryMaxBytes ?? null,
      MemoryReserveBytes: limits.memoryReserveBytes ?? null,
      SwapMaxBytes: limits.swapMaxBytes ?? null,
      CPUPercent: limits.cpuQuotaPercent ?? null,
      CPUShares: limits.cpuShares ?? null,
      CPUWeight: limits.cpuWeight ?? null,
      CPUs: limits.cpus ?? null,
      Pids: limits.pidsMax ?? null,
      IOWeight: limits.ioWeight ?? null,
      IOWeightIdle: limits.ioWeightIdle ?? null,
      IOReadBps: limits.ioReadBps ?? null,
      IOWriteBps: limits.ioWriteBps ?? null,
    },
  };
}

function processToWire(seen: ProcessInForce, passwd: string): InForceJson['Process'] {
  const { capabilities } = seen;
  return {
    OwnNamespaces: seen.namespaces,
    UID: seen.uid,
    GID: seen.gid,
    Groups: seen.groups,
    User: nameOfUser(passwd, seen.uid) ?? '',
    Capabilities: {
      Effective: namesOf(capabilities.effective),
      Permitted: namesOf(capabilities.permitted),
      Inheritable: namesOf(capabilities.inheritable),
      Bounding: namesOf(capabilities.bounding),
      Ambient: namesOf(capabilities.ambient),
    },
    NoNewPrivs: seen.noNewPrivs,
    Seccomp: seen.seccomp,
    Umask: seen.umask,
    Nice: seen.nice ?? null,
    OOMScoreAdj: seen.oomScoreAdj ?? null,
    Rlimits: Object.fromEntries(
      seen.rlimits.map(({ name, soft, hard }) => [name, { Soft: soft, Hard: hard }]),
    ),
    Mounts: seen.mounts === undefined ? null : { Total: seen.mounts.total, ReadOnly: seen.mounts.readOnly },
  };
}

/** @param set hexadecimal; a bit without a name here is named by its number */
function namesOf(set: string): string[] {
  const bits = /^[0-9a-f]{1,16}$/.test(set) ? BigInt(`0x${set}`) : 0n;
  const names: string[] = [];
  for (let bit = 0; bit < 64; bit += 1) {
    if (((bits >> BigInt(bit)) & 1n) === 1n) names.push(CAPABILITIES[bit] ?? `cap_${bit}`);
  }
  return names;
}

function readPasswd(): string {
  try {
    return readFileSync('/etc/passwd', 'utf8');
  } catch {
    return '';
  }
}
