/** Owns the words for what a running task really got. Pure. */
import type { InForceJson } from '../../api/wire.js';
import { formatMemory } from './units.js';
import { plural } from './text.js';

/** Every capability Linux has: root that nothing was taken from. */
const ALL_CAPABILITIES = 36;

/** One line: `own mount pid, user nobody, no new privileges, 3 capabilities; limits memory 64 MiB, pids 50`. */
export function describeInForce(seen: InForceJson): string {
  const limits = limitsOf(seen.Limits);
  const unlimited = seen.Cgroups.length === 0 ? 'no limits: no cgroup' : 'no limits';
  return [...isolationOf(seen), limits.length === 0 ? unlimited : `limits ${limits.join(', ')}`].join('; ');
}

function isolationOf({ Process: process }: InForceJson): string[] {
  if (process === null) return [];
  const { Effective, Bounding } = process.Capabilities;
  const held = Effective.length === 0 && process.UID !== 0 ? 0 : Effective.length;
  const parts = [
    process.OwnNamespaces.length === 0 ? 'namespaces of the host' : `own ${process.OwnNamespaces.join(' ')}`,
    `user ${process.User === '' ? process.UID : process.User}`,
    ...(process.NoNewPrivs ? ['no new privileges'] : []),
    ...(process.Seccomp === 'off' ? [] : ['seccomp']),
    held >= ALL_CAPABILITIES
      ? 'all capabilities'
      : `${held === 1 ? '1 capability' : `${held === 0 ? 'no' : held} capabilities`}${
          Bounding.length > held && Bounding.length < ALL_CAPABILITIES ? ` of ${Bounding.length}` : ''
        }`,
    ...(process.Mounts === null || !process.OwnNamespaces.includes('mount')
      ? []
      : [`${plural(process.Mounts.Total, 'mount')}, ${process.Mounts.ReadOnly} read-only`]),
  ];
  return [parts.join(', ')];
}

function limitsOf(limits: InForceJson['Limits']): string[] {
  const some = <T>(value: T | null, text: (value: T) => string): string[] =>
    value === null ? [] : [text(value)];
  return [
    ...some(limits.MemoryMaxBytes, (bytes) => `memory ${formatMemory(bytes)}`),
    ...some(limits.SwapMaxBytes, (bytes) => (bytes === 0 ? 'no swap' : `swap ${formatMemory(bytes)}`)),
    ...some(limits.CPUPercent, (percent) => `cpu ${Math.round(percent)}%`),
    ...some(limits.CPUs, (cpus) => `cores ${cpus}`),
    ...some(limits.Pids, (pids) => `pids ${pids}`),
    ...some(limits.IOWeight, (weight) => `io weight ${weight}`),
    ...some(
      limits.IOWeightIdle,
      (weight) => `io weight ${weight} without effect: no disk with bfq or iocost`,
    ),
    ...some(limits.IOReadBps, (bps) => `reads ${formatMemory(bps)}/s`),
    ...some(limits.IOWriteBps, (bps) => `writes ${formatMemory(bps)}/s`),
  ];
}
