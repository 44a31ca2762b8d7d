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
    cores: one(whole(BOUNDS.cores), {
      json: 'Cores',
      type: 'number',
      doc: 'Cores for this task and no other of this agent; instead of `cpu`. One core of the host stays for the others.',
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
    memory_swap: one(mib(BOUNDS.swapMib), {
      json: 'MemorySwapMB',
      type: 'number (MiB) or size',
      ours: true,
      default: '0',
      doc: 'Most swap beside the memory; -1 = no limit. Without it none is used, as far as the kernel can see to that.',
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
    io_weight: one(whole(BOUNDS.ioWeight), {
      json: 'IOWeight',
      type: 'number',
      ours: true,
      doc: 'Share of a disk when it is busy; 100 is that of a task that says nothing. Needs the I/O scheduler bfq, or iocost: where no disk has it, the task runs and is told that the weight has no effect.',
    }),
    io_read: one(mib(BOUNDS.ioMib), {
      json: 'IOReadMB',
      type: 'number (MiB) or size',
      ours: true,
      doc: 'Most that is read a second, from each disk.',
    }),
    io_write: one(mib(BOUNDS.ioMib), {
      json: 'IOWriteMB',
      type: 'number (MiB) or size',
      ours: true,
      doc: 'Most that is written a second, to each disk. On cgroup v1 only what goes past the cache (O_DIRECT, O_SYNC) is held up.',
    }),
  },
  notYet: {
    device: 'Devices',
    disk: 'DiskMB',
    iops: 'IOPS',
    network: 'Networks',
    numa: 'NUMA',
    secrets: 'SecretsMB',
  },
} as const satisfies BlockSpec<Keys>;
