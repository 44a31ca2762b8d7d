/** Owns the schemas of what an alloc has of this host, and of what its tasks really got. */
import { z } from 'zod';
import type { AllocatedResourcesJson, InForceJson, PortJson } from '../wire.js';
import { amount, count, flag, named, noList, text, type Shape } from './values.js';

const port = {
  Label: text.min(1),
  Value: z.int().min(1).max(65535),
  To: z.literal(0),
} satisfies Shape<PortJson>;

export const AllocatedResources = named(
  'AllocatedResources',
  z.object({
    Tasks: z.record(
      z.string(),
      z.object({
        Cpu: z.object({ CpuShares: count }),
        Memory: z.object({ MemoryMB: count, MemoryMaxMB: count }),
        Networks: noList,
        Devices: noList,
      }),
    ),
    Shared: z.object({
      DiskMB: count,
      Networks: z.array(
        z.object({
          Mode: z.literal('host'),
          IP: text.min(1),
          ReservedPorts: z.array(z.object(port)),
          DynamicPorts: z.array(z.object(port)),
        }),
      ),
      Ports: z.array(z.object({ ...port, HostIP: text.min(1) })),
    }),
  } satisfies Shape<AllocatedResourcesJson>),
) satisfies z.ZodType<AllocatedResourcesJson>;

const capabilities = z.array(z.string().regex(/^[a-z_0-9]+$/));
const limit = amount.nonnegative().nullable();

const Process = z.object({
  OwnNamespaces: z.array(z.enum(['mount', 'pid', 'ipc', 'uts', 'cgroup', 'net', 'user'])),
  UID: count,
  GID: count,
  Groups: z.array(count),
  User: text,
  Capabilities: z.object({
    Effective: capabilities,
    Permitted: capabilities,
    Inheritable: capabilities,
    Bounding: capabilities,
    Ambient: capabilities,
  }),
  NoNewPrivs: flag,
  Seccomp: z.enum(['off', 'strict', 'filter']),
  Umask: z.string().regex(/^[0-7]+$/),
  Nice: z.int().nullable(),
  OOMScoreAdj: z.int().nullable(),
  Rlimits: z.record(z.string(), z.object({ Soft: limit, Hard: limit })),
  Mounts: z.object({ Total: count, ReadOnly: count }).nullable(),
} satisfies Shape<NonNullable<InForceJson['Process']>>);

export const InForce = named(
  'InForce',
  z.object({
    Process: Process.nullable(),
    Cgroups: z.array(text.min(1)),
    Limits: z.object({
      MemoryMaxBytes: limit,
      MemoryReserveBytes: limit,
      SwapMaxBytes: limit,
      CPUPercent: limit,
      CPUShares: limit,
      CPUWeight: limit,
      CPUs: text.min(1).nullable(),
      Pids: limit,
      IOWeight: limit,
      IOWeightIdle: limit,
      IOReadBps: limit,
      IOWriteBps: limit,
    } satisfies Shape<InForceJson['Limits']>),
  } satisfies Shape<InForceJson>),
) satisfies z.ZodType<InForceJson>;
