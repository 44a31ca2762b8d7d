/** Owns the stored form of a look at a workload (in-force.ts): what it holds, and reading it back. */
import * as z from 'zod';
import { IN_FORCE_KEY } from './in-force.js';

const amount = z.number().optional();
/** null = unlimited. */
const rlimit = z.object({ name: z.string(), soft: z.number().nullable(), hard: z.number().nullable() });

const PROCESS = z.object({
  /** Namespaces that are not those of the agent. */
  namespaces: z.array(z.string()),
  /** As the host counts, also in a user namespace. Effective ids. */
  uid: z.number(),
  gid: z.number(),
  groups: z.array(z.number()),
  /** Sets, in hexadecimal as the kernel writes them. */
  capabilities: z.object({
    effective: z.string(),
    permitted: z.string(),
    inheritable: z.string(),
    bounding: z.string(),
    ambient: z.string(),
  }),
  noNewPrivs: z.boolean(),
  seccomp: z.enum(['off', 'strict', 'filter']),
  umask: z.string(),
  oomScoreAdj: amount,
  nice: amount,
  rlimits: z.array(rlimit),
  mounts: z.object({ total: z.number(), readOnly: z.number() }).optional(),
});

const IN_FORCE = z.object({
  /** Undefined when it had ended before it could be looked at, or must not be looked at. */
  process: PROCESS.optional(),
  /** Directories of its cgroup; none = nothing is limited. */
  cgroups: z.array(z.string()),
  limits: z.object({
    memoryMaxBytes: amount,
    memoryReserveBytes: amount,
    swapMaxBytes: amount,
    cpuQuotaPercent: amount,
    cpuShares: amount,
    cpuWeight: amount,
    cpus: z.string().optional(),
    pidsMax: amount,
    ioWeight: amount,
    ioWeightIdle: amount,
    ioReadBps: amount,
    ioWriteBps: amount,
  }),
});

/** What a workload got when it started, with the limits as they were changed since. Plain JSON. */
export type InForce = z.infer<typeof IN_FORCE>;
export type ProcessInForce = z.infer<typeof PROCESS>;

/** The look that the state of a driver holds; undefined for drivers, and runs of older versions, without one. */
export function inForceOfState(driverState: Readonly<Record<string, unknown>>): InForce | undefined {
  return IN_FORCE.safeParse(driverState[IN_FORCE_KEY]).data;
}
