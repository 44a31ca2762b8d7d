/** Owns how this host looks as the only node of a cluster, and as an agent. */
import type { NodeScheduling } from '../scheduler/drain.js';
import type { StoreTrouble } from '../state/store.js';
import type { AgentOperations, NodeFacts } from './operations.js';
import {
  msToRfc3339,
  type AgentHealth,
  type AgentMember,
  type AgentSelf,
  type DriverInfo,
  type Node,
  type NodeListStub,
  type NodeSchedulingJson,
  type ResourcesJson,
} from './wire.js';

export const REGION = 'global';
export const DATACENTER = 'dc1';

export function nodeSchedulingToWire({ eligible, drain }: NodeScheduling): NodeSchedulingJson {
  return {
    Drain: drain !== undefined,
    SchedulingEligibility: eligible ? 'eligible' : 'ineligible',
    DrainStrategy:
      drain === undefined
        ? null
        : {
            Deadline:
              drain.deadlineMs === undefined ? 0 : drain.deadlineMs === 0 ? -1 : drain.deadlineMs * 1e6,
            IgnoreSystemJobs: drain.ignoreSystemJobs,
            ForceDeadline: msToRfc3339(drain.dueAt?.wallMs),
            StartedAt: msToRfc3339(drain.startedAtMs),
          },
  };
}

export function nodeToStub(operations: AgentOperations): NodeListStub {
  const facts = operations.node();
  const scheduling = nodeSchedulingToWire(operations.scheduling());
  return {
    ID: facts.nodeId,
    Name: facts.name,
    Address: '127.0.0.1',
    Datacenter: DATACENTER,
    NodePool: 'default',
    NodeClass: '',
    Version: facts.version,
    Drain: scheduling.Drain,
    SchedulingEligibility: scheduling.SchedulingEligibility,
    Status: 'ready',
    StatusDescription: '',
    Attributes: facts.attributes,
    Drivers: driversToWire(facts),
    CreateIndex: 1,
    ModifyIndex: 1,
  };
}

export function nodeToWire(operations: AgentOperations): Node {
  const facts = operations.node();
  return {
    ...nodeToStub(operations),
    HTTPAddr: '',
    TLSEnabled: false,
    NodeResources: {
      Cpu: { CpuShares: facts.cpuMhzTotal },
      Memory: { MemoryMB: facts.memoryMibTotal },
      Disk: { DiskMB: 0 },
      Networks: [],
    },
    ReservedResources: {
      Cpu: { CpuShares: 0 },
      Memory: { MemoryMB: 0 },
      Disk: { DiskMB: 0 },
      Networks: { ReservedHostPorts: '' },
    },
    Resources: resources(facts.cpuMhzTotal, facts.memoryMibTotal),
    Reserved: resources(0, 0),
    Links: {},
    Meta: {},
    DrainStrategy: nodeSchedulingToWire(operations.scheduling()).DrainStrategy,
    StatusUpdatedAt: Math.floor(facts.startedAtMs / 1000),
    Events: [],
    HostVolumes: {},
    Holdfast: {
      BootID: facts.bootId,
      DataDir: facts.dataDir,
      Socket: facts.socket,
      NodeVersion: facts.nodeVersion,
      CgroupMode: facts.cgroupMode,
      CgroupsDelegated: facts.cgroupsDelegated,
      Capabilities: facts.capabilities.map(({ name, available, detail, cure }) => ({
        Name: name,
        Available: available,
        Detail: detail,
        Cure: cure,
      })),
      StartedAt: msToRfc3339(facts.startedAtMs),
      Warnings: operations.warnings(),
    },
  };
}

export function agentSelfToWire(operations: AgentOperations): AgentSelf {
  const facts = operations.node();
  return {
    config: {
      Region: REGION,
      Datacenter: DATACENTER,
      Name: facts.name,
      NodeName: facts.name,
      DataDir: facts.dataDir,
      Version: { Version: facts.version, Revision: '', VersionPrerelease: '', VersionMetadata: '' },
      Server: { Enabled: true },
      Client: { Enabled: true },
    },
    member: memberToWire(facts),
    stats: {
      client: { node_id: facts.nodeId, known_servers: '', num_allocations: '' },
      holdfast: {
        version: facts.version,
        boot_id: facts.bootId,
        data_dir: facts.dataDir,
        started_at: msToRfc3339(facts.startedAtMs),
      },
    },
  };
}

export function memberToWire(facts: NodeFacts): AgentMember {
  return {
    Name: `${facts.name}.${REGION}`,
    Addr: '127.0.0.1',
    Port: 4648,
    Status: 'alive',
    Tags: { role: 'holdfast', region: REGION, dc: DATACENTER, build: facts.version, id: facts.nodeId },
  };
}

/** @param trouble of the disk: then the agent is not well */
export function healthToWire(operations: AgentOperations, trouble: StoreTrouble | undefined): AgentHealth {
  const ok = trouble === undefined;
  const notes = [...(ok ? [] : [`the disk refuses writes: ${trouble.error}`]), ...operations.warnings()];
  const message = notes.length === 0 ? 'ok' : notes.join('; ');
  return { client: { ok, message }, server: { ok, message } };
}

function driversToWire(facts: NodeFacts): Readonly<Record<string, DriverInfo>> {
  const updated = msToRfc3339(facts.startedAtMs);
  return Object.fromEntries(
    Object.entries(facts.drivers).map(([name, driver]) => [
      name,
      {
        Attributes: driver.attributes,
        Detected: driver.health !== 'undetected',
        Healthy: driver.health === 'healthy',
        HealthDescription: driver.description,
        UpdateTime: updated,
      },
    ]),
  );
}

function resources(cpuMhz: number, memoryMib: number): ResourcesJson {
  return { CPU: cpuMhz, MemoryMB: memoryMib, MemoryMaxMB: 0, DiskMB: 0 };
}
