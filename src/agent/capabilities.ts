/** Owns what this host lets us do to tasks, and for each thing it does not, what the operator can do about it. Pure. */
import type { HostCapability } from '../api/operations.js';
import type { CgroupFeature, Cgroups } from '../executor/cgroups.js';
import type { HostIsolation } from '../executor/host-isolation.js';

export interface HostSeen {
  readonly cgroups: Pick<Cgroups, 'mode' | 'controllers' | 'features' | 'missing' | 'delegated'>;
  readonly uid: number;
  readonly isolation: HostIsolation;
}

/** In the order of what an operator misses most. */
export function decideCapabilities({ cgroups, uid, isolation }: HostSeen): readonly HostCapability[] {
  const { mode, controllers, features } = cgroups;
  const limit = (name: string, controller: string, without: string): HostCapability => {
    const has = controllers.has(controller);
    return has
      ? { name, available: true, detail: `by the ${controller} controller of cgroup ${mode}`, cure: '' }
      : { name, available: false, detail: without, cure: cureFor(controller, { cgroups, uid, isolation }) };
  };
  const feature = (
    name: string,
    wanted: CgroupFeature,
    controller: string,
    says: { readonly how: string; readonly without: string; readonly cure: string },
  ): HostCapability => {
    if (!controllers.has(controller)) return limit(name, controller, says.without);
    return features.has(wanted)
      ? { name, available: true, detail: says.how, cure: '' }
      : { name, available: false, detail: says.without, cure: says.cure };
  };
  const isRoot = uid === 0;
  return [
    limit('limit memory', 'memory', 'a task may take all memory of the host'),
    limit('limit CPU time', 'cpu', 'cpu and cpu_percent have no effect'),
    limit('limit processes', 'pids', 'pids has no effect: a fork bomb hits the host'),
    feature('limit swap', 'swap', 'memory', {
      how: `by the memory controller of cgroup ${mode}`,
      without: 'memory_swap has no effect: a task may take swap beyond its memory',
      cure: 'use a kernel with CONFIG_SWAP; on cgroup v1 start it with swapaccount=1',
    }),
    limit('reserve cores', 'cpuset', 'a task that asks for cores does not start'),
    limit('limit disk I/O', 'io', 'io_read and io_write have no effect'),
    feature('share disks by weight', 'io_weight', 'io', {
      how: 'by the I/O scheduler bfq, or iocost, on disks that use it',
      without: 'io_weight has no effect: no disk shares itself by weight',
      cure: 'choose the I/O scheduler bfq (echo bfq > /sys/block/DISK/queue/scheduler), or on cgroup v2 turn on iocost (io.cost.qos), and start the agent anew; the kernel needs CONFIG_IOSCHED_BFQ or CONFIG_BLK_CGROUP_IOCOST',
    }),
    limit('notice OOM kills', 'memory', 'a task killed for want of memory looks like any SIGKILL'),
    {
      name: 'kill whole trees',
      available: mode !== 'none',
      detail:
        mode === 'none'
          ? 'processes are found by their parents and a mark in their environment: one that hides can escape'
          : 'by its cgroup: nothing escapes',
      cure: mode === 'none' ? cureFor('any', { cgroups, uid, isolation }) : '',
    },
    {
      name: 'run as another user',
      available: isRoot,
      detail: isRoot ? 'the agent is root' : 'every task runs as the user of the agent',
      cure: isRoot ? '' : 'start the agent as root',
    },
    ...shutIn(isolation),
  ];
}

function shutIn({ fault, namespaces, userNamespace, seccomp }: HostIsolation): readonly HostCapability[] {
  const kinds = [...namespaces].filter((name) => name !== 'user' || userNamespace).join(', ');
  return [
    {
      name: 'shut tasks in',
      available: fault === undefined,
      detail:
        fault === undefined
          ? `own root and namespaces (${kinds})`
          : `driver exec cannot be used: ${fault.problem}`,
      cure: fault?.cure ?? '',
    },
    {
      name: 'filter system calls',
      available: seccomp,
      detail: seccomp ? 'by seccomp' : 'driver exec works only with seccomp = "unconfined"',
      cure: seccomp ? '' : 'use a kernel with CONFIG_SECCOMP_FILTER',
    },
  ];
}

function cureFor(controller: string, { cgroups, uid }: HostSeen): string {
  const seen = seenOf(cgroups.missing);
  if (uid !== 0 && cgroups.delegated.length > 0) {
    const own = cgroups.missing.filter((text) => isAbout(text, controller));
    return `the cgroup delegated to the agent lets it have no ${controller} controller: delegate it (Delegate=yes and DelegateSubgroup=holdfast-agent in its unit) with nobody else in it, or start the agent as root${seenOf(own)}`;
  }
  if (uid !== 0)
    return `start the agent as root, or in a cgroup that is delegated to its user (Delegate=yes and DelegateSubgroup=holdfast-agent in its unit, docs/service.md)${seen}`;
  if (cgroups.mode === 'none') {
    return `mount cgroup2 writable at /sys/fs/cgroup; in a container, start it with a writable cgroup of its own${seen}`;
  }
  return `the kernel offers no ${controller} controller here: enable it at boot (cgroup_enable=${controller}), or let it into cgroup.subtree_control from the top down${seen}`;
}

/** The first of them, for people. */
function seenOf([first, ...more]: readonly string[]): string {
  const others = more.length === 0 ? '' : `; and ${more.length} more like it`;
  return first === undefined ? '' : ` (${first}${others})`;
}

/** Whether what is missing is this controller, or whatever there is in the v2 tree. */
function isAbout(text: string, controller: string): boolean {
  const name = controller === 'io' ? '(?:io|blkio)' : controller;
  return text.startsWith('cgroup v2: ') || new RegExp(`^cgroup (?:v\\d )?${name}\\b`).test(text);
}
