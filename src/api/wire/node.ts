/** Owns the shapes of this host as a node. */
import type { ResourcesJson } from './job.js';

export interface DriverInfo {
  readonly Attributes: Readonly<Record<string, string>>;
  readonly Detected: boolean;
  readonly Healthy: boolean;
  readonly HealthDescription: string;
  readonly UpdateTime: string;
}

/** Whether a node takes new allocs, and what it is getting rid of. */
export interface NodeSchedulingJson {
  readonly Drain: boolean;
  readonly SchedulingEligibility: 'eligible' | 'ineligible';
  readonly DrainStrategy: DrainStrategy | null;
}

/** A drain under way. */
export interface DrainStrategy {
  /** Nanoseconds; 0 = none, negative = at once. */
  readonly Deadline: number;
  readonly IgnoreSystemJobs: boolean;
  /** When what is left is stopped whatever it is; zero time = never. */
  readonly ForceDeadline: string;
  readonly StartedAt: string;
}

/** PUT /v1/node/:id/drain and /eligibility. */
export interface NodeUpdateResponse {
  readonly NodeModifyIndex: number;
  readonly EvalIDs: readonly string[];
  readonly EvalCreateIndex: number;
}

/** GET /v1/nodes. */
export interface NodeListStub extends Omit<NodeSchedulingJson, 'DrainStrategy'> {
  readonly ID: string;
  readonly Name: string;
  readonly Address: string;
  readonly Datacenter: string;
  readonly NodePool: string;
  readonly NodeClass: string;
  readonly Version: string;
  readonly Status: 'ready';
  readonly StatusDescription: string;
  readonly Attributes: Readonly<Record<string, string>>;
  readonly Drivers: Readonly<Record<string, DriverInfo>>;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
}

/** GET /v1/node/:id. */
export interface Node extends NodeListStub {
  /** Empty: callers stay at the address where they found this node. */
  readonly HTTPAddr: string;
  readonly TLSEnabled: boolean;
  readonly NodeResources: NodeResources;
  readonly ReservedResources: NodeResources;
  readonly Resources: ResourcesJson;
  readonly Reserved: ResourcesJson;
  readonly Links: Readonly<Record<string, string>>;
  readonly Meta: Readonly<Record<string, string>>;
  readonly DrainStrategy: DrainStrategy | null;
  readonly StatusUpdatedAt: number;
  readonly Events: readonly never[];
  readonly HostVolumes: Readonly<Record<string, never>>;
  readonly Holdfast: {
    readonly BootID: string;
    readonly DataDir: string;
    readonly Socket: string;
    readonly NodeVersion: string;
    /** `v2`, `hybrid`, `v1` or `none`. */
    readonly CgroupMode: string;
    /** Subtrees handed over to an agent that is not root, which its cgroups are in; none = they are at the top. */
    readonly CgroupsDelegated: readonly string[];
    readonly Capabilities: readonly HostCapability[];
    readonly StartedAt: string;
    readonly Warnings: readonly string[];
  };
}

/** One thing that this host lets us do to tasks, or does not. */
export interface HostCapability {
  readonly Name: string;
  readonly Available: boolean;
  /** How it is done; or what follows from its want. */
  readonly Detail: string;
  /** What the operator can do about it; '' when it is available. */
  readonly Cure: string;
}

export interface NodeResources {
  readonly Cpu: { readonly CpuShares: number };
  readonly Memory: { readonly MemoryMB: number };
  readonly Disk: { readonly DiskMB: number };
  readonly Networks: readonly never[] | { readonly ReservedHostPorts: string };
}
