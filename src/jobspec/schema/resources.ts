/** Owns the keys of `resources`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, DEFAULTS } from '../defaults.js';
import { mib, whole } from '../values.js';
import { one } from './key.js';

export const RESOURCES = {
  name: 'resources',
  keys: {
    cpu: one(whole(BOUNDS.cpuMhz), {
      json: 'CPU',
      type: 'number (MHz)',
      default: String(DEFAULTS.cpuMhz.value),
      doc: 'Share of the CPU when it is short; no limit while it is not.',
    }),
    memory: one(mib(BOUNDS.memoryMib), {
      json: 'MemoryMB',
      type: 'number (MiB) or size',
      default: String(DEFAULTS.memoryMib.value),
      doc: 'Memory of the task; its hard limit unless `memory_max` is set. At least 10. As text: `"256MiB"`, `"2GiB"`.',
    }),
    memory_max: one(mib({ ...BOUNDS.memoryMib, least: -1 }), {
      json: 'MemoryMaxMB',
      type: 'number (MiB) or size',
      doc: 'Hard limit above `memory`; -1 = no hard limit.',
    }),
    cpu_percent: one(whole(BOUNDS.cpuPercent), {
      json: 'CPUPercent',
      type: 'number',
      ours: true,
      doc: 'Hard quota in percent of one core; 150 = one and a half cores.',
    }),
    pids: one(whole(BOUNDS.pids), {
      json: 'Pids',
      type: 'number',
      ours: true,
      doc: 'Most processes and threads the task may have.',
    }),
  },
  notYet: {
    cores: 'Cores',
    device: 'Devices',
    disk: 'DiskMB',
    iops: 'IOPS',
    network: 'Networks',
    numa: 'NUMA',
    secrets: 'SecretsMB',
  },
} as const satisfies BlockSpec<Keys>;
