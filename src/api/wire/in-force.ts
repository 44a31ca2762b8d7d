/** Owns the shape of what a running task really got, as the kernel says it. */

/** Part of a task's state, in the answer about one alloc, while it runs under an executor. */
export interface InForceJson {
  /** null when it could not be looked at, or had ended before it was. */
  readonly Process: {
    /** Those it does not share with the agent: mount, pid, ipc, uts, cgroup, net, user. */
    readonly OwnNamespaces: readonly string[];
    /** As the host counts, also in a user namespace. */
    readonly UID: number;
    readonly GID: number;
    readonly Groups: readonly number[];
    /** The name of UID on the agent's host; '' when it has none in /etc/passwd. */
    readonly User: string;
    readonly Capabilities: {
      readonly Effective: readonly string[];
      readonly Permitted: readonly string[];
      readonly Inheritable: readonly string[];
      readonly Bounding: readonly string[];
      readonly Ambient: readonly string[];
    };
    readonly NoNewPrivs: boolean;
    readonly Seccomp: 'off' | 'strict' | 'filter';
    /** Octal. */
    readonly Umask: string;
    readonly Nice: number | null;
    readonly OOMScoreAdj: number | null;
    /** By the name of the job file's `ulimit`; null = unlimited. */
    readonly Rlimits: Readonly<
      Record<string, { readonly Soft: number | null; readonly Hard: number | null }>
    >;
    readonly Mounts: { readonly Total: number; readonly ReadOnly: number } | null;
  } | null;
  /** Directories of its cgroup, one for each hierarchy; none = nothing is limited. */
  readonly Cgroups: readonly string[];
  /** null = no limit, or not to be had on this host. */
  readonly Limits: {
    readonly MemoryMaxBytes: number | null;
    readonly MemoryReserveBytes: number | null;
    readonly SwapMaxBytes: number | null;
    /** Of one core. */
    readonly CPUPercent: number | null;
    /** cgroup v1. */
    readonly CPUShares: number | null;
    /** cgroup v2. */
    readonly CPUWeight: number | null;
    /** The cores it may run on, `0-2,5`. */
    readonly CPUs: string | null;
    readonly Pids: number | null;
    readonly IOWeight: number | null;
    /** Set, but no disk of the host shares by weight. */
    readonly IOWeightIdle: number | null;
    readonly IOReadBps: number | null;
    readonly IOWriteBps: number | null;
  };
}
