/** Owns the rules between the keys of `resources`. */
import type { BlockRead } from './blocks.js';
import { DEFAULTS } from './defaults.js';
import type { RESOURCES } from './schema/resources.js';
import { nameOf, type Session } from './session.js';
import type { Resources } from './types.js';

type ResourcesRead = BlockRead<typeof RESOURCES.keys>;

export function buildResources(read: ResourcesRead | undefined, session: Session): Resources {
  const memoryMib = read?.keys.memory?.value ?? DEFAULTS.memoryMib.value;
  const max = read?.keys.memory_max;
  // 0 is how Nomad's JSON says "not set".
  const memoryMaxMib = max?.value === 0 ? undefined : max?.value;
  if (read?.clean === true && max !== undefined && memoryMaxMib !== undefined) {
    if (memoryMaxMib !== -1 && memoryMaxMib < memoryMib) {
      const message = `${memoryMaxMib} MiB is less than the \`memory\` of ${memoryMib} MiB`;
      session.fault(max.spot, `${nameOf(max.spot)}: ${message}`, 'raise it, or write -1 for no hard limit');
    }
  }
  return {
    cpuMhz: read?.keys.cpu?.value ?? DEFAULTS.cpuMhz.value,
    cpuPercent: read?.keys.cpu_percent?.value,
    memoryMib,
    memoryMaxMib,
    pids: read?.keys.pids?.value,
    ...buildNewerResources(read, session),
  };
}

/** Those that are absent where they are not asked for: what earlier releases have stored stays as it is. */
function buildNewerResources(
  read: ResourcesRead | undefined,
  session: Session,
): Pick<Resources, 'cores' | 'memorySwapMib' | 'ioWeight' | 'ioReadMib' | 'ioWriteMib'> {
  if (read === undefined) return {};
  const { cpu, cores, memory_swap: swap, io_weight: weight, io_read: reads, io_write: writes } = read.keys;
  const hasCores = cores !== undefined && cores.value > 0;
  // In JSON `CPU` is always there.
  if (hasCores && cpu !== undefined && session.dialect !== 'json') {
    const message = 'there is `cpu` already: a task has a share of all cores, or cores of its own';
    session.fault(cores.spot, `${nameOf(cores.spot)}: ${message}`, 'keep one of them');
  }
  return {
    ...(hasCores ? { cores: cores.value } : {}),
    ...(swap === undefined ? {} : { memorySwapMib: swap.value }),
    ...(weight === undefined ? {} : { ioWeight: weight.value }),
    ...(reads === undefined ? {} : { ioReadMib: reads.value }),
    ...(writes === undefined ? {} : { ioWriteMib: writes.value }),
  };
}
