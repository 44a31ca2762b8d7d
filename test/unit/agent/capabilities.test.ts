import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HostIsolation } from '../../../src/executor/host-isolation.js';
import { decideCapabilities, type HostSeen } from '../../../src/agent/capabilities.js';

const controllers = new Set(['memory', 'cpu', 'pids', 'cpuset', 'io']);
const features = new Set(['swap', 'io_weight'] as const);
const all = { mode: 'v2', controllers, features, missing: [], delegated: [] } as const;
const isolation = {
  namespaces: new Set(['mount', 'pid']),
  userNamespace: false,
  seccomp: true,
  fault: undefined,
} as const satisfies HostIsolation;
const decide = (seen: Omit<HostSeen, 'isolation'> & Partial<HostSeen>) =>
  decideCapabilities({ isolation, ...seen });
const missingOf = (seen: Parameters<typeof decide>[0]) => decide(seen).filter(({ available }) => !available);

describe('capabilities of a host', () => {
  it('root with all controllers misses nothing', () => {
    assert.deepEqual(missingOf({ cgroups: all, uid: 0 }), []);
  });

  it('every missing one has a cure, every available one has none', () => {
    const none = {
      mode: 'none',
      controllers: new Set<string>(),
      features: new Set<never>(),
      missing: ['cgroup v2: EACCES'],
      delegated: [],
    } as const;
    const fault = { problem: 'cannot have namespaces: EPERM', cure: 'give the agent CAP_SYS_ADMIN' };
    for (const seen of [
      { cgroups: none, uid: 0 },
      { cgroups: none, uid: 1000 },
      { cgroups: all, uid: 0, isolation: { ...isolation, seccomp: false, fault } },
      { cgroups: { ...all, controllers: new Set(['cpu']) }, uid: 0 },
      { cgroups: { ...all, features: new Set<never>() }, uid: 0 },
    ])
      for (const { name, available, cure } of decide(seen)) assert.equal(cure === '', available, name);
    assert.equal(missingOf({ cgroups: none, uid: 1000 }).length, 10);
  });

  it('weights of disks take a disk that heeds them, and the cure says how to get one', () => {
    const [share] = missingOf({ cgroups: { ...all, features: new Set(['swap'] as const) }, uid: 0 });
    assert.equal(share?.name, 'share disks by weight');
    assert.match(share.cure, /scheduler bfq .*iocost/);
  });

  it('the cure is for this host: root, a mount, or a controller, with what was seen', () => {
    const none = {
      mode: 'none',
      controllers: new Set<string>(),
      features: new Set<never>(),
      missing: ['cgroup v2: EROFS'],
      delegated: [],
    } as const;
    assert.match(missingOf({ cgroups: none, uid: 1000 })[0]?.cure ?? '', /as root.*EROFS/);
    assert.match(missingOf({ cgroups: none, uid: 1000 })[0]?.cure ?? '', /Delegate=yes/);
    assert.match(missingOf({ cgroups: none, uid: 0 })[0]?.cure ?? '', /mount cgroup2.*EROFS/);
    const part = {
      ...all,
      controllers: new Set(['cpu']),
      delegated: ['/sys/fs/cgroup/a.service'],
      missing: ['cgroup v1 cpuset: EACCES', 'cgroup v2 memory controller: EBUSY'],
    };
    assert.match(
      missingOf({ cgroups: part, uid: 1000 })[0]?.cure ?? '',
      /no memory controller.*Delegate=yes.*root \(cgroup v2 memory controller: EBUSY\)$/,
    );
    const [memory] = missingOf({ cgroups: { ...all, controllers: new Set(['cpu', 'pids']) }, uid: 0 });
    assert.match(memory?.cure ?? '', /cgroup_enable=memory/);
  });
});
