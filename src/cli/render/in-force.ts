/** Owns the words for what a running task really got. Pure. */
import type { InForceJson } from '../../api/wire.js';
import { formatMemory } from './units.js';
import { plural } from './text.js';

/** Every capability Linux has: root that nothing was taken from. */
const ALL_CAPABILITIES = 36;

/** What a task has of these that asks for nothing else. */
const USUAL = { umask: '0022', nice: 0, oomScoreAdj: 0 } as const;

/**
 * One line: `own mount pid, user nobody, no new privileges, 3 capabilities; umask 0027, ulimit nofile 256:512; limits
 * memory 64 MiB, pids 50`.
 * @param config of the task, as its job file has it: of sixteen limits of setrlimit(2) those are told that it names
 */
export function describeInForce(seen: InForceJson, config: Readonly<Record<string, unknown>> = {}): string {
  const limits = limitsOf(seen.Limits);
  const attributes = attributesOf(seen, limitNames(config['ulimit']));
  const unlimited = seen.Cgroups.length === 0 ? 'no limits: no cgroup' : 'no limits';
  return [
    ...isolationOf(seen),
    ...(attributes.length === 0 ? [] : [attributes.join(', ')]),
    limits.length === 0 ? unlimited : `limits ${limits.join(', ')}`,
  ].join('; ');
}

/** Of the process itself: nothing, unless something is not as usual. */
function attributesOf({ Process: process }: InForceJson, names: readonly string[]): string[] {
  if (process === null) return [];
  const { Umask, Nice, OOMScoreAdj, Rlimits } = process;
  const rlimits = names.flatMap((name) => {
    const limit = Rlimits[name];
    if (limit === undefined) return [];
    const [soft, hard] = [limit.Soft, limit.Hard].map((value) =>
      value === null ? 'unlimited' : String(value),
    );
    return [`${name} ${soft === hard ? '' : `${soft ?? ''}:`}${hard ?? ''}`];
  });
  return [
    ...(Umask === USUAL.umask ? [] : [`umask ${Umask}`]),
    ...(Nice === null || Nice === USUAL.nice ? [] : [`nice ${Nice}`]),
    ...(OOMScoreAdj === null || OOMScoreAdj === USUAL.oomScoreAdj ? [] : [`oom_score_adj ${OOMScoreAdj}`]),
    ...(rlimits.length === 0 ? [] : [`ulimit ${rlimits.join(' ')}`]),
  ];
}

/** A block is a map, or a list of one. */
function limitNames(ulimit: unknown): string[] {
  const block: unknown = Array.isArray(ulimit) ? ulimit[0] : ulimit;
  return typeof block === 'object' && block !== null ? Object.keys(block) : [];
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
