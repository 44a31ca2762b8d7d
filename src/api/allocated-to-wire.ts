/** Owns the way from the ports and shares that an alloc has taken to the wire. Pure. */
import type { Task, TaskGroup } from '../jobspec/types.js';
import type { AllocRecord } from '../state/store.js';
import { HOST_ADDRESS } from '../taskrunner/task-env.js';
import type { AllocatedResourcesJson, PortJson } from './wire.js';

/** @param group in the version that the alloc runs; undefined when that is no longer on record */
export function allocatedToWire(
  { ports = {} }: Pick<AllocRecord, 'ports'>,
  group: TaskGroup | undefined,
): AllocatedResourcesJson {
  const wanted = new Map(group?.ports?.map((port) => [port.label, port]));
  const taken = Object.entries(ports).map(([label, value]): PortJson => ({
    Label: label,
    Value: value,
    To: 0,
  }));
  const isReserved = ({ Label }: PortJson): boolean => wanted.get(Label)?.static !== undefined;
  return {
    Tasks: Object.fromEntries(group?.tasks.map((task) => [task.name, shareOf(task)]) ?? []),
    Shared: {
      DiskMB: 0,
      Networks:
        taken.length === 0
          ? []
          : [
              {
                Mode: 'host',
                IP: HOST_ADDRESS,
                ReservedPorts: taken.filter(isReserved),
                DynamicPorts: taken.filter((port) => !isReserved(port)),
              },
            ],
      Ports: taken.map((port) => ({ ...port, HostIP: HOST_ADDRESS })),
    },
  };
}

function shareOf({ resources }: Task): AllocatedResourcesJson['Tasks'][string] {
  return {
    Cpu: { CpuShares: resources.cpuMhz },
    Memory: { MemoryMB: resources.memoryMib, MemoryMaxMB: resources.memoryMaxMib ?? 0 },
    Networks: [],
    Devices: [],
  };
}
